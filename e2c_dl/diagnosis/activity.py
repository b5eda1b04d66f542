"""Content of a timeline, as plain values in seconds since the run's first moment.

::

    Lane      edge-1  |compute|propagate|wait|compute| ...     one state at any time
    Piece     edge-1   forward  b0  b1            step         computation, for the detailed window
    Delivery  edge-1 -> fog-1      ====  ====                  one message: first byte leaves to last byte is there
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from e2c_dl.diagnosis.states import timelines
from e2c_dl.trace.messages import Messages, join
from e2c_dl.trace.model import COMPUTE, Phase, RankTrace, State, Trace

Interval = tuple[float, float, State]
"""(start_s, end_s, state)."""


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One rank's i-th iteration."""

    iteration: int
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One computation of one rank; ``bucket`` is -1 where it belongs to none."""

    phase: Phase
    iteration: int
    bucket: int
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One message on one directed link."""

    src: str
    dst: str
    iteration: int
    bucket: int
    nbytes: int
    start_s: float  # first byte's departure
    end_s: float  # last byte's arrival


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One worker's line. ``states`` follow each other in time and do not overlap."""

    host: str
    rank: int
    layer: str
    states: Sequence[Interval]
    iterations: Sequence[Iteration]
    pieces: Sequence[Piece] = ()


@dataclass(frozen=True, kw_only=True)
class Activity:
    """All workers' lines, in rank order, and all messages, in order of departure."""

    lanes: tuple[Lane, ...]
    deliveries: tuple[Delivery, ...] = ()

    @property
    def end_s(self) -> float:
        return max((interval[1] for lane in self.lanes for interval in lane.states), default=0.0)

    def window(self, iterations: int = 3) -> tuple[float, float]:
        """(start_s, end_s) of ``iterations`` iterations around the one of median length, of the first worker.

        The median is of the whole run's iterations but the first, which also pays for warming up; (0, end) without any.
        """
        spans = self.lanes[0].iterations if self.lanes else ()
        if not spans:
            return 0.0, self.end_s
        lengths = [i.end_s - i.start_s for i in spans]
        candidates = range(1, len(spans)) if len(spans) > 1 else range(1)  # the first also warms up
        middle = sorted(candidates, key=lambda i: lengths[i])[len(candidates) // 2]
        first = max(0, min(middle - iterations // 2, len(spans) - iterations))
        return spans[first].start_s, spans[min(first + iterations, len(spans)) - 1].end_s


def from_trace(trace: Trace) -> Activity:
    """What ``trace`` shows; time 0 is the earliest start of a rank's training. Raises: AnalysisError."""
    messages = join(trace)
    states = timelines(trace, messages)
    origin_ns = min(int(timeline.bounds_ns[0]) for timeline in states)
    lanes = tuple(
        Lane(
            host=rank.host,
            rank=rank.rank,
            layer=rank.layer,
            states=timeline.intervals_s(origin_ns),
            iterations=_iterations(rank, origin_ns),
            pieces=_pieces(rank, origin_ns),
        )
        for rank, timeline in zip(trace.ranks, states, strict=True)
    )
    return Activity(lanes=lanes, deliveries=_deliveries(trace, messages, origin_ns))


def _iterations(rank: RankTrace, origin_ns: int) -> tuple[Iteration, ...]:
    spans = np.sort(rank.spans[rank.spans["phase"] == Phase.ITERATION], order="start_ns")
    rows = zip(spans["iteration"].tolist(), spans["start_ns"].tolist(), spans["end_ns"].tolist(), strict=True)
    return tuple(
        Iteration(iteration=i, start_s=(start - origin_ns) / 1e9, end_s=(end - origin_ns) / 1e9)
        for i, start, end in rows
    )


def _pieces(rank: RankTrace, origin_ns: int) -> tuple[Piece, ...]:
    spans = rank.spans[np.isin(rank.spans["phase"], sorted(COMPUTE))]
    return tuple(
        Piece(
            phase=Phase(int(span["phase"])),
            iteration=int(span["iteration"]),
            bucket=int(span["bucket"]),
            start_s=(int(span["start_ns"]) - origin_ns) / 1e9,
            end_s=(int(span["end_ns"]) - origin_ns) / 1e9,
        )
        for span in np.sort(spans, order="start_ns")
    )


def _deliveries(trace: Trace, messages: Messages, origin_ns: int) -> tuple[Delivery, ...]:
    names = {rank.rank: rank.host for rank in trace.ranks}
    return tuple(
        Delivery(
            src=names[int(message["src"])],
            dst=names[int(message["dst"])],
            iteration=int(message["iteration"]),
            bucket=int(message["bucket"]),
            nbytes=int(message["nbytes"]),
            start_s=(int(message["send_start_ns"]) - origin_ns) / 1e9,
            end_s=(int(message["recv_end_ns"]) - origin_ns) / 1e9,
        )
        for message in np.sort(messages.joined, order="send_start_ns")
    )
