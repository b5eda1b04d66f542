"""Faults over time: when each is in force, which of them have begun with an iteration, and what clocks do meanwhile.

::

    fault with at_s            [ begin_s = at_s ................ end_s )     known beforehand
    fault with at_iteration    [ begin_s = when that iteration began .. )     known once BegunFaults was told
    for_s None                 end_s is infinite: for good

Faults are numbered as in ``Injected.faults``. One :class:`BegunFaults` is all that a process knows of what has begun:
the agent of a host and its worker have one each, the virtual world one for all hosts. A drift of a clock that lasts
``for_s`` ends by one in the opposite direction: what the clock gained until then stays. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from e2c_dl.scenario.model import Fault, FaultKind, Scenario
from e2c_dl.scenario.schedule import SAME_S
from e2c_dl.trace.clocks.skew import Skew

NumberedFault = tuple[int, Fault]

CLOCK_FAULTS = (FaultKind.CLOCK_STEP, FaultKind.CLOCK_DRIFT)


@dataclass(frozen=True, kw_only=True)
class Window:
    """When one fault is in force, in seconds of training: from ``begin_s`` until before ``end_s``."""

    fault: Fault
    begin_s: float
    end_s: float  # infinity: for good

    def covers(self, time_s: float) -> bool:
        return self.begin_s - SAME_S <= time_s < self.end_s - SAME_S  # an edge that was rounded counts as reached

    def next_edge_s(self, time_s: float) -> float:
        """When, after ``time_s``, it begins or ends; infinity if neither comes."""
        return min((edge for edge in (self.begin_s, self.end_s) if edge > time_s + SAME_S), default=math.inf)


class BegunFaults:
    """The faults that have begun with an iteration, and when, in seconds of training: number -> begin.

    ::

        begun = BegunFaults()
        begun.begin(own_faults(scenario, "edge-1"), iteration=30, at_s=12.5)     (4,): fault 4 begins with it
        begun.windows(faults)                                                     fault 4 in force from 12.5 s on

    One thread calls :meth:`begin`; others may ask meanwhile.
    """

    def __init__(self, at_s: Mapping[int, float] | None = None) -> None:
        self._at_s: Mapping[int, float] = {} if at_s is None else at_s

    def begin(self, faults: Iterable[NumberedFault], iteration: int, at_s: float) -> tuple[int, ...]:
        """``iteration`` begins at ``at_s``: the numbers of those of ``faults`` that begin with it and had not yet."""
        found = [number for number, fault in faults if fault.at_iteration == iteration and number not in self._at_s]
        self._at_s = {**self._at_s, **dict.fromkeys(found, at_s)}  # replaced, never changed: another thread may read
        return tuple(found)

    def windows(self, faults: Iterable[NumberedFault]) -> tuple[Window, ...]:
        """The windows of ``faults`` that have a time: those of iterations that have not begun have none."""
        found = []
        for number, fault in faults:
            begin_s = fault.at_s if fault.at_s is not None else self._at_s.get(number)
            if begin_s is not None:  # else its iteration has not begun
                end_s = math.inf if fault.for_s is None else begin_s + fault.for_s
                found.append(Window(fault=fault, begin_s=begin_s, end_s=end_s))
        return tuple(found)


def faults_of_kind(scenario: Scenario, *kinds: FaultKind, host: str | None = None) -> tuple[NumberedFault, ...]:
    """The faults of these ``kinds``; with ``host``, those that happen to it (not to its links)."""
    numbered = enumerate(scenario.injected.faults)  # before any is left out: numbers are those of the scenario
    return tuple((number, fault) for number, fault in numbered if fault.kind in kinds and host in (None, fault.host))


def own_faults(scenario: Scenario, host: str) -> tuple[NumberedFault, ...]:
    """The faults whose iterations are those of the worker on ``host``: its own, and those of links from there."""
    numbered = enumerate(scenario.injected.faults)
    return tuple(
        (number, fault)
        for number, fault in numbered
        if fault.host == host or any(src == host for src, _ in fault.links)
    )


def skews(faults: Iterable[NumberedFault], began_ns: int, begun: BegunFaults) -> tuple[Skew, ...]:
    """What clock ``faults`` do to a host's clock, if training began at ``began_ns`` of it; in order of time."""
    found = []
    for window in begun.windows(faults):
        begin_ns, value = began_ns + round(window.begin_s * 1e9), window.fault.value or 0.0
        if window.fault.kind is FaultKind.CLOCK_STEP:
            found.append(Skew(begin_ns=begin_ns, step_ns=round(value * 1e9)))
        else:
            found.append(Skew(begin_ns=begin_ns, drift=value))
            if window.fault.for_s is not None:  # a step is never taken back: what was gained stays
                found.append(Skew(begin_ns=begin_ns + round(window.fault.for_s * 1e9), drift=-value))
    return tuple(sorted(found, key=lambda skew: skew.begin_ns))  # an end of one may come after the begin of the next
