"""The topology as a figure: hosts in columns by layer, the links that training used as arrows, culprits in red.

::

    EDGE          FOG           CLOUD        a link's width: its measured rate, on a logarithmic scale
    edge-1        fog-2 ------> cloud-1      its colour: as designed, slower, culprit, or no rate to compare
      |             ^              |         every second column runs upwards, so that a ring over
      v             |              v         the ranks crosses itself as little as can be
    edge-2 -----> fog-1         cloud-2
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from e2c_dl import formatting
from e2c_dl.diagnosis.model import HostSummary
from e2c_dl.report import colours
from e2c_dl.report.page.figures import framed, literal
from e2c_dl.report.rows import LinkRow
from e2c_dl.topology import Pair

AS_DESIGNED = 0.95  # measured over designed rate from which a link counts as it was designed
BEND, MOST_BEND_PX = 0.07, 20.0  # of a link's length on screen: there and back do not cover each other
COLUMN_PX, ROW_PX = 340, 170  # of one unit, on a page of usual width
TALLEST_PX, FEWEST_COLUMNS = 1500, 3  # beyond, one would have to scroll through it
CROWDED_PX, TWO_LINES_PX, ONE_LINE_PX = 75.0, 32.0, 14.0
"""From host to host of a column: nearer than that names stand beside nodes, then alone, then only where one points."""
LABELLED_LINKS = 30  # more labels cover each other
LABELLED_PX = 200  # of the figure's width per column: less, and labels cover names and each other
POINTS = 25  # of a curve: smooth at page width
HEAD_AT, LABEL_AT = 0.66, 0.28  # along a link, 0 to 1
LABEL_PX = (48.0, 24.0)  # a label's distance from its link, across and up: it is wider than it is high

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a kind of link is drawn."""

    name: str
    colour: str
    dash: str = "solid"


LOOKS: Mapping[str, Look] = {
    "culprit": Look(name="culprit", colour=colours.CULPRIT),
    "slower": Look(name="slower than designed", colour="#b7791f"),
    "designed": Look(name="as designed", colour="#4a7fb5"),
    "unknown": Look(name="no rate to compare", colour=colours.NEUTRAL, dash="dot"),
}


def positions(hosts: Sequence[HostSummary]) -> dict[str, Point]:
    """Host -> (x, y): one column per layer in order of appearance; one unit between neighbours, y upwards."""
    layers: dict[str, list[str]] = {}
    for host in hosts:
        layers.setdefault(host.layer, []).append(host.host)
    tallest = max((len(names) for names in layers.values()), default=0)  # columns of fewer hosts are spread as high
    placed: dict[str, Point] = {}
    for column, names in enumerate(layers.values()):
        gap = tallest / len(names)
        downwards = names if column % 2 == 0 else names[::-1]  # every second column upwards, for rings
        placed.update({name: (float(column), tallest - gap * (i + 0.5)) for i, name in enumerate(downwards)})
    return placed


def topology(
    hosts: Sequence[HostSummary],
    links: Sequence[LinkRow],
    slow_hosts: Collection[str] = (),
    slow_links: Collection[Pair] = (),
) -> Any:
    """The map of ``hosts`` and of the used ``links``; ``slow_hosts`` and ``slow_links`` are the culprits."""
    placed = positions(hosts)
    used = [row for row in links if row.used and row.src in placed and row.dst in placed]
    figure = go.Figure()
    columns = max(FEWEST_COLUMNS, len({host.layer for host in hosts}))  # few are not pulled apart
    named: set[str] = set()
    for row in used:
        kind = link_kind(row, slow_links)
        figure.add_trace(_arrow(row, placed, LOOKS[kind], first=kind not in named))
        figure.add_annotation(_head(row, placed, LOOKS[kind]))  # a line of Plotly's has no head
        named.add(kind)  # each kind once in the legend
    if len(used) <= LABELLED_LINKS:  # of more, labels would cover each other
        figure.add_trace(_labels(used, placed, least_px=LABELLED_PX * columns))
    tallest = max((y for _, y in placed.values()), default=0.0) + 0.5
    height_px = min(TALLEST_PX, round(110 + ROW_PX * tallest))
    figure.add_trace(_nodes(hosts, placed, slow_hosts, row_px=(height_px - 110) / tallest))  # last: above the links
    _add_layers(figure, hosts, placed)
    figure.update_layout(height=height_px, hovermode="closest", dragmode=False)
    middle, half = (len({host.layer for host in hosts}) - 1) / 2, columns / 2
    figure.update_xaxes(visible=False, fixedrange=True, range=[middle - half, middle + half])
    figure.update_yaxes(visible=False, fixedrange=True, range=[-0.1, tallest + 0.3])
    return framed(figure)


def described(row: LinkRow) -> str:
    """A link in one line of HTML, as a reader who points at it wants it."""
    lines = [
        f"<b>{literal(row.src)} → {literal(row.dst)}</b>",
        f"designed {row.designed}",
        f"requested {row.requested_rate}, {row.requested_round_trip} round trip",
        f"measured {row.measured_rate}, {row.measured_round_trip} round trip",
    ]
    if row.used:
        sent = formatting.size(row.used.sent_bytes)
        lines.append(f"used at {formatting.rate(row.used.rate_bps)}: {sent} in {row.used.messages} messages")
    return "<br>".join(lines)


def link_kind(row: LinkRow, culprits: Collection[Pair]) -> str:
    """Which of LOOKS a link gets; ``culprits`` are (source, destination)."""
    if row.pair in culprits:
        return "culprit"
    ratio = row.against_design
    return "unknown" if ratio is None else "designed" if ratio >= AS_DESIGNED else "slower"


def _arrow(row: LinkRow, placed: Mapping[str, Point], look: Look, first: bool) -> Any:
    x, y = _curve(placed[row.src], placed[row.dst])
    return go.Scatter(
        x=x, y=y, name=look.name, legendgroup=look.name, showlegend=first, mode="lines",
        line={"color": look.colour, "width": _width(row), "dash": look.dash}, hovertext=described(row),
        hoverinfo="text",
    )  # fmt: skip


def _head(row: LinkRow, placed: Mapping[str, Point], look: Look) -> dict[str, Any]:
    """The arrow's head, past the middle of its link, where no other link's label stands."""
    x, y = _curve(placed[row.src], placed[row.dst])
    tip = int(POINTS * HEAD_AT)
    ends = {"x": x[tip], "y": y[tip], "ax": x[tip - 1], "ay": y[tip - 1]}
    axes = {"xref": "x", "yref": "y", "axref": "x", "ayref": "y"}
    look_of = {"arrowhead": 2, "arrowwidth": 2.6, "arrowsize": 1.5, "arrowcolor": look.colour}
    return {**ends, **axes, **look_of, "showarrow": True, "text": ""}


def _labels(links: Sequence[LinkRow], placed: Mapping[str, Point], least_px: int) -> Any:
    """Measured (of designed) rate beside the middle of each link; page.js shows them from ``least_px`` of width on."""
    places = [_beside(placed[row.src], placed[row.dst]) for row in links]
    return go.Scatter(
        x=[x for x, _ in places], y=[y for _, y in places], text=[_of_design(row) for row in links], mode="text",
        textfont={"size": 11.5}, hoverinfo="skip", showlegend=False,
        meta={"least_px": least_px},
    )  # fmt: skip


def _of_design(row: LinkRow) -> str:
    known = formatting.rate(row.known_rate_bps)
    return known if row.designed_rate_bps is None else f"{known}<br>of {formatting.rate(row.designed_rate_bps)}"


def _nodes(hosts: Sequence[HostSummary], placed: Mapping[str, Point], culprits: Collection[str], row_px: float) -> Any:
    """``row_px``: from host to host of the column that has most of them."""
    crowded = row_px < CROWDED_PX
    outside = ["top center" if placed[h.host][1] > _middle(placed) else "bottom center" for h in hosts]
    slow = [host.host in culprits for host in hosts]
    return go.Scatter(
        x=[placed[host.host][0] for host in hosts],
        y=[placed[host.host][1] for host in hosts],
        mode="markers+text",
        marker={
            "size": min(26.0, max(4.0, 0.5 * row_px)),
            "color": [colours.CULPRIT if s else colours.STATES[next(iter(colours.STATES))] for s in slow],
            "line": {"width": [7 if s else 0 for s in slow], "color": "rgba(220,59,48,0.3)"},
        },
        text=[_name(host, row_px) for host in hosts],
        textfont={"size": 10.5} if crowded else None,
        textposition=["middle right"] * len(hosts) if crowded else outside,
        hovertext=[
            f"<b>{literal(host.host)}</b>, rank {host.rank}<br>computes "
            f"{formatting.seconds(host.compute_per_iteration_s)} per iteration (median)"
            for host in hosts
        ],
        hoverinfo="text",
        showlegend=False,
    )


def _middle(placed: Mapping[str, Point]) -> float:
    return max((y for _, y in placed.values()), default=0.0) / 2 + 0.25  # names stand outside: links run inside


def _name(host: HostSummary, row_px: float) -> str:
    name = f"<b>{literal(host.host)}</b>" if row_px >= ONE_LINE_PX else ""
    return f"{name}<br>{formatting.seconds(host.compute_per_iteration_s)}" if row_px >= TWO_LINES_PX else name


def _add_layers(figure: Any, hosts: Sequence[HostSummary], placed: Mapping[str, Point]) -> None:
    """The layers' names, above their columns."""
    top = max((y for _, y in placed.values()), default=0.0) + 0.62
    for layer, column in {host.layer: placed[host.host][0] for host in hosts}.items():
        name = f"<b>{literal(layer.upper())}</b>"
        figure.add_annotation(x=column, y=top, text=name, showarrow=False, font={"size": 12, "color": colours.NEUTRAL})


def _curve(start: Point, end: Point) -> tuple[list[float], list[float]]:
    """x and y of a curve from ``start`` to ``end`` that keeps to its right."""
    (x0, y0), (x1, y1) = start, end
    across, up = _right(start, end)
    length = math.hypot(across, up) or 1.0  # 0 of two hosts at one place
    bend_px = 2 * min(BEND * length, MOST_BEND_PX)  # a curve goes half as far as its control point
    xm = (x0 + x1) / 2 + bend_px * across / length / COLUMN_PX
    ym = (y0 + y1) / 2 + bend_px * up / length / ROW_PX
    t = np.linspace(0.0, 1.0, POINTS)  # of a quadratic Bezier curve
    x = (1 - t) ** 2 * x0 + 2 * t * (1 - t) * xm + t**2 * x1
    y = (1 - t) ** 2 * y0 + 2 * t * (1 - t) * ym + t**2 * y1
    return x.tolist(), y.tolist()


def _beside(start: Point, end: Point) -> Point:
    """Where the label of a link stands: to the right of its curve."""
    x, y = _curve(start, end)
    across, up = _right(start, end)
    length = math.hypot(across, up) or 1.0
    at = int(POINTS * LABEL_AT)
    return x[at] + across / length * LABEL_PX[0] / COLUMN_PX, y[at] + up / length * LABEL_PX[1] / ROW_PX


def _right(start: Point, end: Point) -> Point:
    """The way from ``start`` to ``end`` turned a quarter to the right, in pixels."""
    return (end[1] - start[1]) * ROW_PX, -(end[0] - start[0]) * COLUMN_PX


def _width(row: LinkRow) -> float:
    """2 px at 1 Mbit/s and below, 2 px more for every factor of ten, 9 at most."""
    rate = row.known_rate_bps
    return 2.0 if not rate else min(9.0, max(2.0, 2.0 + 2.0 * math.log10(rate / 1e6)))
