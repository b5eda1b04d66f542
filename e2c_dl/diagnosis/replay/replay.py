"""Trace-driven replay of a run: when it would have ended, had hosts or links been faster or slower.

The model is happens-before with observed durations. A moment follows::

    within a task       the task's previous moment, after the observed gap                       (program order)
    first of a task     its SPAWN (the compute thread: also its previous backward's end)
    AWAIT_TASK's end    the awaited task's last moment
    AWAIT_BUCKET's end  the end of that bucket's BACKWARD
    AWAIT_MESSAGE's end the message's arrival
    AWAIT_SENT's end    the end of that SEND
    AWAIT_COLLECTIVE's  the collective is done (:mod:`e2c_dl.diagnosis.replay.collectives`, for a library that hides its
    end                 messages)

and messages of one directed link are served one after another (:mod:`e2c_dl.diagnosis.replay.queue`), in the order in
which they were.

A what-if (:mod:`e2c_dl.diagnosis.replay.whatif`) scales a link's services, or shortens its delay, or scales a host's
computing spans, or takes off the time in which a link or a host stalled (:mod:`e2c_dl.diagnosis.detection.stalls`).
All other durations (gaps, wake-ups) stay as observed.

Assumptions: a task does the same, however long things take (true of synchronous strategies); hosts do not compete for
processors; links do not compete with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from e2c_dl.diagnosis.flows import ObservedFlow
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.replay.collectives import collective_program
from e2c_dl.diagnosis.replay.columns import NONE, Longs, Moments, Queue, in_order_of_time
from e2c_dl.diagnosis.replay.critical import CriticalPath, critical_path, uneven_ns
from e2c_dl.diagnosis.replay.graph import Graph, build, times_ns
from e2c_dl.diagnosis.replay.halves import half_error
from e2c_dl.diagnosis.replay.program import (
    OWN,
    SpanKey,
    causes,
    held,
    moments_of,
    posted,
    program_of,
    unbegun,
    uncaused,
)
from e2c_dl.diagnosis.replay.queue import Delays, queue_of, served
from e2c_dl.diagnosis.replay.services import Services, costs
from e2c_dl.diagnosis.replay.whatif import LINK_PHASES, UNCHANGED, OneLuck, WhatIf
from e2c_dl.diagnosis.states import is_one_of, training_ns
from e2c_dl.diagnosis.window import began_ns
from e2c_dl.topology import Pair
from e2c_dl.trace.collectives import Collectives
from e2c_dl.trace.messages import MESSAGE, Messages, keys
from e2c_dl.trace.model import Trace

_SERVED = is_one_of(OWN | LINK_PHASES)

UNITS_A_SECOND = 6_000_000
"""Moments and messages that a second is enough for, in all what-ifs together."""
AT_A_TIME = 2
"""Replays: each holds some 60 bytes for each moment and message."""
FEWEST = 6
"""What-ifs that are asked of the longest runs, too."""


@dataclass(frozen=True, kw_only=True)
class Stall:
    """One time in which ``element`` stalled, on the trace's clock."""

    element: Element
    begin_ns: int
    length_ns: int


@dataclass(frozen=True, kw_only=True)
class Stalls:
    """All stalls of a run: as such, and as what a replay takes off each message and each segment of a gradient."""

    found: tuple[Stall, ...] = ()
    messages: Mapping[Pair, Sequence[Stall | None]] = field(default_factory=lambda: MappingProxyType({}))
    """Link that stalled, or one of its ends -> stall of each message in service order, or None."""
    segments: Mapping[SpanKey, Stall] = field(default_factory=lambda: MappingProxyType({}))


NO_STALLS = Stalls()


@dataclass(frozen=True, kw_only=True)
class Replay(OneLuck):
    """A run that can be replayed with changes. Made by :func:`prepare`; nothing in it is mutated."""

    elements: tuple[Element, ...]  # hosts in rank order, then links that carried messages
    graph: Graph
    ends: Longs  # each rank's end, a moment of the graph
    services: Services
    critical: CriticalPath
    measured_ns: int  # from the first rank's first iteration to the last rank's end; so long lasts the unchanged replay
    uncaused: int  # waits whose cause, and tasks whose beginning, the trace does not hold: they keep their times

    def run_ns(self, whatif: WhatIf = UNCHANGED) -> int:
        """Run time after ``whatif``. Raises: KeyError, if an element is not in the run."""
        graph = self.graph
        times = times_ns(graph, costs(self.services, graph.moments, graph.queue, whatif))
        return round(float(times[self.ends].max()))

    @property
    def unexplained(self) -> float:
        """Share of the longest path that nothing explains which a what-if could change: gaps, waking up, residuals."""
        return self.critical.unexplained_ns / self.measured_ns

    def half_error(self, iterations: int, first: int) -> float:
        """Error of predicting the second half of ``iterations`` from the first: :mod:`e2c_dl.diagnosis.replay.halves`.

        ``first``: the first iteration after warm-up. NaN: the run is too short.
        """
        return half_error(self.graph, self.ends, iterations, first)

    @property
    def early(self) -> int:
        """Messages that arrived before they were sent, as the clocks have it."""
        return int((self.graph.queue.delay_ns < 0).sum())

    @cached_property
    def replayed_ns(self) -> int:
        """Run time of the unchanged replay."""
        return self.run_ns()

    def uneven(self, restored: WhatIf) -> float:
        """Share of the run that messages of its longest path take longer than is usual, once ``restored``.

        They wait for TCP's windows, or are read late.
        """
        moments, queue = self.graph.moments, self.graph.queue
        service_ns = costs(self.services, moments, queue, restored).service_ns
        return uneven_ns(self.critical, queue, service_ns, len(moments.first)) / self.measured_ns

    @property
    def cheap(self) -> int:
        """How many what-ifs take no more than a second or so."""
        return max(FEWEST, UNITS_A_SECOND // len(self.services.element))

    def most_saved_ns(self, whatif: WhatIf) -> float:
        """What the longest path loses: what is saved at most, while links serve in the order observed."""
        return self.critical.most_saved_ns(whatif)

    def runs_ns(self, whatifs: Sequence[WhatIf]) -> list[int]:
        """Run time after each of ``whatifs``. Raises: KeyError, if an element is not in the run."""
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return list(pool.map(self.run_ns, whatifs))


def prepare(trace: Trace, messages: Messages, delays_ns: Delays, stalls: Stalls = NO_STALLS) -> Replay:
    """The replay of ``trace``. ``delays_ns``: (src rank, dst rank) -> one-way delay, 0 where absent; of all its
    messages, or of each in service order.

    Raises: AnalysisError, if a rank has no TRAINING span or the trace contradicts itself.
    """
    intervals = _intervals_ns(trace)
    moments, queue, ends, uncaused = _by_time(trace, messages, delays_ns, intervals)
    links = [_link(trace, src, dst) for src, dst in messages.by_link()]
    return _replay(trace, moments, queue, ends, links, stalls, uncaused)


def _by_time(
    trace: Trace, messages: Messages, delays_ns: Delays, intervals: Longs
) -> tuple[Moments, Queue, Longs, int]:
    """What is replayed, in order of time; the ranks' ends; what is uncaused. Nothing that it is made of stays."""
    moments, waits, queue, uncaused = _made(trace, messages, delays_ns, intervals)
    return *_in_order(moments, waits, queue, len(trace.ranks)), uncaused


def _made(trace: Trace, messages: Messages, delays_ns: Delays, intervals: Longs) -> tuple[Moments, Longs, Queue, int]:
    """Moments, which of them end waits without a cause, messages, and how many waits and tasks are without one."""
    start_ns = int(intervals[:, 0].min())
    program = program_of(trace)
    order, link = served(messages.joined)
    rows = np.take(messages.joined, order)
    message_keys = keys(messages.joined)
    queue = queue_of(rows, link + len(trace.ranks), posted(program, message_keys)[order], delays_ns, start_ns)
    place = np.empty(len(rows), dtype=np.int64)  # of each message of ``joined`` in the queue
    place[order] = np.arange(len(rows))
    arrived = place + program.count
    cause = causes(program, message_keys, sent=arrived + len(rows), arrived=arrived)
    of_messages_ns = np.append(queue.arrived_ns, queue.sent_ns)
    moments = moments_of(program, cause, of_messages_ns, start_ns, intervals[:, 1])
    waits = uncaused(program, cause)
    return moments, waits, queue, len(waits) + unbegun(program)


def prepare_library(trace: Trace, of: Collectives, flows: Sequence[ObservedFlow], stalls: Stalls = NO_STALLS) -> Replay:
    """The replay of ``trace``, whose library carried the collectives ``of`` over links that show ``flows``.

    Raises: AnalysisError, if a rank has no TRAINING span or the trace contradicts itself.
    """
    intervals = _intervals_ns(trace)
    start_ns = int(intervals[:, 0].min())
    program = collective_program(trace, of, flows, start_ns, intervals[:, 1])
    none = np.empty(0, dtype=np.int64)
    queue = queue_of(np.empty(0, dtype=MESSAGE), none, none, {}, start_ns)
    links = [each.element for each in flows]
    uncaused_waits = len(program.uncaused) + program.unbegun
    moments, queue, ends = _in_order(program.moments, program.uncaused, queue, len(trace.ranks))
    return _replay(trace, moments, queue, ends, links, stalls, uncaused_waits)


def _intervals_ns(trace: Trace) -> Longs:
    """Start and end of every rank's training, shape (ranks, 2)."""
    return np.array([training_ns(rank) for rank in trace.ranks], dtype=np.int64)


def _link(trace: Trace, src: int, dst: int) -> Element:
    hosts = {rank.rank: rank.host for rank in trace.ranks}
    return Element(kind=ElementKind.LINK, src=hosts[src], dst=hosts[dst])


def _in_order(moments: Moments, waits: Longs, queue: Queue, ranks: int) -> tuple[Moments, Queue, Longs]:
    """All in order of time, and the ends of ``ranks``, the last of ``moments``, of which ``waits`` have no cause."""
    count = len(moments.first)
    moments, queue, number = in_order_of_time(held(moments, waits), queue)
    return moments, queue, number[count - ranks : count].astype(np.int64)


def _replay(
    trace: Trace, moments: Moments, queue: Queue, ends: Longs, links: Sequence[Element], stalls: Stalls, uncaused: int
) -> Replay:  # fmt: skip
    """The replay of ``moments``, among which are the ``ends`` of the ranks, and ``queue``."""
    intervals = _intervals_ns(trace)
    services = _services(trace, links, moments, queue, stalls)
    return Replay(
        elements=tuple(services.elements),
        graph=build(moments, queue, len(services.elements)),
        ends=ends,
        services=services,
        critical=critical_path(moments, queue, int(ends[np.argmax(intervals[:, 1])]), services),
        measured_ns=int(intervals[:, 1].max() - intervals[:, 0].min()),
        uncaused=uncaused,
    )


def _services(trace: Trace, links: Sequence[Element], moments: Moments, queue: Queue, stalls: Stalls) -> Services:
    """The services of ``moments`` and ``queue``, and in which of them something stalled."""
    elements = [*(Element(kind=ElementKind.HOST, src=host) for host in trace.hosts), *links]
    number = {element: place for place, element in enumerate(elements)}
    stalled = {
        len(moments.first) + message: stall for message, stall in _stalled_messages(stalls, queue, number).items()
    }
    start_ns = min(training_ns(rank)[0] for rank in trace.ranks)
    places = {rank.rank: place for place, rank in enumerate(trace.ranks)}
    stalled |= _stalled_segments(stalls, moments, places, start_ns)
    begin_ns = np.append(moments.observed_ns - moments.service_ns, queue.start_ns) - (began_ns(trace) - start_ns)
    units = sorted(stalled)
    return Services(
        elements=number,
        element=np.append(np.where(_SERVED[moments.phase], moments.rank, NONE), queue.link),
        phase=np.append(moments.phase, np.zeros_like(queue.link)),
        begin_s=begin_ns / 1e9,
        stalled=np.array(units, dtype=np.int64),
        stalled_ns=np.array([stalled[unit].length_ns for unit in units], dtype=np.float64),
        stalled_by=np.array([number[stalled[unit].element] for unit in units], dtype=np.int32),
    )


def _stalled_messages(stalls: Stalls, queue: Queue, number: Mapping[Element, int]) -> dict[int, Stall]:
    """The messages in which something stalled; ``number``: of each element."""
    found: dict[int, Stall] = {}
    for (src, dst), of_link in stalls.messages.items():
        rows = np.flatnonzero(queue.link == number[Element(kind=ElementKind.LINK, src=src, dst=dst)]).tolist()
        found |= {row: stall for row, stall in zip(rows, of_link, strict=True) if stall is not None}
    return found


def _stalled_segments(stalls: Stalls, moments: Moments, place: Mapping[int, int], start_ns: int) -> dict[int, Stall]:
    """The moments that end a span in which its host stalled; ``place``: of each rank; ``start_ns``: moment 0."""
    found: dict[int, Stall] = {}
    for (rank, phase, iteration, end_ns), stall in stalls.segments.items():
        is_it = (moments.rank == place[rank]) & (moments.phase == phase)
        is_it &= (moments.iteration == iteration) & (moments.observed_ns == end_ns - start_ns)
        found |= dict.fromkeys(np.flatnonzero(is_it).tolist(), stall)
    return found
