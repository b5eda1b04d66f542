"""What changed while training ran: a small plot per changing element, the course asked for under what was measured.

::

    Mbit/s |-----.  asked     x axis: seconds of training
           |: :. |__:__.---   points: what training's messages and gradients measured
           |      :  :|# #    band: cut or paused; a line: killed; triangles: throttled, recovered
           '------------> s

``python -m e2c_dl.report.courses ARCHIVE OUT.png`` draws the same as a picture. A run in which nothing changed has no
such section.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.errors import ArchiveError, E2cDlError
from e2c_dl.report import colours, sections
from e2c_dl.report.changing import Points
from e2c_dl.report.figures import framed, literal
from e2c_dl.report.panels import Courses, Mark, Panel, read
from e2c_dl.trace.model import State

COLUMNS = 2
MOST_PANELS = 30
MOST_POINTS = 2_000  # of one plot; beyond, every so many-th is drawn
UNFOLDED = 12  # sentences that are shown without a click
ROOM = 1.15  # above the greatest value asked for and the bulk of the measured ones
BULK = 0.98
PANEL_PX, LEGEND_PX = 230, 70
ASKED, MEASURED, BAND = colours.MESSAGE, colours.STATES[State.COMPUTE], colours.NEUTRAL
SYMBOLS = {"throttled": "triangle-up", "recovered": "triangle-down"}


def section(courses: Courses | None, embed: Any) -> str:
    """The section of the page; nothing if nothing changed. ``embed(name, figure, title)`` places a figure."""
    if courses is None:
        return ""
    caption = (
        "Lines: asked for, as in force. Points: measured by training itself; of links, messages of at least 32 KiB "
        "as Ethernet frames over the time each occupied its link; of bottlenecks, all their links per second; "
        "of hosts, each gradient over what it takes a host of factor 1. Bands: cut or paused."
    )
    left_out = len(courses.panels) - MOST_PANELS
    if left_out > 0:
        caption += f" The first {MOST_PANELS} of {len(courses.panels)} plots are shown."
    content = embed("courses", figure(courses), "What changed while it trained") if courses.panels else ""
    said = sections.bullets(courses.sentences)
    if len(courses.sentences) > UNFOLDED:
        said = f"<details><summary>{len(courses.sentences)} changing elements and faults</summary>{said}</details>"
    return sections.section("What changed while it trained", escape(caption), content + said)


def figure(courses: Courses) -> Any:
    """The plots as one Plotly figure, in two columns; all of them zoom together in time."""
    panels = courses.panels[:MOST_PANELS]
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = LEGEND_PX + PANEL_PX * rows
    drawn = make_subplots(
        rows=rows,
        cols=columns,
        specs=[
            [{} if row * columns + column < len(panels) else None for column in range(columns)] for row in range(rows)
        ],
        subplot_titles=[literal(panel.title) for panel in panels],
        vertical_spacing=70 / height if rows > 1 else 0,
        horizontal_spacing=0.09,
    )
    named: set[str] = set()
    for index, panel in enumerate(panels):
        _add(drawn, panel, {"row": index // columns + 1, "col": index % columns + 1}, courses.end_s, named)
    framed(drawn)
    drawn.update_layout(height=height, legend_y=1 + 30 / (PANEL_PX * rows), margin_t=LEGEND_PX)
    drawn.update_annotations(font_size=13)
    drawn.update_xaxes(range=[0, courses.end_s])
    drawn.for_each_xaxis(lambda axis: axis.update(matches=None if axis.anchor == "y" else "x"))
    for column in range(1, columns + 1):
        below = (len(panels) - column) // columns + 1
        drawn.update_xaxes(title_text="seconds of training", row=below, col=column)
    return drawn


def write_png(archive: ReadArchive, path: Path) -> None:
    """The same plots as a picture at ``path``.

    Raises: ArchiveError if nothing changed in ``archive``, a piece is damaged or ``path`` cannot be written;
    AnalysisError, ScenarioError.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    courses = read(archive)
    if courses is None or not courses.panels:
        raise ArchiveError(f"{archive.path}: nothing that can be plotted changed while it trained; name another run")
    panels = courses.panels[:MOST_PANELS]
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    picture = Figure(figsize=(8 * columns, 2.8 * rows), dpi=100, facecolor="#ffffff", layout="constrained")
    canvas: Any = FigureCanvasAgg(picture)
    grid = picture.subplots(rows, columns, squeeze=False)
    for index, axes in enumerate(grid.flat):
        if index < len(panels):
            _draw(axes, panels[index], courses.end_s)
        else:
            axes.axis("off")
    try:
        canvas.print_png(path)
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be written: {error.strerror}") from error


def thinned(points: Points) -> Points:
    """``points``, at most MOST_POINTS of them, evenly chosen."""
    return points[:: math.ceil(len(points) / MOST_POINTS) or 1]


def reach(panel: Panel) -> tuple[float, float]:
    """(bottom, top) of the value axis: everything asked for and the bulk of what was measured; 0 is in it."""
    measured = sorted(value for _, value in panel.measured)
    values = [value for _, value in panel.asked if not math.isnan(value)]
    values += [mark.value for mark in panel.marks if mark.value is not None]
    values += measured if panel.joined else measured[: math.ceil(BULK * len(measured))]
    return min(0.0, *values, 0.0), ROOM * max(0.0, *values, 0.0) or 1.0


def _held(panel: Panel, end_s: float) -> Points:
    """The course with its last value held until the end."""
    return [*panel.asked, (max(end_s, panel.asked[-1][0]), panel.asked[-1][1])] if panel.asked else ()


def _add(drawn: Any, panel: Panel, place: dict[str, int], end_s: float, named: set[str]) -> None:
    dots = {"mode": "lines", "line": {"color": MEASURED, "width": 1.5}}
    if not panel.joined:
        dots = {"mode": "markers", "marker": {"color": MEASURED, "size": 5, "opacity": 0.65}}
    _trace(drawn, "measured", thinned(panel.measured), dots, place, named)
    steps = {"mode": "lines", "line": {"color": ASKED, "width": 2.5, "shape": "hv"}}
    _trace(drawn, "asked for", _held(panel, end_s), steps, place, named)
    for word, symbol in SYMBOLS.items():
        there = [(mark.at_s, mark.value) for mark in panel.marks if mark.word == word and mark.value is not None]
        look = {"mode": "markers", "marker": {"color": colours.CULPRIT, "size": 10, "symbol": symbol}}
        _trace(drawn, word, there, look, place, named)
    place_all: dict[str, Any] = {**place, "exclude_empty_subplots": False}
    for begin_s, stop_s in panel.bands:
        drawn.add_vrect(x0=begin_s, x1=stop_s, fillcolor=BAND, opacity=0.3, line_width=0, layer="below", **place_all)
    for mark in _whole(panel.marks):
        line = {"color": colours.CULPRIT, "dash": "dash", "width": 2}
        text = {"annotation_text": literal(mark.word), "annotation_position": "top left"}
        drawn.add_vline(x=mark.at_s, line=line, **text, **place_all)
    drawn.update_yaxes(title_text=panel.unit, range=list(reach(panel)), **place)


def _trace(drawn: Any, name: str, points: Points, look: dict[str, Any], place: dict[str, int], named: set[str]) -> None:
    if not points:
        return
    x, y = zip(*points, strict=True)
    first = name not in named
    named.add(name)
    hover = f"%{{x:.2f}} s: %{{y:.4g}} {name}<extra></extra>"
    line = go.Scatter(
        x=x, y=y, name=name, legendgroup=name, showlegend=first, hovertemplate=hover, **look
    )  # fmt: skip
    drawn.add_trace(line, **place)


def _draw(axes: Any, panel: Panel, end_s: float) -> None:
    for begin_s, stop_s in panel.bands:
        axes.axvspan(begin_s, stop_s, color=BAND, alpha=0.3, linewidth=0)
    points = thinned(panel.measured)
    if points:
        look = (
            {"linewidth": 1.5} if panel.joined else {"linestyle": "none", "marker": "o", "markersize": 3, "alpha": 0.65}
        )
        axes.plot(*zip(*points, strict=True), color=MEASURED, label="measured", **look)
    if panel.asked:
        steps = zip(*_held(panel, end_s), strict=True)
        axes.plot(*steps, color=ASKED, linewidth=2, drawstyle="steps-post", label="asked for")
    for mark in panel.marks:
        if mark.value is not None:
            axes.plot(mark.at_s, mark.value, color=colours.CULPRIT, marker="^" if mark.word == "throttled" else "v")
    for mark in _whole(panel.marks):
        axes.axvline(mark.at_s, color=colours.CULPRIT, linestyle="--", label=mark.word)
    axes.set_title(panel.title.replace("$", r"\$"), fontsize=12, loc="left")
    axes.set(xlim=(0, end_s), ylim=reach(panel), xlabel="seconds of training", ylabel=panel.unit)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 0.98), frameon=False, fontsize=9, ncols=3)


def _whole(marks: Sequence[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark.value is None]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m e2c_dl.report.courses ARCHIVE OUT.png")
    try:
        write_png(open_archive(Path(sys.argv[1])), Path(sys.argv[2]))
    except E2cDlError as error:
        sys.exit(f"e2c-dl: {error}")
