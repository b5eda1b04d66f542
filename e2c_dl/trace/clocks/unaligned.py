"""Clocks of hosts that nobody could ask, laid where what their ranks did together says: machines boot months apart.

::

    rank 0   joined |------------------| ended        no rank is ready with a collective before all have joined it, and
    rank 1        joined |--------------| ended       no message is there before it was sent: of the offset of a clock
             sent -----> received                     to the others' there is a least, and a most

A clock that contradicts nothing stays as it is. Another is moved by the middle of the two; where there are collectives,
as far within them as has these end when the others' do, since who comes late keeps all waiting. Where nothing bounds
it, the rank begins its training with the others, unless it trained while they did. One-way times stay unknown.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from e2c_dl.trace.collectives import ONE_SIDED, Collectives, collectives
from e2c_dl.trace.messages import MessageArray, join
from e2c_dl.trace.model import ClockAlignment, Phase, RankTrace, Trace

Offsets = npt.NDArray[np.int64]
"""How far each rank's clock is to be moved, ns."""

_TIMES = ("posted_ns", "start_ns", "end_ns")


class _Bounds(NamedTuple):
    """Of an offset, whole ns: least and most, infinite where nothing bounds it; what is likely, if anything is."""

    least: float = -math.inf
    most: float = math.inf
    likely: int | None = None

    @property
    def tell(self) -> bool:
        return math.isfinite(self.least) or math.isfinite(self.most)

    def and_of(self, other: _Bounds) -> _Bounds:
        likely = other.likely if self.likely is None else self.likely
        return _Bounds(max(self.least, other.least), min(self.most, other.most), likely)


def laid(trace: Trace, unaligned: Collection[str]) -> Trace:
    """``trace``, the clocks of the hosts ``unaligned`` where they do not contradict the others', or the first one's.

    Raises: AnalysisError, if a rank names a message or a collective twice.
    """
    ranks = [rank for rank in trace.ranks if len(rank.spans)]
    pending = [rank for rank in ranks if rank.host in unaligned]
    pending = pending[1:] if len(pending) == len(ranks) else pending
    if not pending:
        return trace
    offsets_ns = np.zeros(1 + max(rank.rank for rank in ranks), dtype=np.int64)
    together = _Together(join(trace).joined, collectives(trace), offsets_ns)
    known = [rank for rank in ranks if rank not in pending]
    clocks: dict[int, ClockAlignment] = {}
    while pending:
        rank, bounds = together.next_of(pending, known)
        clocks[rank.rank] = clock = _clock(rank, bounds, known, offsets_ns)
        offsets_ns[rank.rank] = clock.offset_ns
        pending.remove(rank)
        known.append(rank)
    return replace(trace, ranks=tuple(_moved(rank, clocks.get(rank.rank)) for rank in trace.ranks))


@dataclass(frozen=True)
class _Together:
    """What ranks did together, on their clocks as they were recorded."""

    messages: MessageArray
    collectives: Collectives
    offsets_ns: Offsets  # by rank, as far as they are known

    def next_of(self, pending: Sequence[RankTrace], known: Sequence[RankTrace]) -> tuple[RankTrace, _Bounds]:
        """The first of ``pending`` whose offset to those ``known`` is bounded, and its bounds; else the first."""
        is_known = np.zeros(len(self.offsets_ns), dtype=bool)
        is_known[[rank.rank for rank in known]] = True
        for rank in pending:
            bounds = self._of_collectives(rank.rank, is_known).and_of(self._of_messages(rank.rank, is_known))
            if bounds.tell:
                return rank, bounds
        return pending[0], _Bounds()

    def _of_messages(self, rank: int, is_known: npt.NDArray[np.bool_]) -> _Bounds:
        src, dst = self.messages["src"], self.messages["dst"]
        there_ns = self.messages["recv_end_ns"] + self.offsets_ns[dst]
        took_ns = there_ns - self.messages["send_start_ns"] - self.offsets_ns[src]
        return _bounds(-took_ns[(dst == rank) & is_known[src]], took_ns[(src == rank) & is_known[dst]])

    def _of_collectives(self, rank: int, is_known: npt.NDArray[np.bool_]) -> _Bounds:
        parts, of = self.collectives.parts, self.collectives.of_part
        held = ~np.isin(parts["kind"], ONE_SIDED)
        own, others = held & (parts["rank"] == rank), held & is_known[parts["rank"]]
        own &= np.isin(of, of[others])
        joined_ns, ended_ns = (parts[name] + self.offsets_ns[parts["rank"]] for name in ("joined_ns", "ended_ns"))
        last_joined_ns = np.full(len(self.collectives), np.iinfo(np.int64).min)
        first_ended_ns = np.full(len(self.collectives), np.iinfo(np.int64).max)
        np.maximum.at(last_joined_ns, of[others], joined_ns[others])
        np.minimum.at(first_ended_ns, of[others], ended_ns[others])
        if not own.any():
            return _Bounds()
        likely = int(np.median(first_ended_ns[of[own]] - ended_ns[own]))
        return _bounds(last_joined_ns[of[own]] - ended_ns[own], first_ended_ns[of[own]] - joined_ns[own], likely)


def _bounds(least_ns: Offsets, most_ns: Offsets, likely: int | None = None) -> _Bounds:
    least = int(least_ns.max()) if len(least_ns) else -math.inf
    return _Bounds(least, int(most_ns.min()) if len(most_ns) else math.inf, likely)


def _clock(rank: RankTrace, bounds: _Bounds, known: Sequence[RankTrace], offsets_ns: Offsets) -> ClockAlignment:
    """The clock of ``rank`` beside those of ``known``, which are moved by ``offsets_ns``."""
    least, most, likely = bounds
    if math.isfinite(least) and math.isfinite(most):
        offset = int(least + most) // 2
        if least <= 0 <= most:
            offset = 0
        elif likely is not None and least <= most:
            offset = int(min(max(likely, least), most))
        return ClockAlignment(offset_ns=offset, uncertainty_ns=int(max(abs(most - offset), abs(offset - least))))
    begin_ns, end_ns = _training_ns([rank], offsets_ns)
    first_ns, last_ns = _training_ns(known, offsets_ns)
    offset = 0 if begin_ns <= last_ns and first_ns <= end_ns else first_ns - begin_ns
    return ClockAlignment(offset_ns=int(min(max(offset, least), most)), uncertainty_ns=end_ns - begin_ns)


def _training_ns(ranks: Sequence[RankTrace], offsets_ns: Offsets) -> tuple[int, int]:
    """From the first iteration of the first of ``ranks`` to the end of the last; of those without any, all spans."""
    found = []
    for rank in ranks:
        own = rank.of(Phase.ITERATION, Phase.TRAINING)
        own, offset = (own if len(own) else rank.spans), int(offsets_ns[rank.rank])
        found.append((int(own["start_ns"].min()) + offset, int(own["end_ns"].max()) + offset))
    return min(begin for begin, _ in found), max(end for _, end in found)


def _moved(rank: RankTrace, clock: ClockAlignment | None) -> RankTrace:
    if clock is None:
        return rank
    spans = rank.spans.copy()
    for name in _TIMES:
        spans[name] += clock.offset_ns
    return replace(rank, spans=spans, clock=clock)
