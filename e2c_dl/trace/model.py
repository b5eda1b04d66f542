"""The vocabulary of a trace, and the values that carry it.

One rank writes one sequence of spans, fixed-size records of :data:`SPAN`. Spans of a *task* (a coroutine of the
strategy, or the compute thread) follow each other in ``posted_ns`` order: that is program order. Together with
the messages, which join a SEND of one rank to the RECEIVE of another by (src, dst, seq), program order gives
happens-before, from which a run can be replayed with one element made faster::

    rank 0, task 0   |SPAWN -1|..AWAIT_BUCKET..|SPAWN 7|....AWAIT_TASK 7.....|STEP|
    rank 0, task -1     |FORWARD||BACKWARD b0||BACKWARD b1|
    rank 0, task 7                              |REDUCE||SEND|..AWAIT_MESSAGE..|REDUCE|
                                                            \\             /
    rank 1                                               RECEIVE       SEND

While a run goes on, records are appended to a log (:mod:`e2c_dl.trace.recording.span_log`); at rest they are a table
(:mod:`e2c_dl.trace.columns`).

Times are nanoseconds. While recording they are the host's own monotonic clock; in a :class:`Trace` they are aligned
to the reference host's, each rank with the uncertainty of that alignment.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.trace.propagation.connections import NONE, Connections

SPAN: np.dtype[Any] = np.dtype(
    [
        ("posted_ns", "<i8"),  # when the task asked for it; orders the spans of one task
        ("start_ns", "<i8"),  # when it began: for SEND the first byte's way into the socket, for RECEIVE the header
        ("end_ns", "<i8"),  # when it ended: for SEND the last byte left, for RECEIVE the last byte is there
        ("nbytes", "<i8"),  # SEND, RECEIVE: bytes of the message on its stream, header included; COLLECTIVE: of this
        # rank's tensor; FLOW: what the receiver acknowledged meanwhile
        ("seq", "<i8"),  # SEND, RECEIVE, AWAIT_MESSAGE, AWAIT_SENT: number of the message on its link, from 0;
        # COLLECTIVE, AWAIT_COLLECTIVE: number of the collective in its group, the same on all its ranks;
        # FORWARD: samples that its gradient is of; ITERATION: us that its computing waited for a processor;
        # else, and where nobody knows, -1
        ("iteration", "<i4"),  # -1 outside of iterations
        ("task", "<i4"),  # 0 the strategy's main coroutine, -1 the compute thread, > 0 spawned; -2 none: RECEIVE
        ("peer_task", "<i4"),  # SPAWN: the task begun; AWAIT_TASK: the task waited for; else -2
        ("bucket", "<i2"),  # -1: none
        ("src", "<i2"),  # rank, SEND, RECEIVE, AWAIT_MESSAGE, AWAIT_SENT; REDUCE: whose update it applies; else -1
        ("dst", "<i2"),
        ("staleness", "<i2"),  # updates between reading and applying; 0 in synchronous strategies
        ("phase", "<u2"),  # Phase
        ("kind", "<u2"),  # COLLECTIVE: Collective; else 0
    ]
)

MOST_STALENESS = (1 << 15) - 1
"""What a span can tell; what is staler is told as this."""

MOST_NS = 1 << 61
"""Furthest from 0 that any time is, in either direction: 73 years, and sums of three fit in 64 bits."""

MOST_S = 1e7
"""Longest that a run may last: 115 days."""

MOST_DRIFT = 0.5
"""Of any clock."""

EVEN_DRIFT = 1e-3
"""Of a clock that merely goes wrong, at most: one that changes faster has stepped."""

RECORD = struct.Struct("<qqqqqiiihhhhHH")
"""SPAN, field by field: packing is three times as fast as a NumPy record."""

RECORD_BYTES = SPAN.itemsize

Spans = npt.NDArray[Any]
"""A one-dimensional structured array of :data:`SPAN`."""


class Phase(IntEnum):
    """Kind of a span. Closed: an exporter or an analysis that meets another value is out of date."""

    DATA = 1  # drawing the batch
    FORWARD = 2
    BACKWARD = 3  # of one bucket: until its gradient is complete
    REDUCE = 4  # adding or scaling vectors
    STEP = 5  # the optimizer
    EVALUATE = 6
    CHECKPOINT = 7  # writing parameters down
    COPY = 8  # between a host's memory and its device's
    OTHER = 9  # of a script's thread, between its phases: never recorded, a diagnosis adds it
    SEND = 10
    RECEIVE = 11
    COLLECTIVE = 12  # of a library that hides its messages: from joining it until this rank has its result
    FLOW = 13  # bytes from src to dst whose messages nobody knows, as the sender's socket counted them; task -2
    AWAIT_BUCKET = 20  # a task waits for a bucket's gradient
    AWAIT_MESSAGE = 21  # ... for a message
    AWAIT_TASK = 22  # ... for a task it spawned
    AWAIT_SENT = 23  # ... until the last byte of a message has left
    AWAIT_COLLECTIVE = 24  # ... for the result of a COLLECTIVE that it joined
    ITERATION = 30
    SPAWN = 31  # an instant: a task is begun (-1: the compute thread is asked for a gradient)
    TRAINING = 32  # from the first iteration's start to the end of the last; bounds the states


GRADIENT = frozenset({Phase.FORWARD, Phase.BACKWARD})
COMPUTE = frozenset({Phase.DATA, *GRADIENT, Phase.REDUCE, Phase.STEP, Phase.EVALUATE, Phase.CHECKPOINT, Phase.COPY})
WAIT = frozenset({Phase.AWAIT_BUCKET, Phase.AWAIT_MESSAGE, Phase.AWAIT_TASK, Phase.AWAIT_SENT, Phase.AWAIT_COLLECTIVE})


class Collective(IntEnum):
    """Kind of a COLLECTIVE."""

    OTHER = 0
    ALL_REDUCE = 1
    REDUCE_SCATTER = 2
    ALL_GATHER = 3
    BROADCAST = 4
    REDUCE = 5
    GATHER = 6
    SCATTER = 7
    ALL_TO_ALL = 8
    BARRIER = 9


class State(Enum):
    """Activity of a rank at a moment: exactly one, the first that applies in this order."""

    COMPUTE = "compute"
    PROPAGATE = "exposed propagate"  # no compute, and a message from or to this rank is on its way
    WAIT = "wait"  # its tasks wait, and nothing is on its way
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class ClockStep:
    """A window of one's own clock within which it stepped or changed its pace, nobody knows when."""

    from_ns: int
    to_ns: int
    uncertainty_ns: int  # of times in it


@dataclass(frozen=True, kw_only=True)
class ClockAlignment:
    """Map of one rank's clock to the reference: ``reference = own + offset_ns + drift * (own - at_ns)``.

    With ``knots`` the offset is instead theirs, straight between them: a clock that does not go evenly. Before the
    first and after the last it goes on as between the two next to it, unless the clock stepped there.
    """

    offset_ns: int = 0
    drift: float = 0.0  # dimensionless (1e-6 is one part per million)
    at_ns: int = 0  # own clock, where offset_ns was measured
    uncertainty_ns: int = 0  # at most: half the best round trip of an exchange, and what a step between two can hide
    knots: tuple[tuple[int, int], ...] = ()  # (own clock, offset), rising
    usual_uncertainty_ns: int | None = None  # outside of steps; None: uncertainty_ns holds everywhere
    steps: tuple[ClockStep, ...] = ()  # rising

    def problem(self) -> str | None:
        """What no clock can be like, in words; None: nothing. What has none aligns every time up to MOST_NS."""
        for value in (self.offset_ns, self.at_ns, *(number for knot in self.knots for number in knot)):
            if abs(value) > MOST_NS:
                return f"{value} is no time"
        if not 0 <= self.uncertainty_ns <= MOST_NS:
            return f"uncertainty_ns {self.uncertainty_ns} is no length of time"
        if not abs(self.drift) <= MOST_DRIFT:
            return f"drift {self.drift:g} is none of a clock"
        if any(b[0] <= a[0] for a, b in pairwise(self.knots)):
            return "knots do not rise"
        return self._problem_of_steps()

    def _problem_of_steps(self) -> str | None:
        if not 0 <= (self.usual_uncertainty_ns or 0) <= self.uncertainty_ns:
            return f"usual_uncertainty_ns {self.usual_uncertainty_ns} is not within uncertainty_ns"
        for step in self.steps:
            if not 0 <= step.uncertainty_ns <= self.uncertainty_ns:
                return f"the uncertainty of a step, {step.uncertainty_ns}, is not within uncertainty_ns"
            if not -MOST_NS <= step.from_ns <= step.to_ns <= MOST_NS:
                return f"a step from {step.from_ns} to {step.to_ns} is none"
        return None

    def uncertainties_ns(
        self, own_ns: npt.NDArray[np.int64], until_ns: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.int64]:
        """How far each of these times, aligned, may be off; with ``until_ns`` any time from each up to that."""
        uncertain = np.full(len(own_ns), self.usual_ns, dtype=np.int64)
        for step in self.steps:
            within = ((own_ns if until_ns is None else until_ns) >= step.from_ns) & (own_ns <= step.to_ns)
            uncertain[within] = np.maximum(uncertain[within], step.uncertainty_ns)
        return uncertain

    @property
    def usual_ns(self) -> int:
        """The uncertainty outside of steps."""
        return self.uncertainty_ns if self.usual_uncertainty_ns is None else self.usual_uncertainty_ns

    @property
    def aligned_steps(self) -> tuple[ClockStep, ...]:
        """Its steps on the reference clock."""
        ends = np.array([(step.from_ns, step.to_ns) for step in self.steps], dtype=np.int64).reshape(-1, 2)
        return tuple(
            ClockStep(from_ns=int(begin), to_ns=int(end), uncertainty_ns=step.uncertainty_ns)
            for (begin, end), step in zip(self.align(ends.ravel()).reshape(-1, 2), self.steps, strict=True)
        )

    def _pace(self, *knots: tuple[int, int]) -> float:
        """How fast its offset rises between two neighbouring knots; 0 between those of a step, and of one alone."""
        (begin_ns, offset_ns), (end_ns, end_offset_ns) = knots[0], knots[-1]
        if end_ns == begin_ns or any(step.from_ns <= begin_ns and end_ns <= step.to_ns for step in self.steps):
            return 0.0
        pace = (end_offset_ns - offset_ns) / (end_ns - begin_ns)
        return pace if abs(pace) <= EVEN_DRIFT else 0.0

    def align(self, own_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Times of this rank's clock on the reference clock."""
        if self.knots:
            at_ns, offset_ns = np.array(self.knots, dtype=np.int64).T
            # Differences are exact as floats, times since a machine has booted need not be.
            beyond_ns = np.interp(own_ns - at_ns[0], at_ns - at_ns[0], offset_ns - offset_ns[0])
            before_ns, after_ns = np.minimum(own_ns - at_ns[0], 0), np.maximum(own_ns - at_ns[-1], 0)
            beyond_ns += self._pace(*self.knots[:2]) * before_ns + self._pace(*self.knots[-2:]) * after_ns
            return np.asarray(own_ns + offset_ns[0] + np.rint(beyond_ns).astype(np.int64))
        aligned = own_ns + self.offset_ns
        if self.drift:
            aligned = aligned + np.rint((own_ns - self.at_ns) * self.drift).astype(np.int64)
        return aligned


@dataclass(frozen=True, kw_only=True)
class Lost:
    """What was recorded, and is not in a trace."""

    spans: int = 0  # known to be missing where the file is damaged
    damaged_bytes: int = 0
    dropped: int = 0  # spans left out on purpose: the trace was not to grow any more

    def __bool__(self) -> bool:
        return bool(self.spans or self.damaged_bytes or self.dropped)

    def __add__(self, other: Lost) -> Lost:
        return Lost(
            spans=self.spans + other.spans, damaged_bytes=self.damaged_bytes + other.damaged_bytes,
            dropped=self.dropped + other.dropped,
        )  # fmt: skip


NOTHING_LOST = Lost()


@dataclass(frozen=True, kw_only=True)
class RankTrace:
    """One rank's spans, times on the reference clock. ``complete`` is False if the rank never said goodbye."""

    rank: int
    host: str
    layer: str
    spans: Spans
    clock: ClockAlignment
    complete: bool = True
    lost: Lost = NOTHING_LOST

    def of(self, *phases: Phase) -> Spans:
        """Its spans of ``phases``, in the order in which they stand in it: a copy."""
        return np.take(self.spans, self.rows(*phases))  # of records six times as fast as an index

    def rows(self, *phases: Phase) -> npt.NDArray[np.int32]:
        """The places of its spans of ``phases``, rising."""
        order, starts = self._by_phase
        found = [order[starts[phase] : starts[phase + 1]] for phase in phases]
        return found[0] if len(found) == 1 else np.sort(np.concatenate(found))

    @cached_property
    def _by_phase(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Its spans' places by phase, and where each phase's begin: to look at every phase reads all of its spans."""
        phases = np.ascontiguousarray(self.spans["phase"])
        starts = np.append(0, np.cumsum(np.bincount(phases, minlength=max(Phase) + 1)))
        return np.argsort(phases, kind="stable").astype(np.int32), starts


@dataclass(frozen=True, kw_only=True)
class Trace:
    """All ranks of one run, in rank order."""

    ranks: tuple[RankTrace, ...]
    facts: Mapping[str, Any]  # what the run recorded of itself: strategy, seed, dtype, ...
    alive: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=lambda: MappingProxyType({}))
    """Host -> when its worker was seen to run, once a second if nothing stops it; reference clock, rising."""
    connections: Connections = NONE
    """What the ranks' sockets counted, per directed link; none if nobody looked at them."""

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(rank.host for rank in self.ranks)
