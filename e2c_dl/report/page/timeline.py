"""The timeline: one line of states and one of computation per worker, one of messages per link; all of it zoomable.

::

    edge-1            |#####compute#####|~~propagate~~|..wait..|      thick: the state
                       fwd |b0 |b1 |b2 |                              thin: what was computed, shades alternate
    edge-1 -> fog-1                 ==== ==== ====                    messages, shades alternate

Thousands of intervals stay quick because each kind is *one* line that breaks between them. What would be too many even
so is drawn coarser, and the caption says so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from e2c_dl import formatting
from e2c_dl.diagnosis.activity import Activity, Delivery, Interval, Lane, Piece
from e2c_dl.diagnosis.states import Phase, State
from e2c_dl.report import colours
from e2c_dl.report.page.figures import framed, label
from e2c_dl.topology import Pair

MOST_WORKERS = 24  # more lanes are too thin to read
MOST_INTERVALS = 60_000  # of states; beyond, lanes are drawn in steps
STEPS_PER_LANE = 4_000
MOST_DETAILS = 40_000  # computations and messages; beyond, only those of some iterations
DETAILED_ITERATIONS = 20  # what a reader zooms into
WORKER_PX, LINK_PX = 46, 24
SHADES = (1.0, 0.62)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The figure, the window to open it with, and what was left out (sentences)."""

    figure: Any
    window_s: tuple[float, float]
    end_s: float
    left_out: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Heights of lanes: the unit is one worker's lane, down is positive."""

    workers: dict[str, float]
    links: dict[Pair, float]


def timeline(activity: Activity, hosts: Collection[str] = (), links: Collection[Pair] = ()) -> Drawn:
    """The timeline of ``activity``; ``hosts`` and ``links`` are the culprits, to be marked."""
    lanes, left_out = _chosen(activity.lanes, hosts)
    deliveries, pieces, detail_note = _details(activity, lanes)
    places = _places(lanes, deliveries)
    figure = go.Figure()
    intervals, step_note = _stepped(lanes)
    for state in State:
        _add_states(figure, state, [(places.workers[host], own) for host, own in intervals])
    _add_pieces(figure, places, pieces)
    _add_messages(figure, places, deliveries)
    _add_marks(figure, places, lanes)
    window = activity.window()
    _lay_out(figure, places, window, hosts, links)
    notes = tuple(note for note in (left_out, step_note, detail_note) if note)
    return Drawn(figure=framed(figure), window_s=window, end_s=activity.end_s, left_out=notes)


def dominant(states: Sequence[Interval], steps: int) -> list[Interval]:
    """At most ``steps`` intervals over the same time: each equal step shows the state that took most of it."""
    start, end = states[0][0], states[-1][1]
    grid = np.linspace(start, end, steps + 1)
    order = list(State)
    spent = np.zeros((len(order), steps))
    for code, state in enumerate(order):
        own = np.array([(a, b) for a, b, s in states if s is state]).reshape(-1, 2)  # (0, 2) of none
        lengths = own[:, 1] - own[:, 0]
        after = np.cumsum(lengths)
        moments = np.concatenate([[start], own.ravel(), [end]])
        so_far = np.concatenate([[0.0], np.stack([after - lengths, after], axis=1).ravel(), [lengths.sum()]])
        spent[code] = np.diff(np.interp(grid, moments, so_far))  # exact, however many fall into a step
    codes = spent.argmax(axis=0)
    kept = np.flatnonzero(np.diff(codes, prepend=-1))  # -1 is no code: the first is kept
    changes = np.append(grid[kept], end).tolist()
    return [(a, b, order[codes[k]]) for a, b, k in zip(changes[:-1], changes[1:], kept, strict=True)]


def _chosen(lanes: Sequence[Lane], culprits: Collection[str]) -> tuple[list[Lane], str]:
    if len(lanes) <= MOST_WORKERS:
        return list(lanes), ""
    first = sorted(lanes, key=lambda lane: (lane.host not in culprits, lane.rank))[:MOST_WORKERS]  # culprits first
    note = f"{MOST_WORKERS} of {len(lanes)} workers are drawn: culprits, then by rank."
    return sorted(first, key=lambda lane: lane.rank), note  # drawn by rank, whoever was chosen


def _stepped(lanes: Sequence[Lane]) -> tuple[list[tuple[str, Sequence[Interval]]], str]:
    if sum(len(lane.states) for lane in lanes) <= MOST_INTERVALS:
        return [(lane.host, lane.states) for lane in lanes], ""
    step_s = max(lane.states[-1][1] - lane.states[0][0] for lane in lanes if lane.states) / STEPS_PER_LANE
    drawn: list[tuple[str, Sequence[Interval]]] = [
        (lane.host, dominant(lane.states, STEPS_PER_LANE) if lane.states else ()) for lane in lanes
    ]
    return drawn, f"States are drawn in steps of {formatting.seconds(step_s)}: each shows what took most of it."


def _details(activity: Activity, lanes: Sequence[Lane]) -> tuple[list[Delivery], list[tuple[str, Piece]], str]:
    """Messages and computations to draw, of the drawn workers; and what was left out."""
    drawn = {lane.host for lane in lanes}
    deliveries = [t for t in activity.deliveries if t.src in drawn and t.dst in drawn]  # both its ends have a lane
    pieces = [(lane.host, piece) for lane in lanes for piece in lane.pieces]
    if len(deliveries) + len(pieces) <= MOST_DETAILS:
        return deliveries, pieces, ""
    low, high = activity.window(DETAILED_ITERATIONS)
    deliveries = [t for t in deliveries if t.end_s >= low and t.start_s <= high]
    pieces = [(host, p) for host, p in pieces if p.end_s >= low and p.start_s <= high]
    between = f"{formatting.seconds(low)} and {formatting.seconds(high)}"
    return deliveries, pieces, f"Computations and messages are drawn between {between} only: there are too many."


def _places(lanes: Sequence[Lane], deliveries: Sequence[Delivery]) -> _Places:
    workers = {lane.host: float(row) for row, lane in enumerate(lanes)}
    pairs = sorted({(t.src, t.dst) for t in deliveries}, key=lambda pair: (workers[pair[0]], workers[pair[1]]))
    step = LINK_PX / WORKER_PX
    return _Places(workers=workers, links={pair: len(workers) + step * row for row, pair in enumerate(pairs)})


def _line(rows: Sequence[tuple[float, float, float]], points: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """x and y of one line that is drawn over each (start, end, height) and breaks between; ``points`` on each."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)  # (0, 3) of none
    xs = np.linspace(table[:, 0], table[:, 1], points, axis=1)
    xs = np.concatenate([xs, np.full((len(table), 1), np.nan)], axis=1)  # NaN breaks the line
    return xs.ravel(), np.repeat(table[:, 2], points + 1).astype(np.float32)  # half the bytes on the page


def _add_states(figure: Any, state: State, lanes: Sequence[tuple[float, Sequence[Interval]]]) -> None:
    rows = [(a, b, height - 0.14) for height, intervals in lanes for a, b, s in intervals if s is state]
    x, y = _line(rows, 2)
    figure.add_scatter(
        x=x,
        y=y,
        name=state.value,
        mode="lines",
        line={"color": colours.STATES[state], "width": 18},
        legendgroup=state.value,
        hovertemplate=f"%{{x:.4f}} s<extra>{state.value}</extra>",
    )


def _add_pieces(figure: Any, places: _Places, pieces: Sequence[tuple[str, Piece]]) -> None:
    for phase in sorted({piece.phase for _, piece in pieces}):
        own = [(host, piece) for host, piece in pieces if piece.phase is phase]
        rows = [(p.start_s, p.end_s, places.workers[host] + 0.24) for host, p in own]
        facts = [(p.iteration, p.bucket, 0) for _, p in own]
        name = Phase(phase).name.lower()
        shades = [max(p.bucket, 0) % 2 for _, p in own]  # -1: no bucket
        hover = f"{name}, iteration %{{customdata[0]}}, bucket %{{customdata[1]}}<br>%{{x:.4f}} s<extra></extra>"
        _add_shaded(figure, rows, facts, shades, (name, colours.PHASES[phase], 6, hover))


def _add_messages(figure: Any, places: _Places, deliveries: Sequence[Delivery]) -> None:
    rows = [(t.start_s, t.end_s, places.links[(t.src, t.dst)]) for t in deliveries]
    facts = [(t.iteration, t.bucket, t.nbytes) for t in deliveries]
    counted: dict[Pair, int] = {}
    shades = []
    for t in deliveries:
        pair = (t.src, t.dst)
        counted[pair] = counted.get(pair, 0) + 1
        shades.append(counted[pair] % 2)
    hover = "iteration %{customdata[0]}, bucket %{customdata[1]}, %{customdata[2]} bytes<br>%{x:.4f} s<extra></extra>"
    _add_shaded(figure, rows, facts, shades, ("message", colours.MESSAGE, 11, hover))


def _add_shaded(
    figure: Any,
    rows: Sequence[tuple[float, float, float]],
    facts: Sequence[tuple[int, int, int]],
    shades: Sequence[int],
    look: tuple[str, str, int, str],
) -> None:
    """One trace per shade, so that neighbours can be told apart; ``look`` is name, colour, width, hover template."""
    name, colour, width, hover = look
    for index, opacity in enumerate(SHADES):
        chosen = [row for row in range(len(rows)) if shades[row] == index]
        x, y = _line([rows[row] for row in chosen], 3)
        figure.add_scatter(
            x=x,
            y=y,
            customdata=np.repeat(np.array([facts[r] for r in chosen], dtype=np.int32).reshape(-1, 3), 4, axis=0),
            name=name,
            mode="lines",
            opacity=opacity,
            line={"color": colour, "width": width},
            legendgroup=name,
            showlegend=index == 0 and bool(rows),  # one entry for both shades
            hovertemplate=hover,
        )


def _add_marks(figure: Any, places: _Places, lanes: Sequence[Lane]) -> None:
    """A thin stroke where each worker's iterations begin."""
    x: list[float | None] = []
    y: list[float | None] = []
    numbers: list[int | None] = []
    for lane in lanes:
        for iteration in lane.iterations:
            height = places.workers[lane.host]
            x += [iteration.start_s, iteration.start_s, None]  # None breaks the stroke
            y += [height - 0.42, height + 0.38, None]
            numbers += [iteration.iteration, iteration.iteration, None]
    figure.add_scatter(
        x=x,
        y=y,
        customdata=numbers,
        name="iteration begins",
        mode="lines",
        line={"color": colours.MARK, "width": 1.5},
        hovertemplate="iteration %{customdata} begins<br>%{x:.4f} s<extra></extra>",
    )


def _lay_out(
    figure: Any, places: _Places, window: tuple[float, float], hosts: Collection[str], links: Collection[Pair]
) -> None:
    heights = [*places.workers.values(), *places.links.values()]
    names = [label(host, host in hosts) for host in places.workers]
    names += [label(f"{src} → {dst}", (src, dst) in links) for src, dst in places.links]
    bottom = max(heights, default=0.0) + 0.4
    pixels = 130 + WORKER_PX * len(places.workers) + LINK_PX * len(places.links)
    figure.update_layout(height=pixels, hovermode="closest", dragmode="zoom")
    figure.update_yaxes(tickvals=heights, ticktext=names, range=[bottom, -0.6], fixedrange=True, showgrid=False)
    figure.update_xaxes(title="seconds since training began", range=list(window))
