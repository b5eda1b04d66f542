"""The timeline's content: a line of states and of computation per worker, a line of messages per link, packed.

::

    edge-1            |#####compute#####|~~propagate~~|..wait..|      thick: the state
                       fwd |b0 |b1 |b2 |                              thin: what was computed, shades alternate
                                --collective b0--                     finer: what a library does with its buckets
    edge-1 -> fog-1                 ==== ==== ====                    messages, shades alternate

The page draws it (web/timeline.js), as fine as its pixels allow: where several states share a pixel, by their shares of
that pixel's time. Of a run with more than a page should hold, states and messages come in equal steps, each with its
shares, but for a few iterations that are worth a closer look; the caption says which.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType

import numpy as np

from e2c_dl import formatting
from e2c_dl.diagnosis.replay.critical import CriticalSteps
from e2c_dl.diagnosis.shown.activity import Activity, Lane, Rows
from e2c_dl.diagnosis.states import STATES, Phase, partition
from e2c_dl.report.page import sections
from e2c_dl.report.page.lines import (
    Line,
    columns_of_lines,
    columns_of_messages,
    columns_of_pieces,
    columns_of_spans,
    columns_of_steps,
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
MOST_STEPS = 60_000  # of the critical path
DETAILED_ITERATIONS = 20  # what a reader zooms into
CLOSE_ITERATIONS = 3  # the window to open with
ONSET_ITERATIONS = 5


MESSAGES = "Per link: messages, from first byte's departure to last byte's arrival."
LIBRARY = (
    "Below it the collectives that this rank has joined, until it has their result. Per link: when its socket had "
    "bytes that were not acknowledged."
)

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
    of_library: bool = False  # there are collectives, and links show when they were busy


def timeline(
    activity: Activity,
    hosts: Collection[str] = (),
    links: Collection[Pair] = (),
    critical: CriticalSteps | None = None,
    onsets_s: Mapping[str, float] = MappingProxyType({}),
) -> Drawn:
    """The timeline of ``activity``, with its ``critical`` path; ``hosts`` and ``links`` are culprits, to be marked.

    ``onsets_s``: who -> when it began to depart, to be shown closer.
    """
    lanes, notes = _chosen(activity.lanes, hosts)
    carried, more = _chosen_links(activity, lanes, links)
    ranges = _close_looks(activity, list(onsets_s.values()))
    tick = tick_s(activity.end_s)
    columns, steps = _lines(activity, lanes, list(carried.values()), ranges, tick)
    single, detailed, details = _single(lanes, list(carried.values()), ranges, tick)
    steps_of, path = _critical(critical, lanes, list(carried), ranges, tick)
    windows = {"all": (0.0, activity.end_s), "typical iterations": activity.window(CLOSE_ITERATIONS)}
    windows["slowest iteration"] = activity.slowest(CLOSE_ITERATIONS)
    windows |= {f"onset of {who}": activity.at(onset_s, ONSET_ITERATIONS) for who, onset_s in onsets_s.items()}
    facts = {
        "end_s": activity.end_s, "tick_s": tick, "detailed": detailed, "open": windows["typical iterations"],
        "lanes": [{"name": lane.host, "layer": lane.layer, "marked": lane.host in hosts} for lane in lanes],
        "links": [{"name": f"{src} → {dst}", "marked": (src, dst) in links} for src, dst in carried],
        "states": [state.value for state in STATES], "phases": {int(phase): phase.name.lower() for phase in Phase},
    }  # fmt: skip
    return Drawn(
        content=packed("timeline", facts, {**columns, **single, **path}), windows_s=windows, end_s=activity.end_s,
        phases=tuple(Phase(code) for code in np.unique(single["p_phase"]).tolist()),
        of_library=any(len(lane.collectives) for lane in lanes),
        left_out=(*notes, *more, *steps, *details, *steps_of),
    )  # fmt: skip


def section(drawn: Drawn, whole: str = "The run") -> str:
    """The timeline of ``whole``, such as ``The run``, its buttons and its key."""
    caption = (
        f"{whole} lasted {formatting.seconds(drawn.end_s)}. Drag to zoom into any part, double-click for all of it; "
        "shift and drag, or the arrow keys, move it; so does a click in the strip above. Per worker: state (thick), "
        f"computation (thin; buckets alternate in shade). {LIBRARY if drawn.of_library else MESSAGES} "
        "The dark line is the critical path: the longest chain of what waited for what. "
        f"Where several share a pixel, its colours are their shares. {' '.join(drawn.left_out)}"
    )
    windows = "".join(
        f'<button type="button" data-window="[{low:.9g}, {high:.9g}]">{escape(name)}</button>'
        for name, (low, high) in drawn.windows_s.items()
    )
    zooms = "".join(
        f'<button type="button" data-zoom="{factor}" aria-label="{name}">{sign}</button>'
        for factor, name, sign in ((0.5, "closer", "+"), (2, "farther", "−"))
    )
    keys = [(f"s{code}", state.value) for code, state in enumerate(STATES)]
    keys += [(f"p{int(phase)}", phase.name.lower()) for phase in drawn.phases] + [
        ("m", "message, or collective" if drawn.of_library else "message"),
        ("c", "critical path"),
    ]
    key = "".join(f'<span><i class="{css}"></i>{escape(name)}</span>' for css, name in keys)
    canvases = (
        '<canvas class="overview" aria-hidden="true"></canvas>'
        '<canvas class="lanes" tabindex="0" role="img" aria-label="Timeline of workers and links"></canvas>'
    )
    plot = f'<div class="tools">{windows}{zooms}</div>{canvases}<div class="tip" hidden></div>'
    figure = f'<div class="plot" id="timeline">{plot}</div><div class="legend">{key}</div>{drawn.content}'
    return sections.section("Timeline", escape(caption), figure)


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
    collectives = [lane.collectives for lane in lanes]
    iterations = [lane.iterations for lane in lanes]
    detailed, notes = None, []
    if sum(map(len, (*pieces, *messages, *collectives))) > MOST_DETAILS:
        pieces, messages, iterations, collectives = (
            [_within(rows, ranges) for rows in parts] for parts in (pieces, messages, iterations, collectives)
        )
        between = " and ".join(f"{formatting.seconds(low)} to {formatting.seconds(high)}" for low, high in ranges)
        notes.append(f"Single computations and messages are drawn from {between} only: there are too many.")
        detailed = ranges
    columns = {**columns_of_messages(messages, tick), **columns_of_pieces("p", pieces, tick)}
    if any(map(len, collectives)):
        columns |= columns_of_pieces("k", collectives, tick)
    return {**columns, **columns_of_spans("i", iterations, tick)}, detailed, notes


def _critical(
    critical: CriticalSteps | None, lanes: Sequence[Lane], links: Sequence[Pair], ranges: Sequence[Range], tick: float
) -> tuple[list[str], Columns]:
    """The critical path on the rows that are drawn; of too long a one, what is in ``ranges``, and then a note."""
    if critical is None:
        return [], {"c_row": np.empty(0, np.uint16), **columns_of_steps(np.empty(0), np.empty(0), tick)}
    rows: dict[tuple[str, str | None], int] = {(lane.host, None): row for row, lane in enumerate(lanes)}
    rows |= {pair: len(lanes) + row for row, pair in enumerate(links)}
    row_of = np.array([rows.get((each.src, each.dst), -1) for each in critical.elements], dtype=np.int64)
    row, notes = row_of[critical.element], []
    kept = row >= 0
    if len(row) > MOST_STEPS:
        kept &= np.any([(critical.end_s >= low) & (critical.begin_s <= high) for low, high in ranges], axis=0)
        notes.append("So is the critical path.")
    steps = columns_of_steps(critical.begin_s[kept], critical.end_s[kept], tick)
    return notes, {"c_row": row[kept].astype(np.uint16), **steps}


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


def _close_looks(activity: Activity, onsets_s: Sequence[float]) -> list[tuple[float, float]]:
    """Where single computations and messages are worth their room: typical iterations, the slowest, onsets, first."""
    if not activity.lanes or not len(activity.lanes[0].iterations):
        return [(0.0, activity.end_s)]
    looks = [activity.around(0, DETAILED_ITERATIONS), activity.window(DETAILED_ITERATIONS)]
    looks.append(activity.slowest(DETAILED_ITERATIONS))
    looks += [activity.at(onset_s, DETAILED_ITERATIONS) for onset_s in onsets_s]
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
