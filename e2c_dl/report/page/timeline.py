"""The timeline's content: a line of states and of computation per worker, a line of messages per link, packed.

::

    edge-1            |#####compute#####|~~propagate~~|..wait..|      thick: the state
                       fwd |b0 |b1 |b2 |                              thin: what was computed, shades alternate
    edge-1 -> fog-1                 ==== ==== ====                    messages, shades alternate

The page draws it (web/timeline.js), as fine as its pixels allow: where several states share a pixel, by their shares of
that pixel's time. Of a run with more than a page should hold, states and messages come in equal steps, each with its
shares, but for a few iterations that are worth a closer look; the caption says which.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from e2c_dl import formatting
from e2c_dl.diagnosis.activity import Activity, Lane, Rows
from e2c_dl.diagnosis.states import STATES, Phase, partition
from e2c_dl.report.page.lines import (
    Line,
    columns_of_lines,
    columns_of_messages,
    columns_of_pieces,
    columns_of_spans,
    stepped,
    unmixed,
)
from e2c_dl.report.page.packed import Columns, packed, tick_s
from e2c_dl.topology import Pair

MOST_WORKERS = 48  # more lanes are not looked at
MOST_LINKS = 64
MOST_INTERVALS = 200_000  # of states, and of busy links; beyond, lanes come in steps
STEPS = 4_000  # in a lane
MOST_DETAILS = 120_000  # computations and messages; beyond, only those of some iterations
DETAILED_ITERATIONS = 20  # what a reader zooms into
CLOSE_ITERATIONS = 3  # the window to open with


Range = tuple[float, float]
"""(start_s, end_s)."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The packed content, the windows that have buttons, and what was left out (sentences)."""

    content: str
    windows_s: Mapping[str, tuple[float, float]]
    end_s: float
    phases: tuple[Phase, ...]  # those that occur
    left_out: tuple[str, ...]


def timeline(activity: Activity, hosts: Collection[str] = (), links: Collection[Pair] = ()) -> Drawn:
    """The timeline of ``activity``; ``hosts`` and ``links`` are the culprits, to be marked."""
    lanes, notes = _chosen(activity.lanes, hosts)
    carried, more = _chosen_links(activity, lanes, links)
    ranges = _close_looks(activity)
    tick = tick_s(activity.end_s)
    columns, steps = _lines(activity, lanes, list(carried.values()), ranges, tick)
    single, detailed, details = _single(lanes, list(carried.values()), ranges, tick)
    windows = {"all": (0.0, activity.end_s), "typical iterations": activity.window(CLOSE_ITERATIONS)}
    windows["slowest iteration"] = activity.slowest(CLOSE_ITERATIONS)
    facts = {
        "end_s": activity.end_s, "tick_s": tick, "detailed": detailed, "open": windows["typical iterations"],
        "lanes": [{"name": lane.host, "layer": lane.layer, "marked": lane.host in hosts} for lane in lanes],
        "links": [{"name": f"{src} → {dst}", "marked": (src, dst) in links} for src, dst in carried],
        "states": [state.value for state in STATES], "phases": {int(phase): phase.name.lower() for phase in Phase},
    }  # fmt: skip
    return Drawn(
        content=packed("timeline", facts, {**columns, **single}), windows_s=windows, end_s=activity.end_s,
        phases=tuple(Phase(code) for code in np.unique(single["p_phase"]).tolist()),
        left_out=(*notes, *more, *steps, *details),
    )  # fmt: skip


def _lines(
    activity: Activity, lanes: Sequence[Lane], links: Sequence[Rows], exact: Sequence[Range], tick: float
) -> tuple[Columns, list[str]]:
    """Workers' states and whether links are busy; in steps, but for what is ``exact``, if there is too much."""
    states = [Line(bounds_s=lane.bounds_s, codes=lane.codes, shares=unmixed(len(STATES))) for lane in lanes]
    busy = [_busy(rows, activity.end_s) for rows in links]
    notes = []
    if sum(len(line.codes) for line in (*states, *busy)) > MOST_INTERVALS:
        edges_s = np.linspace(0.0, activity.end_s, STEPS + 1)
        states = [stepped(line, len(STATES), edges_s, exact) for line in states]
        busy = [stepped(line, 2, edges_s, exact) for line in busy]
        notes.append(f"States are drawn in steps of {formatting.seconds(activity.end_s / STEPS)}, each by its shares.")
    return {**columns_of_lines("s", states, tick), **columns_of_lines("l", busy, tick)}, notes


def _single(
    lanes: Sequence[Lane], links: Sequence[Rows], ranges: Sequence[Range], tick: float
) -> tuple[Columns, Sequence[Range] | None, list[str]]:
    """Computations, messages and iterations one by one; of too many, those in ``ranges``, which then come second."""
    pieces, messages = [lane.pieces for lane in lanes], list(links)
    iterations = [lane.iterations for lane in lanes]
    detailed, notes = None, []
    if sum(map(len, (*pieces, *messages))) > MOST_DETAILS:
        pieces, messages, iterations = (
            [_within(rows, ranges) for rows in parts] for parts in (pieces, messages, iterations)
        )
        between = " and ".join(f"{formatting.seconds(low)} to {formatting.seconds(high)}" for low, high in ranges)
        notes.append(f"Single computations and messages are drawn from {between} only: there are too many.")
        detailed = ranges
    columns = {**columns_of_messages(messages, tick), **columns_of_pieces(pieces, tick)}
    return {**columns, **columns_of_spans("i", iterations, tick)}, detailed, notes


def _chosen(lanes: Sequence[Lane], culprits: Collection[str]) -> tuple[list[Lane], list[str]]:
    if len(lanes) <= MOST_WORKERS:
        return list(lanes), []
    first = sorted(lanes, key=lambda lane: (lane.host not in culprits, lane.rank))[:MOST_WORKERS]  # culprits first
    note = f"{MOST_WORKERS} of {len(lanes)} workers are drawn: culprits, then by rank."
    return sorted(first, key=lambda lane: lane.rank), [note]  # drawn by rank, whoever was chosen


def _chosen_links(
    activity: Activity, lanes: Sequence[Lane], culprits: Collection[Pair]
) -> tuple[dict[Pair, Rows], list[str]]:
    """The messages of links whose both ends have a lane; of too many, culprits and those that carried most."""
    row = {lane.host: number for number, lane in enumerate(lanes)}
    found = {pair: rows for pair, rows in activity.by_link.items() if pair[0] in row and pair[1] in row}
    first = sorted(found, key=lambda pair: (pair not in culprits, -int(found[pair]["nbytes"].sum())))[:MOST_LINKS]
    left_out = len(found) - len(first)
    notes = [f"{MOST_LINKS} of {len(found)} links are drawn: culprits, then by what they carried."] if left_out else []
    return {pair: found[pair] for pair in sorted(first, key=lambda pair: (row[pair[0]], row[pair[1]]))}, notes


def _close_looks(activity: Activity) -> list[tuple[float, float]]:
    """Where single computations and messages are worth their room: typical iterations, the slowest, the first."""
    if not activity.lanes or not len(activity.lanes[0].iterations):
        return [(0.0, activity.end_s)]
    looks = [activity.around(0, DETAILED_ITERATIONS), activity.window(DETAILED_ITERATIONS)]
    looks.append(activity.slowest(DETAILED_ITERATIONS))
    merged: list[tuple[float, float]] = []
    for low, high in sorted(looks):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged


def _within(rows: Rows, ranges: Sequence[tuple[float, float]]) -> Rows:
    kept = np.zeros(len(rows), dtype=bool)
    for low, high in ranges:
        kept |= (rows["end_s"] >= low) & (rows["start_s"] <= high)
    return rows[kept]


def _busy(rows: Rows, end_s: float) -> Line:
    """When a link had a message under way (0) and when not (1)."""
    times = np.rint(np.stack([rows["start_s"], rows["end_s"]], axis=1) * 1e9).astype(np.int64)
    bounds_ns, codes = partition(0, max(1, round(end_s * 1e9)), [times])
    return Line(bounds_s=bounds_ns / 1e9, codes=codes, shares=unmixed(2))
