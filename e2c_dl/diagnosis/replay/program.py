"""Program order as moments of a graph: what every task of every rank did, one thing after another.

::

    task  0   |SPAWN 7|...|AWAIT_TASK 7........|STEP|        one moment per event: an instant's time, else its end;
    task  7           |REDUCE||SEND||AWAIT_MESSAGE|          a SEND or SPAWN takes no time in its task

RECEIVE, ITERATION and TRAINING are no events of a program: they accompany it. Host i (the i-th rank) is element i of
the graph, and its computing spans are its services. A task may be begun more than once (the compute thread, -1, is,
in every iteration): each SPAWN comes before the task's first event posted after it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from e2c_dl.diagnosis.replay.graph import ORIGIN, Sketch
from e2c_dl.trace.model import COMPUTE, WAIT, Phase, RankTrace, Spans, Trace

INSTANT = frozenset({Phase.SEND, Phase.SPAWN})
_PROGRAM = sorted(COMPUTE | WAIT | INSTANT)

MessageKey = tuple[int, int, int]
"""src rank, dst rank, seq."""

SpanKey = tuple[int, int, int, int]
"""rank, phase, iteration, bucket."""


class _Event(NamedTuple):
    """One row of a rank's program; the names are those of SPAN."""

    task: int
    phase: int
    posted_ns: int
    start_ns: int
    end_ns: int
    iteration: int
    bucket: int
    peer_task: int
    src: int
    dst: int
    seq: int

    @property
    def message(self) -> MessageKey:
        return self.src, self.dst, self.seq


@dataclass(kw_only=True)
class _Task:
    """One task's events in program order: when each was posted, and its moment."""

    posted_ns: list[int] = field(default_factory=list)
    moments: list[int] = field(default_factory=list)

    def last_until(self, time_ns: int) -> int | None:
        """The moment of the last event posted until ``time_ns``."""
        place = bisect_right(self.posted_ns, time_ns)
        return self.moments[place - 1] if place else None


@dataclass(kw_only=True)
class Programs:
    """The moments of all tasks, by what others need to find them. Filled by :func:`sketch_programs` and the links."""

    tasks: dict[tuple[int, int], _Task] = field(default_factory=dict)  # rank, task
    buckets: dict[tuple[int, int, int], int] = field(default_factory=dict)  # rank, iteration, bucket: BACKWARD's end
    posted: dict[MessageKey, int] = field(default_factory=dict)
    sent: dict[MessageKey, int] = field(default_factory=dict)
    arrived: dict[MessageKey, int] = field(default_factory=dict)
    waits: list[tuple[int, int, _Event]] = field(default_factory=list)  # moment of its end, rank, the wait
    last_of_main: list[int] = field(default_factory=list)  # by place of the rank in the trace
    unexplained: int = 0  # tasks without a SPAWN, waits without a cause

    def connect_waits(self, sketch: Sketch) -> None:
        """Lets every wait's end follow its cause; counts those whose cause is not in the trace."""
        for moment, rank, wait in self.waits:
            cause = self._cause(rank, wait)
            if cause is None:
                self.unexplained += 1
            else:
                sketch.also_after(moment, cause)

    def _cause(self, rank: int, wait: _Event) -> int | None:
        if wait.phase == Phase.AWAIT_MESSAGE:
            return self.arrived.get(wait.message)
        if wait.phase == Phase.AWAIT_SENT:
            return self.sent.get(wait.message)
        if wait.phase == Phase.AWAIT_BUCKET:
            return self.buckets.get((rank, wait.iteration, wait.bucket))
        task = self.tasks.get((rank, wait.peer_task))
        return task.last_until(wait.end_ns) if task else None


def sketch_programs(sketch: Sketch, trace: Trace, stalled_ns: Mapping[SpanKey, int]) -> Programs:
    """Adds the moments of all tasks to ``sketch``; their waits are not connected yet.

    ``stalled_ns``: segments of gradients in which the host stalled -> for how long.
    """
    programs = Programs()
    for host, rank in enumerate(trace.ranks):
        _sketch_rank(sketch, programs, host, rank, stalled_ns)
        main = programs.tasks.get((rank.rank, 0))
        programs.last_of_main.append(main.moments[-1] if main else ORIGIN)
    return programs


def _sketch_rank(
    sketch: Sketch, programs: Programs, host: int, rank: RankTrace, stalled_ns: Mapping[SpanKey, int]
) -> None:
    spans = rank.spans[np.isin(rank.spans["phase"], _PROGRAM)]
    free_ns = np.where(np.isin(spans["phase"], sorted(INSTANT)), spans["posted_ns"], spans["end_ns"])
    spans = spans[np.lexsort((free_ns, spans["posted_ns"], spans["task"]))]  # at one moment, what was over first
    events = [_Event(*row) for row in zip(*(spans[name].tolist() for name in _Event._fields), strict=True)]
    begun = _first_after_spawn(spans)
    spawns: dict[int, int] = {}  # row of a SPAWN -> its moment
    beginnings: list[tuple[int, int]] = []  # moment that begins a task, row of its SPAWN
    task, free = None, ORIGIN
    for row, event in enumerate(events):
        if event.task != task:
            task, free = event.task, ORIGIN
            programs.unexplained += task != 0 and row not in begun  # nobody begins the main task
        if row in begun:  # a moment of its own: the event itself may follow two others already
            free = sketch.add(event.posted_ns, free)
            beginnings.append((free, begun[row]))
        free = _sketch_event(sketch, event, free, host)
        if event.phase in COMPUTE and (key := (rank.rank, event.phase, event.iteration, event.bucket)) in stalled_ns:
            sketch.stalled_ns[free] = stalled_ns[key]
        _file(programs, rank.rank, event, free)
        if event.phase == Phase.SPAWN:
            spawns[row] = free
    for moment, row in beginnings:
        sketch.also_after(moment, spawns[row])


def _sketch_event(sketch: Sketch, event: _Event, free: int, host: int) -> int:
    """The moment at which the task of ``event``, free since moment ``free``, is free again."""
    before_ns = sketch.observed_ns[free]
    if event.phase in INSTANT:
        return sketch.add(event.posted_ns, free, lag_ns=event.posted_ns - before_ns)
    if event.phase in COMPUTE:
        service_ns = max(0, event.end_ns - event.start_ns)
        lag_ns = event.start_ns - before_ns
        return sketch.add(event.end_ns, free, lag_ns=lag_ns, service_ns=service_ns, element=host, phase=event.phase)
    # A wait may end as soon as it is asked for; what it waits for is connected later.
    return sketch.add(event.end_ns, free, lag_ns=event.posted_ns - before_ns)


def _file(programs: Programs, rank: int, event: _Event, moment: int) -> None:
    """Notes where the moment of ``event`` is to be found."""
    task = programs.tasks.setdefault((rank, event.task), _Task())
    task.posted_ns.append(event.posted_ns)
    task.moments.append(moment)
    if event.phase == Phase.SEND:
        programs.posted[event.message] = moment
    elif event.phase == Phase.BACKWARD:
        programs.buckets[rank, event.iteration, event.bucket] = moment
    elif event.phase in WAIT:
        programs.waits.append((moment, rank, event))


def _first_after_spawn(spans: Spans) -> dict[int, int]:
    """Row of the first event of a task -> row of the SPAWN that it follows, for every beginning of every task."""
    posted_ns = spans["posted_ns"]
    spawns = np.flatnonzero(spans["phase"] == Phase.SPAWN)
    found: dict[int, int] = {}
    for spawn in spawns[np.argsort(posted_ns[spawns], kind="stable")].tolist():
        child = int(spans["peer_task"][spawn])
        start, stop = np.searchsorted(spans["task"], [child, child + 1]).tolist()
        first = bisect_left(posted_ns, posted_ns[spawn], start, stop)
        if first < stop:
            found[first] = spawn
    return found
