"""States of every rank at every moment of its training: exactly one each, so that they sum to wall time.

::

    spans        |==FORWARD==|==BACKWARD==|      |=REDUCE=|
    messages                          |-----on its way-----|
    awaits                   |~~~~~~~~~~~~~~~~~~~|        |~~~~~~~|
    state        |     compute            |prop. |compute | |wait |other

The first that applies, in the order of :class:`State`, wins. COMPUTE is the union of all computing spans of the rank.
PROPAGATE is the union, over messages from or to this rank, of first byte's departure to last byte's arrival; of a
message without a second half, what its own rank saw. WAIT is the union of all AWAIT spans. All arithmetic is in whole
nanoseconds: the sum over states is the wall time exactly.

Where a library hides its messages, PROPAGATE is when FLOW spans from or to this rank carry something, but not while it
waits for ranks that have not joined its collective; of a rank without FLOW spans, from when the last rank of a
collective has joined until this one has its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import AnalysisError
from e2c_dl.trace.collectives import Collectives, collectives, flow_spans, of_library
from e2c_dl.trace.messages import Messages
from e2c_dl.trace.model import COMPUTE, WAIT, Phase, RankTrace, Spans, State, Trace

__all__ = ["STATES", "Phase", "State", "Timeline", "partition", "timeline", "timelines", "training_ns"]
# Phase and State are for those who draw, too: they import no trace.

Times = npt.NDArray[np.int64]
STATES = tuple(State)
"""By precedence; a timeline's codes are indices into it."""


def is_one_of(phases: frozenset[Phase]) -> npt.NDArray[np.bool_]:
    """Whether a phase is one of ``phases``, by its number."""
    found = np.zeros(max(Phase) + 1, dtype=bool)
    found[sorted(phases)] = True
    return found


IS_COMPUTE, IS_WAIT = is_one_of(COMPUTE), is_one_of(WAIT)


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """One rank's states: ``codes[i]`` (an index into STATES) holds from ``bounds_ns[i]`` to ``bounds_ns[i + 1]``.

    Neighbouring codes differ; ``bounds_ns`` rises strictly, on the reference clock.
    """

    rank: int
    host: str
    bounds_ns: Times  # (k + 1,)
    codes: npt.NDArray[np.uint8]  # (k,)

    @property
    def wall_ns(self) -> int:
        return int(self.bounds_ns[-1] - self.bounds_ns[0])

    def totals_ns(self, start_ns: int | None = None, end_ns: int | None = None) -> dict[State, int]:
        """Nanoseconds in each state between two moments (by default: all); they sum to that interval exactly."""
        low = self.bounds_ns[0] if start_ns is None else start_ns
        high = self.bounds_ns[-1] if end_ns is None else end_ns
        lengths = np.diff(np.clip(self.bounds_ns, low, high))
        return {state: int(lengths[self.codes == code].sum()) for code, state in enumerate(STATES)}

    def intervals_s(self, origin_ns: int) -> list[tuple[float, float, State]]:
        """(start, end, state) in seconds since ``origin_ns``, in order of time: what plots take."""
        seconds = ((self.bounds_ns - origin_ns) / 1e9).tolist()
        states = [STATES[code] for code in self.codes]
        return list(zip(seconds[:-1], seconds[1:], states, strict=True))


def timelines(trace: Trace, messages: Messages) -> tuple[Timeline, ...]:
    """One Timeline per rank, over its TRAINING span. Raises: AnalysisError, if a rank has none."""
    if of_library(trace):
        of, flows = collectives(trace), flow_spans(trace)
        return tuple(_timeline(rank, _carried(rank.rank, of, flows)) for rank in trace.ranks)
    ranks, on_the_way = _on_the_way(messages)
    found = []
    for rank in trace.ranks:
        first, last = np.searchsorted(ranks, [rank.rank, rank.rank + 1]).tolist()
        found.append(_timeline(rank, on_the_way[first:last]))
    return tuple(found)


def timeline(rank: RankTrace, messages: Messages) -> Timeline:
    """The states of one rank over its TRAINING span, by ``messages``. Raises: AnalysisError, if it has none."""
    ranks, on_the_way = _on_the_way(messages)
    return _timeline(rank, on_the_way[ranks == rank.rank])


def _timeline(rank: RankTrace, on_the_way: Times) -> Timeline:
    start_ns, end_ns = training_ns(rank)
    sets = (_intervals(rank, COMPUTE), on_the_way, _intervals(rank, WAIT))
    bounds, codes = partition(start_ns, end_ns, sets)
    return Timeline(rank=rank.rank, host=rank.host, bounds_ns=bounds, codes=codes)


def training_ns(rank: RankTrace) -> tuple[int, int]:
    """Start and end of the rank's TRAINING span. Raises: AnalysisError, if it has none or it is empty."""
    found = rank.of(Phase.TRAINING)
    if len(found) != 1 or found["end_ns"][0] <= found["start_ns"][0]:
        raise AnalysisError(
            f"trace of {rank.host}: {len(found)} TRAINING spans instead of one that lasts; "
            "the run ended before its first iteration did; where it broke off, this host's log says why"
        )
    return int(found["start_ns"][0]), int(found["end_ns"][0])


def partition(start_ns: int, end_ns: int, sets: Sequence[Times]) -> tuple[Times, npt.NDArray[np.uint8]]:
    """Bounds (k + 1,) and codes (k,) of [start_ns, end_ns): the index of the first set that covers, else len(sets).

    A set is an array (n, 2) of intervals [start, end), in any order, overlapping or not; empty and reversed ones cover
    nothing.
    """
    unions = [_union(np.clip(s[s[:, 1] > s[:, 0]], start_ns, end_ns)) for s in sets]  # few of many that overlap
    ends = np.array([start_ns, end_ns], dtype=np.int64)
    bounds = np.sort(np.concatenate([ends, *(s.ravel() for s in unions)]))
    bounds = bounds[np.diff(bounds, prepend=bounds[0] - 1) > 0]
    codes = np.full(len(bounds) - 1, len(sets), dtype=np.uint8)
    for code in reversed(range(len(sets))):  # the first set wins: written last
        begins, stops = (
            np.bincount(np.searchsorted(bounds, unions[code][:, side]), minlength=len(bounds)) for side in (0, 1)
        )
        codes[np.cumsum(begins - stops)[:-1] > 0] = code
    kept = np.flatnonzero(np.diff(codes, prepend=codes[:1] + 1))  # neighbours of one state are one interval
    return np.append(bounds[kept], bounds[-1]), codes[kept]


def _union(intervals: Times) -> Times:
    """What ``intervals``, none of them reversed, cover: as those that neither overlap nor touch, rising."""
    if not len(intervals):
        return intervals
    begins, ends = (np.sort(intervals[:, side], kind="stable") for side in (0, 1))  # mostly sorted: merged, not sorted
    gaps = np.flatnonzero(begins[1:] > ends[:-1])  # as many have ended as have begun
    return np.stack([begins[np.append(0, gaps + 1)], ends[np.append(gaps, len(ends) - 1)]], axis=1)


def _intervals(rank: RankTrace, phases: frozenset[Phase]) -> Times:
    rows = rank.rows(*phases)
    return np.stack([rank.spans["start_ns"][rows], rank.spans["end_ns"][rows]], axis=1)


def _carried(rank: int, of: Collectives, flows: Spans) -> Times:
    """When what ``rank`` sent or received was under way, shape (n, 2)."""
    in_flight = of.in_flight(rank)
    own = flows[(flows["src"] == rank) | (flows["dst"] == rank)]
    if not len(own):
        return in_flight
    joined = of.parts[of.parts["rank"] == rank]
    waiting = np.stack([joined["joined_ns"], joined["ended_ns"]], axis=1)
    times = np.stack([own["start_ns"], own["end_ns"]], axis=1)
    return _without(times, _without(waiting, in_flight))


def _without(times: Times, others: Times) -> Times:
    """When ``times`` cover and ``others`` do not, shape (n, 2)."""
    if not len(times):
        return times
    bounds, codes = partition(int(times.min()) - 1, int(times.max()) + 1, [others, times])
    chosen = codes == 1
    return np.stack([bounds[:-1][chosen], bounds[1:][chosen]], axis=1)


def _on_the_way(messages: Messages) -> tuple[Times, Times]:
    """When messages travelled from or to whom: ranks, rising, and intervals, shape (n, 2).

    Halves count for what their own rank saw.
    """
    joined, sent, received = messages.joined, messages.unreceived, messages.unsent
    whole = np.stack([joined["send_start_ns"], joined["recv_end_ns"]], axis=1)
    halves = [np.stack([half["start_ns"], half["end_ns"]], axis=1) for half in (sent, received)]
    ranks = np.concatenate([joined["src"], joined["dst"], sent["src"], received["dst"]])  # 16 bits are soon sorted
    order = np.argsort(ranks, kind="stable")
    return ranks[order].astype(np.int64), np.take(np.concatenate([whole, whole, *halves]), order, axis=0)
