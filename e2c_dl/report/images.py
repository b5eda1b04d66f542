"""One picture of a run, 1600 by 900, for a README or a slide: the answer, where the time went, and the topology."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from e2c_dl import formatting
from e2c_dl.atomic_write import written
from e2c_dl.diagnosis.model import ElementKind, HostSummary, Report
from e2c_dl.diagnosis.states import State
from e2c_dl.report import colours
from e2c_dl.report.page.map import LOOKS, link_kind, positions
from e2c_dl.report.rows import LinkRow, links_off
from e2c_dl.report.verdict import Tone, verdict_of
from e2c_dl.topology import Pair

INK, SOFT, PAPER = "#1b1f24", "#59636e", "#ffffff"
DPI = 100  # of 16 by 9 inches
HEADLINE_WIDTH = 98  # characters in a line


def picture(report: Report, links: Sequence[LinkRow], title: str, path: Path) -> None:
    """``path``, a PNG of 1600 by 900 pixels, shows ``report``. Raises: ArchiveError if it cannot be written."""
    figure = Figure(figsize=(16, 9), dpi=DPI, facecolor=PAPER)
    canvas: Any = FigureCanvasAgg(figure)  # no display is needed, and pyplot keeps no state
    said = verdict_of(report, links_off=links_off(links))
    colour = colours.CULPRIT if said.tone is Tone.CULPRITS else INK
    figure.text(0.04, 0.945, _literal(title), fontsize=15, color=SOFT, va="center")
    headline = textwrap.fill(_literal(said.headline), HEADLINE_WIDTH)
    figure.text(0.04, 0.915, headline, fontsize=18, color=colour, weight="bold", va="top", linespacing=1.35)
    _draw_states(figure.add_axes((0.09, 0.09, 0.40, 0.62)), report)
    _draw_topology(figure.add_axes((0.55, 0.05, 0.43, 0.70)), report, links)
    with written(path) as place:
        canvas.print_png(place)


def _draw_states(axes: Any, report: Report) -> None:
    """A stacked bar per worker, rank 0 on top."""
    slow = {each.src for each in report.blamed if each.kind is ElementKind.HOST}
    rows = range(len(report.hosts))
    before = [0.0] * len(report.hosts)
    longest = max((host.wall_s for host in report.hosts), default=0.0)
    for state in State:
        spent = [host.states_s.get(state, 0.0) for host in report.hosts]
        axes.barh(rows, spent, left=before, height=0.62, color=colours.STATES[state], label=state.value)
        for row, (start, length) in enumerate(zip(before, spent, strict=True)):
            if length > 0.07 * longest:  # a narrower piece has no room for a share
                share = formatting.percent(length / report.hosts[row].wall_s)
                look = {"color": colours.STATE_TEXT[state], "fontsize": 11, "ha": "center", "va": "center"}
                axes.text(start + length / 2, row, share, **look)
        before = [a + b for a, b in zip(before, spent, strict=True)]
    axes.tick_params(length=0, labelcolor=INK)
    axes.set_yticks(rows, [_literal(host.host) for host in report.hosts], fontsize=13)
    for tick, host in zip(axes.get_yticklabels(), report.hosts, strict=True):
        tick.set_color(colours.CULPRIT if host.host in slow else INK)
        tick.set_weight("bold" if host.host in slow else "normal")
    axes.invert_yaxis()  # counts from the top: rank 0 first
    axes.set_xlabel("seconds of training", fontsize=12, color=SOFT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, frameon=False, fontsize=12, columnspacing=1.2)


def _draw_topology(axes: Any, report: Report, links: Sequence[LinkRow]) -> None:
    placed = positions(report.hosts)
    slow_links: set[Pair] = {(each.src, each.dst or "") for each in report.blamed if each.kind is ElementKind.LINK}
    slow_hosts = {each.src for each in report.blamed if each.kind is ElementKind.HOST}
    for row in links:
        if row.used and row.src in placed and row.dst in placed:  # as on the page: links that training used
            colour = LOOKS[link_kind(row, slow_links)].colour
            look: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 20, "connectionstyle": "arc3,rad=0.08"}
            look |= {"shrinkA": 18, "shrinkB": 18, "color": colour, "linewidth": 3}  # heads end before hosts' dots
            axes.add_patch(FancyArrowPatch(placed[row.src], placed[row.dst], **look))
    for host in report.hosts:
        _draw_host(axes, host, placed[host.host], host.host in slow_hosts)
    top = max((y for _, y in placed.values()), default=0.0) + 0.5
    columns = {host.layer: placed[host.host][0] for host in report.hosts}
    for layer, x in columns.items():
        axes.text(x, top, _literal(layer).upper(), ha="center", fontsize=12, color=SOFT, weight="bold")
    axes.set(xlim=(-0.4, max(len(columns), 1) - 0.4), ylim=(0.1, top + 0.15))
    axes.axis("off")  # places mean nothing: only layers and links do


def _draw_host(axes: Any, host: HostSummary, place: tuple[float, float], slow: bool) -> None:
    colour = colours.CULPRIT if slow else colours.STATES[State.COMPUTE]
    axes.plot(*place, marker="o", markersize=26, color=colour, zorder=3)  # above the arrows
    text = f"{_literal(host.host)}\n{formatting.seconds(host.compute_per_iteration_s)}"
    look = {"fontsize": 12, "color": colours.CULPRIT if slow else INK, "ha": "left", "va": "bottom", "zorder": 4}
    axes.annotate(text, place, xytext=(14, 12), textcoords="offset points", **look)


def _literal(text: str) -> str:
    """``text`` as it is: a dollar sign would begin mathematics."""
    return text.replace("$", r"\$")
