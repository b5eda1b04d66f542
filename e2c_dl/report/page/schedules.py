"""Plots of what was requested and measured while training ran: of whatever changed, and of whatever links shared.

::

    Mbit/s |-----.  requested x axis: seconds of training
           |: :. |__:__.---   points: what training's messages and gradients measured; areas: each link's part of it
           |      :  :|# #    band: cut or paused; a line: killed; triangles: throttled, recovered
           '------------> s

``e2c-dl report ARCHIVE --figure OUT.png`` draws the same as a picture. A run in which nothing
changed, and whose links share nothing, has no such section.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from e2c_dl.atomic_write import written
from e2c_dl.diagnosis.carried import Points
from e2c_dl.diagnosis.shown.panels import Changed, Mark, Panel
from e2c_dl.diagnosis.states import State
from e2c_dl.errors import ArchiveError
from e2c_dl.report import colours
from e2c_dl.report.page import sections
from e2c_dl.report.page.figures import framed, literal

TITLE = "Requested and measured while it trained"
COLUMNS = 2
MOST_PANELS = 30
MOST_POINTS = 2_000  # of one plot; beyond, every so many-th is drawn
ROOM = 1.15  # above the greatest value requested and the bulk of the measured ones
PANEL_PX, LEGEND_PX = 230, 70
WIDTHS_IN, PANEL_IN, LEGEND_IN, DPI = {1: 8.0, 2: 11.0}, 2.4, 0.3, 140  # a picture's; widths by its columns
SECONDS = "seconds of training"
ASKED, MEASURED, BAND = colours.MESSAGE, colours.STATES[State.COMPUTE], colours.NEUTRAL
SYMBOLS = {"throttled": "triangle-up", "recovered": "triangle-down"}
MARKERS = {"throttled": "^", "recovered": "v"}


def section(changed: Changed | None, embed: Any) -> str:
    """The section of the page; nothing without ``changed``. ``embed(name, figure, title)`` places a figure."""
    if changed is None:
        return ""
    caption = (
        "Orange lines: requested, as in force. Blue: measured by training itself; of links, messages of at least "
        "32 KiB as Ethernet frames over the time each occupied its link (a busy host reads some late, and then the "
        "next too fast); of bottlenecks, all their links together over a coloured area for each; of hosts, each "
        "gradient over what it takes a host of factor 1, and each batch or step, beside by how much it was made late. "
        "Bands: cut or paused."
    )
    left_out = len(changed.panels) - MOST_PANELS
    if left_out > 0:
        caption += f" The first {MOST_PANELS} of {len(changed.panels)} plots are shown."
    content = embed("schedules", figure(changed), TITLE) if changed.panels else ""
    said = sections.folded(sections.bullets(changed.sentences), len(changed.sentences), "elements and faults")
    return sections.section(TITLE, escape(caption), content + said)


def figure(changed: Changed) -> Any:
    """The plots as one Plotly figure, in two columns; all that show the whole run zoom together in time."""
    panels = changed.panels[:MOST_PANELS]
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
    fills = share_colours(panels)
    places = [{"row": index // columns + 1, "col": index % columns + 1} for index in range(len(panels))]
    for panel, place in zip(panels, places, strict=True):
        _add(drawn, panel, place, changed.end_s, fills, named)
    framed(drawn)
    drawn.update_layout(height=height, legend_y=1 + 30 / (PANEL_PX * rows), margin_t=LEGEND_PX)
    drawn.update_annotations(font_size=13)
    drawn.update_xaxes(range=[0, changed.end_s])
    drawn.for_each_xaxis(lambda axis: axis.update(matches=None if axis.anchor == "y" else "x"))
    for column in range(1, columns + 1):
        below = (len(panels) - column) // columns + 1  # the lowest that has a plot
        drawn.update_xaxes(title_text=SECONDS, row=below, col=column)
    for panel, place in zip(panels, places, strict=True):
        if panel.window_s is not None:
            drawn.update_xaxes(range=list(panel.window_s), matches=None, **place)  # a closer look has a time of its own
    return drawn


def write_png(changed: Changed | None, path: Path) -> None:
    """The same plots as a picture at ``path``.

    Raises: ArchiveError if there is nothing to plot, or ``path`` cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # the page needs none of it
    from matplotlib.figure import Figure

    if changed is None or not changed.panels:
        raise ArchiveError(
            f"{path}: not drawn: nothing that can be plotted changed or was shared while it trained; name another run"
        )
    panels = changed.panels[:MOST_PANELS]
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = WIDTHS_IN[columns], LEGEND_IN + PANEL_IN * rows
    picture = Figure(figsize=size, dpi=DPI, facecolor="#ffffff", layout="constrained")
    canvas: Any = FigureCanvasAgg(picture)
    grid = picture.subplots(rows, columns, squeeze=False)
    fills = share_colours(panels)
    labelled: dict[str, Any] = {}
    for index, axes in enumerate(grid.flat):
        if index < len(panels):
            _draw(axes, panels[index], changed.end_s, fills)
            handles, labels = axes.get_legend_handles_labels()
            labelled |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in labelled}
        else:
            axes.axis("off")
    picture.legend(labelled.values(), labelled, loc="outside upper left", frameon=False, fontsize=9, ncols=8)
    with written(path) as place:
        canvas.print_png(place)


def share_colours(panels: Sequence[Panel]) -> dict[str, str]:
    """The colour of every share by its name, the same in all ``panels``; after the last colour the first again."""
    names = dict.fromkeys(name for panel in panels for name in panel.shares)
    return dict(zip(names, cycle(colours.SHARES), strict=False))  # cycle never ends


def thinned(points: Points) -> Points:
    """``points``, at most MOST_POINTS of them, evenly chosen."""
    return points[:: math.ceil(len(points) / MOST_POINTS) or 1]  # no points: a step of 0 is refused


def reach(panel: Panel) -> tuple[float, float]:
    """(bottom, top) of the value axis: everything requested and the bulk of what was measured; 0 is in it."""
    measured = sorted(value for _, value in panel.measured)
    values = [value for _, value in panel.requested if not math.isnan(value)]
    values += [mark.value for mark in panel.marks if mark.value is not None]
    values += measured if panel.joined else measured[: math.ceil(panel.bulk * len(measured))]
    return min(0.0, *values, 0.0), ROOM * max(0.0, *values, 0.0) or 1.0  # 0 twice: min of one number alone fails


def _held(panel: Panel, end_s: float) -> Points:
    """The schedule with its last value held until the end."""
    return [*panel.requested, (max(end_s, panel.requested[-1][0]), panel.requested[-1][1])] if panel.requested else ()


def _add(
    drawn: Any, panel: Panel, place: dict[str, int], end_s: float, fills: Mapping[str, str], named: set[str]
) -> None:
    for name, points in panel.shares.items():
        area = {"mode": "none", "fillcolor": fills[name], "line": {"shape": "hv"}, "stackgroup": "shares"}
        _trace(drawn, literal(name), thinned(points), area, place, named)
    steps = {"mode": "lines", "line": {"color": ASKED, "width": 4, "shape": "hv"}}
    _trace(drawn, "requested", _held(panel, end_s), steps, place, named)
    line = {"color": MEASURED, "width": 1.5, "shape": "hv" if panel.shares else "linear"}
    dots = {"mode": "markers", "marker": {"color": MEASURED, "size": 4, "opacity": 0.8}}
    look = {"mode": "lines", "line": line} if panel.joined else dots
    _trace(drawn, "measured", thinned(panel.measured), look, place, named)
    for word, symbol in SYMBOLS.items():
        there = [(mark.at_s, mark.value) for mark in panel.marks if mark.word == word and mark.value is not None]
        signs = {"mode": "markers", "marker": {"color": colours.CULPRIT, "size": 10, "symbol": symbol}}
        _trace(drawn, word, there, signs, place, named)
    place_all: dict[str, Any] = {**place, "exclude_empty_subplots": False}  # a plot may have bands alone
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
    first = name not in named  # each name once in the legend
    named.add(name)
    hover = f"%{{x:.2f}} s: %{{y:.4g}} {name}<extra></extra>"
    line = go.Scatter(
        x=x, y=y, name=name, legendgroup=name, showlegend=first, hovertemplate=hover, **look
    )  # fmt: skip
    drawn.add_trace(line, **place)


def _draw(axes: Any, panel: Panel, end_s: float, fills: Mapping[str, str]) -> None:
    for begin_s, stop_s in panel.bands:
        axes.axvspan(begin_s, stop_s, color=BAND, alpha=0.3, linewidth=0, label="cut or paused")
    points = thinned(panel.measured)
    if panel.shares:
        moments = [moment for moment, _ in points]
        parts = [[value for _, value in thinned(part)] for part in panel.shares.values()]
        looks = [fills[name] for name in panel.shares]
        axes.stackplot(moments, *parts, labels=panel.shares, colors=looks, step="post", linewidth=0)
    if panel.requested:
        steps = zip(*_held(panel, end_s), strict=True)
        axes.plot(*steps, color=ASKED, linewidth=3, drawstyle="steps-post", label="requested")
    if points:
        line = {"linewidth": 1.2, "drawstyle": "steps-post" if panel.shares else "default"}
        dots = {"linestyle": "none", "marker": "o", "markersize": 2.2, "alpha": 0.65}
        axes.plot(*zip(*points, strict=True), color=MEASURED, label="measured", **(line if panel.joined else dots))
    for mark in panel.marks:
        if mark.value is not None:
            look = {"color": colours.CULPRIT, "marker": MARKERS[mark.word], "linestyle": "none", "label": mark.word}
            axes.plot(mark.at_s, mark.value, **look)
    for mark in _whole(panel.marks):
        axes.axvline(mark.at_s, color=colours.CULPRIT, linestyle="--", label=mark.word)
    axes.set_title(panel.title.replace("$", r"\$"), fontsize=12, loc="left")  # a dollar sign would begin mathematics
    axes.set(xlim=panel.window_s or (0, end_s), ylim=reach(panel), xlabel=SECONDS, ylabel=panel.unit)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _whole(marks: Sequence[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark.value is None]
