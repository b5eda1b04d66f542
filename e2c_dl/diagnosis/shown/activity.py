"""Content of a timeline, as arrays in seconds since the run's first moment: what any figure over time draws.

::

    Lane      edge-1  |compute|propagate|wait|compute| ...     one state at any time
    pieces     edge-1   forward  b0  b1            step        computation, in order of its start
    deliveries edge-1 -> fog-1      ====  ====                 one message: first byte leaves to last byte is there
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.states import Timeline, timelines
from e2c_dl.topology import Pair
from e2c_dl.trace.collectives import flow_spans, of_library
from e2c_dl.trace.messages import Messages, join
from e2c_dl.trace.model import COMPUTE, Phase, RankTrace, Spans, Trace

Seconds = npt.NDArray[np.float64]

ITERATION: np.dtype[Any] = np.dtype([("iteration", "<i4"), ("start_s", "<f8"), ("end_s", "<f8")])
PIECE: np.dtype[Any] = np.dtype(
    [("phase", "<u2"), ("iteration", "<i4"), ("bucket", "<i2"), ("start_s", "<f8"), ("end_s", "<f8")]
)
DELIVERY: np.dtype[Any] = np.dtype(
    [
        ("src", "<i2"),  # rank
        ("dst", "<i2"),
        ("iteration", "<i4"),
        ("bucket", "<i2"),  # -1: none
        ("nbytes", "<i8"),
        ("start_s", "<f8"),  # first byte's departure
        ("end_s", "<f8"),  # last byte's arrival
    ]
)

Rows = npt.NDArray[Any]
"""A one-dimensional structured array, in order of ``start_s``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lane:
    """One worker's line: ``codes[i]``, an index into STATES, holds from ``bounds_s[i]`` to ``bounds_s[i + 1]``."""

    host: str
    rank: int
    layer: str
    bounds_s: Seconds  # (k + 1,)
    codes: npt.NDArray[np.uint8]  # (k,)
    iterations: Rows  # of ITERATION
    pieces: Rows = field(default_factory=lambda: np.empty(0, dtype=PIECE))
    collectives: Rows = field(default_factory=lambda: np.empty(0, dtype=PIECE))  # of a library, from joining on

    @property
    def end_s(self) -> float:
        return float(self.bounds_s[-1]) if len(self.bounds_s) else 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Activity:
    """All workers' lines, in rank order, and all messages."""

    lanes: tuple[Lane, ...]
    deliveries: Rows = field(default_factory=lambda: np.empty(0, dtype=DELIVERY))

    @property
    def end_s(self) -> float:
        return max((lane.end_s for lane in self.lanes), default=0.0)

    @cached_property
    def by_link(self) -> dict[Pair, Rows]:
        """(source, destination) -> its messages, by their ranks; of hosts that have a line."""
        names = {lane.rank: lane.host for lane in self.lanes}
        keys = (self.deliveries["src"].astype(np.int64) << 16) | self.deliveries["dst"]
        order = np.argsort(keys, kind="stable")  # stable: each link's stay in order of their start
        found, starts = np.unique(keys[order], return_index=True)
        parts = np.split(self.deliveries[order], starts[1:])
        pairs = [(key >> 16, key & 0xFFFF) for key in found.tolist()]
        return {
            (names[src], names[dst]): rows
            for (src, dst), rows in zip(pairs, parts, strict=False)  # split gives one part of nothing
            if src in names and dst in names
        }

    def numbered_from(self, firsts: Mapping[str, int]) -> Activity:
        """The same, the iterations of each host counted from its one of ``firsts`` on in place of 0."""
        by_rank = {lane.rank: firsts[lane.host] for lane in self.lanes}
        senders = np.array([by_rank.get(rank, 0) for rank in self.deliveries["src"].tolist()], dtype=np.int64)
        return Activity(
            lanes=tuple(
                replace(
                    lane,
                    iterations=_moved(lane.iterations, firsts[lane.host]),
                    pieces=_moved(lane.pieces, firsts[lane.host]),
                    collectives=_moved(lane.collectives, firsts[lane.host]),
                )
                for lane in self.lanes
            ),
            deliveries=_moved(self.deliveries, senders),
        )

    def window(self, iterations: int = 3) -> tuple[float, float]:
        """(start_s, end_s) of ``iterations`` iterations around the one of median length, of the first worker.

        The median is of the whole run's iterations but the first, which also pays for warming up; (0, end) without any.
        """
        spans = self.lanes[0].iterations if self.lanes else np.empty(0, dtype=ITERATION)
        if not len(spans):
            return 0.0, self.end_s
        warmed_up = 1 if len(spans) > 1 else 0
        order = warmed_up + np.argsort((spans["end_s"] - spans["start_s"])[warmed_up:], kind="stable")
        return self.around(int(order[len(order) // 2]), iterations)

    def slowest(self, iterations: int = 3) -> tuple[float, float]:
        """The same around the longest iteration after the first."""
        spans = self.lanes[0].iterations if self.lanes else np.empty(0, dtype=ITERATION)
        if len(spans) < 2:
            return 0.0, self.end_s
        return self.around(1 + int(np.argmax((spans["end_s"] - spans["start_s"])[1:])), iterations)

    def at(self, moment_s: float, iterations: int = 3) -> tuple[float, float]:
        """The same around the one that the first worker is in at ``moment_s``."""
        spans = self.lanes[0].iterations if self.lanes else np.empty(0, dtype=ITERATION)
        if not len(spans):
            return 0.0, self.end_s
        return self.around(max(0, int(np.searchsorted(spans["start_s"], moment_s, side="right")) - 1), iterations)

    def around(self, row: int, iterations: int) -> tuple[float, float]:
        """(start_s, end_s) of as many iterations of the first worker, the one in ``row`` in their middle."""
        spans = self.lanes[0].iterations
        first = max(0, min(row - iterations // 2, len(spans) - iterations))
        last = min(first + iterations, len(spans)) - 1
        return float(spans["start_s"][first]), float(spans["end_s"][last])


def from_trace(trace: Trace, messages: Messages | None = None) -> Activity:
    """What ``trace`` shows; time 0 is the earliest start of a rank's training. Raises: AnalysisError.

    ``messages`` are its own, joined if not given.
    """
    messages = messages or join(trace)
    states = timelines(trace, messages)
    origin_ns = min(int(timeline.bounds_ns[0]) for timeline in states)
    lanes = tuple(_lane(rank, timeline, origin_ns) for rank, timeline in zip(trace.ranks, states, strict=True))
    carried = _flows(trace, origin_ns) if of_library(trace) else _deliveries(messages, origin_ns)
    return Activity(lanes=lanes, deliveries=carried)


def _moved(rows: Rows, firsts: int | npt.NDArray[np.int64]) -> Rows:
    moved: Rows = rows.copy()
    moved["iteration"] += np.where(moved["iteration"] >= 0, firsts, 0).astype(moved["iteration"].dtype)
    return moved


def _lane(rank: RankTrace, states: Timeline, origin_ns: int) -> Lane:
    is_computing = np.isin(rank.spans["phase"], sorted(COMPUTE))
    return Lane(
        host=rank.host,
        rank=rank.rank,
        layer=rank.layer,
        bounds_s=(states.bounds_ns - origin_ns) / 1e9,
        codes=states.codes,
        iterations=_rows(rank.spans[rank.spans["phase"] == Phase.ITERATION], ITERATION, origin_ns),
        pieces=_rows(rank.spans[is_computing], PIECE, origin_ns),
        collectives=_rows(rank.spans[rank.spans["phase"] == Phase.COLLECTIVE], PIECE, origin_ns),
    )


def _rows(spans: Spans, dtype: np.dtype[Any], origin_ns: int) -> Rows:
    made = np.empty(len(spans), dtype=dtype)
    spans = spans[np.argsort(spans["start_ns"], kind="stable")]
    for name in dtype.names or ():
        made[name] = (spans[f"{name[:-2]}_ns"] - origin_ns) / 1e9 if name.endswith("_s") else spans[name]
    return made


def _flows(trace: Trace, origin_ns: int) -> Rows:
    """Times in which a link of a library was busy, each as a delivery of what it carried."""
    spans = flow_spans(trace)
    spans = spans[np.argsort(spans["start_ns"], kind="stable")]
    made = np.empty(len(spans), dtype=DELIVERY)
    for name in ("src", "dst", "iteration", "bucket", "nbytes"):
        made[name] = spans[name]
    made["start_s"], made["end_s"] = ((spans[end] - origin_ns) / 1e9 for end in ("start_ns", "end_ns"))
    return made


def _deliveries(messages: Messages, origin_ns: int) -> Rows:
    joined = messages.joined[np.argsort(messages.joined["send_start_ns"], kind="stable")]
    made = np.empty(len(joined), dtype=DELIVERY)
    for name in ("src", "dst", "iteration", "bucket", "nbytes"):
        made[name] = joined[name]
    made["start_s"] = (joined["send_start_ns"] - origin_ns) / 1e9
    made["end_s"] = (joined["recv_end_ns"] - origin_ns) / 1e9
    return made
