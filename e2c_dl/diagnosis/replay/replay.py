"""Trace-driven replay of a run: when it would have ended, had one host or one link been faster.

The model is happens-before with observed durations. A moment follows::

    within a task       the task's previous moment, after the observed gap                       (program order)
    first of a task     its SPAWN (the compute thread: also its previous backward's end)
    AWAIT_TASK's end    the awaited task's last moment
    AWAIT_BUCKET's end  the end of that bucket's BACKWARD
    AWAIT_MESSAGE's end the message's arrival
    AWAIT_SENT's end    the end of that SEND

and messages of one directed link are served one after another, in the order in which they are posted; delays overlap::

    posted    send_start                    recv_end
      |----------|~~~~~~~ delay ~~~~~~~|======|            message 1: queue, delay, service
      |             |~~~~~~~ delay ~~~~~~~|...|======|     message 2: its service begins when message 1's has ended
                                                     recv_end

    service = recv_end - max(send_start + delay, previous recv_end of the link)

A SEND that took longer than 1 ms was held back by a full kernel buffer: it ends when as many bytes as observed are
still to leave. A shorter one takes as long as observed.

A what-if (:mod:`e2c_dl.diagnosis.replay.whatif`) scales a link's services, or shortens its delay, or scales a host's
computing spans, or takes off the time in which a link or a host stalled (:mod:`e2c_dl.diagnosis.stalls`). All other
durations (gaps, wake-ups) stay as observed.

Assumptions: a task does the same, however long things take (true of synchronous strategies); hosts do not compete for
processors; links do not compete with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from e2c_dl.diagnosis.links import in_service_order, services_ns
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.replay.graph import ORIGIN, QUEUED, Graph, Longs, Sketch, build
from e2c_dl.diagnosis.replay.program import Programs, SpanKey, sketch_programs
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, WhatIf
from e2c_dl.diagnosis.states import training_ns
from e2c_dl.topology import Pair
from e2c_dl.trace.messages import MessageArray, Messages
from e2c_dl.trace.model import Phase, Trace

HELD_BACK_NS = 1_000_000
"""A SEND longer than this waited for room in the kernel's buffer."""


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
class Replay:
    """A run that can be replayed with changes. Made by :func:`prepare`; nothing in it is mutated."""

    elements: tuple[Element, ...]  # hosts in rank order, then links that carried messages
    graph: Graph
    ends: tuple[int, ...]  # each rank's end, a moment of the graph
    began_ns: int  # second 0 of what-ifs: the first rank's first iteration
    measured_ns: int  # from the first rank's first iteration to the last rank's end
    unexplained: int  # waits whose cause, and tasks whose beginning, the trace does not hold: they keep their times

    def run_ns(self, whatif: WhatIf = UNCHANGED) -> int:
        """Run time after ``whatif``. Raises: KeyError, if an element is not in the run."""
        times = self.graph.times_ns(self._own_ns(whatif).tolist(), self._served(whatif))
        return max(times[end] for end in self.ends) - self.graph.start_ns

    def runs_ns(self, whatifs: Sequence[WhatIf]) -> list[int]:
        """Run time after each of ``whatifs``. Raises: KeyError, if an element is not in the run."""
        return [self.run_ns(whatif) for whatif in whatifs]

    def _own_ns(self, whatif: WhatIf) -> Longs:
        """Service and residual of every moment after ``whatif``."""
        graph = self.graph
        moving = [self._index[element] for element in whatif.moving]
        service_ns = graph.service_ns - graph.stalled_ns * np.isin(graph.element, moving)
        scale, less_ns = np.ones(len(service_ns)), np.zeros(len(service_ns))
        for change in whatif.changes:
            if change.element.kind is ElementKind.HOST:
                own = (graph.element == self._index[change.element]) & np.isin(graph.phase, sorted(change.phases))
                at_s = (graph.observed_ns[own] - graph.service_ns[own] - self.began_ns) / 1e9
                scale[own] *= change.scale.at(at_s)
                less_ns[own] += change.less_s.at(at_s) * 1e9
        changed_ns = np.rint(np.maximum(0, service_ns * scale - less_ns)).astype(np.int64)
        return np.asarray(changed_ns + graph.residual_ns)

    def _served(self, whatif: WhatIf) -> list[tuple[int, int, int]]:
        """What every message occupies, how much is ahead of it when it was sent, and its delay, after ``whatif``."""
        queued = self.graph.queued
        stalled_ns = queued["stalled_ns"] * np.isin(
            queued["stalled_by"], [self._index[element] for element in whatif.moving]
        )
        scale, delay_ns = np.ones(len(queued)), queued["delay_ns"].astype(np.float64)
        for change in whatif.changes:
            if change.element.kind is not ElementKind.HOST:
                own = queued["element"] == self._index[change.element]
                at_s = (queued["observed_ns"][own] - self.began_ns) / 1e9
                scale[own] *= change.scale.at(at_s)
                delay_ns[own] = np.maximum(0, delay_ns[own] - change.less_s.at(at_s) * 1e9)
        service_ns = np.rint((queued["service_ns"] - stalled_ns) * scale) + queued["arrived_residual_ns"]
        ahead_ns = np.rint(np.maximum(0, queued["ahead_ns"] - stalled_ns) * scale)
        columns = [column.astype(np.int64).tolist() for column in (service_ns, ahead_ns, np.rint(delay_ns))]
        return list(zip(*columns, strict=True))

    @cached_property
    def replayed_ns(self) -> int:
        """Run time of the unchanged replay."""
        return self.run_ns()

    @property
    def error(self) -> float:
        """|replayed - measured| / measured, unchanged: 0 if the model is consistent."""
        return abs(self.replayed_ns - self.measured_ns) / self.measured_ns

    @cached_property
    def _index(self) -> dict[Element, int]:
        return {element: i for i, element in enumerate(self.elements)}


def prepare(
    trace: Trace, messages: Messages, delays_ns: Mapping[tuple[int, int], int | Longs], stalls: Stalls = NO_STALLS
) -> Replay:
    """The replay of ``trace``. ``delays_ns``: (src rank, dst rank) -> one-way delay, 0 where absent; of all its
    messages, or of each in service order.

    Raises: AnalysisError, if a rank has no TRAINING span or the trace contradicts itself.
    """
    intervals = [training_ns(rank) for rank in trace.ranks]
    start_ns = min(start for start, _ in intervals)
    by_link = messages.by_link()
    elements = _elements(trace, by_link)
    index = {element: i for i, element in enumerate(elements)}
    hosts = {rank.rank: rank.host for rank in trace.ranks}
    sketch = Sketch(observed_ns=[start_ns])
    programs = sketch_programs(sketch, trace, {key: stall.length_ns for key, stall in stalls.segments.items()})
    for link, ((src, dst), rows) in enumerate(by_link.items(), start=len(trace.ranks)):
        _sketch_link(sketch, programs, link, rows, delays_ns.get((src, dst), 0))
        for row, stall in enumerate(stalls.messages.get((hosts[src], hosts[dst]), ())):
            if stall is not None:
                sketch.queued[-1]["stalled_ns"][row] = stall.length_ns
                sketch.queued[-1]["stalled_by"][row] = index[stall.element]
    programs.connect_waits(sketch)
    ends = [sketch.add(end_ns, last) for last, (_, end_ns) in zip(programs.last_of_main, intervals, strict=True)]
    return Replay(
        elements=elements,
        graph=build(sketch),
        ends=tuple(ends),
        began_ns=_began_ns(trace),
        measured_ns=max(end for _, end in intervals) - start_ns,
        unexplained=programs.unexplained,
    )


def _began_ns(trace: Trace) -> int:
    begins = [rank.spans["start_ns"][rank.spans["phase"] == Phase.ITERATION] for rank in trace.ranks]
    return min(int(each.min()) for each in begins if len(each))


def _elements(trace: Trace, by_link: Mapping[tuple[int, int], MessageArray]) -> tuple[Element, ...]:
    hosts = {rank.rank: rank.host for rank in trace.ranks}
    return (
        *(Element(kind=ElementKind.HOST, src=host) for host in trace.hosts),
        *(Element(kind=ElementKind.LINK, src=hosts[src], dst=hosts[dst]) for src, dst in by_link),
    )


def _sketch_link(sketch: Sketch, programs: Programs, link: int, rows: MessageArray, delay_ns: int | Longs) -> None:
    """Adds one directed link's messages to ``sketch``, and the moments of their ends to ``programs``."""
    rows = in_service_order(rows)
    start_ns, sent_ns, arrived_ns = rows["send_start_ns"], rows["send_end_ns"], rows["recv_end_ns"]
    previous_sent_ns = np.concatenate([sketch.observed_ns[:1], sent_ns[:-1]])
    previous_arrived_ns = np.concatenate([sketch.observed_ns[:1], arrived_ns[:-1]])
    queued = np.zeros(len(rows), dtype=QUEUED)
    queued["element"], queued["delay_ns"], queued["observed_ns"] = link, delay_ns, start_ns
    queued["service_ns"] = services_ns(rows, delay_ns)
    queued["start_residual_ns"] = start_ns - np.maximum(rows["posted_ns"], previous_sent_ns)
    begin_ns = np.maximum(start_ns + delay_ns, previous_arrived_ns)
    queued["arrived_residual_ns"] = arrived_ns - begin_ns - queued["service_ns"]
    queued["held_back"] = sent_ns - start_ns > HELD_BACK_NS
    queued["sent_lag_ns"] = sent_ns - start_ns
    queued["ahead_ns"] = np.maximum(0, arrived_ns - delay_ns - sent_ns)
    queued["sent_residual_ns"] = sent_ns - np.maximum(start_ns, arrived_ns - delay_ns - queued["ahead_ns"])
    keys = zip(*(rows[name].tolist() for name in ("src", "dst", "seq")), strict=True)
    for row, (key, sent, arrived) in enumerate(zip(keys, sent_ns.tolist(), arrived_ns.tolist(), strict=True)):
        queued["posted"][row] = programs.posted[key]
        queued["sent"][row] = programs.sent[key] = sketch.add(sent, ORIGIN)
        queued["arrived"][row] = programs.arrived[key] = sketch.add(arrived, ORIGIN)
    sketch.queued.append(queued)
