"""Links in force at a moment of training: design, schedule and what is injected, composed.

::

    time        0 ------------------------------------------------------------> t, seconds of training
    designed    rate, delay, loss           a schedule's value takes the place of the designed one
    injected    x rate_factor all the time  (Injected.links; of a schedule's rate too)
    faults            [ x value )           SLOW_LINK: windows multiply, as many as overlap
                        [ + value )         LATE_LINK: delays add up; LOSSY_LINK: each loses of what others leave
                          [   down   )      CUT; one without an end is the last change of its link
    what-if     another rate or delay           on top of all of it

What has begun with an iteration is told as ``begun``. Pure: who asks knows the time. Bottlenecks have schedules alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from e2c_dl.dynamics.faults import BegunFaults, NumberedFault, Window, faults_of_kind
from e2c_dl.scenario.model import LINK_FAULTS, Fault, FaultKind, LinkSchedule, Scenario
from e2c_dl.scenario.schedule import SAME_S
from e2c_dl.scenario.what_if import LinkChange
from e2c_dl.topology import Link, Pair


class LinksInForce:
    """The links and bottlenecks of a scenario over time, which does not change."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._faults = faults_of_kind(scenario, *LINK_FAULTS)
        self._of_pair: dict[Pair, tuple[NumberedFault, ...]] = {}  # found once: a partition has thousands of links

    @property
    def changing(self) -> frozenset[Pair]:
        """The links that are ever other than the emulated topology has them."""
        return frozenset(
            {*self._scenario.schedules.links, *(pair for _, fault in self._faults for pair in fault.links)}
        )

    @property
    def changing_bottlenecks(self) -> frozenset[str]:
        return frozenset(self._scenario.schedules.bottlenecks)

    def faults_of(self, pairs: Iterable[Pair]) -> tuple[NumberedFault, ...]:
        """The faults, numbered, that touch any of ``pairs``."""
        wanted = set(pairs)  # looked into for every link of every fault
        return tuple((number, fault) for number, fault in self._faults if not wanted.isdisjoint(fault.links))

    def link(self, pair: Pair, time_s: float, begun: BegunFaults) -> Link:
        """``pair`` at ``time_s`` (0 or later); before training it is as the emulated topology has it.

        One that is cut for good stays what it was at that moment, but down.
        """
        scenario, of_link = self._scenario, begun.windows(self._touching(pair))
        time_s = min(time_s, _cut_for_good_s(of_link))  # what nobody can use any more needs no further changes
        link = scenario.topology.link(*pair)
        if schedule := scenario.schedules.links.get(pair):
            link = _on_schedule(link, schedule, time_s)
        link = link.slowed(scenario.injected.links.get(pair, 1.0))  # after the schedule: also its rates are slowed
        for window in of_link:  # windows that overlap add up
            if window.covers(time_s):  # neither over, nor yet to come
                link = while_met(link, window.fault)
        return scenario.what_if.link(pair, link)

    def rate_bps(self, bottleneck: str, time_s: float) -> float:
        """The rate of the bottleneck of that name at ``time_s``. Raises: KeyError if there is none."""
        if schedule := self._scenario.schedules.bottlenecks.get(bottleneck):
            return schedule.at(time_s)
        rates = {each.name: each.rate_bps for each in self._scenario.topology.bottlenecks}
        return rates[bottleneck]

    def next_change_s(
        self, pairs: Iterable[Pair], bottlenecks: Iterable[str], time_s: float, begun: BegunFaults
    ) -> float:
        """When, after ``time_s``, any of these may change next, as far as it is known now; infinity if none will."""
        schedules = self._scenario.schedules.bottlenecks
        moments = [schedules[name].next_change_s(time_s) for name in bottlenecks if name in schedules]
        moments += [self._next_of_link_s(pair, time_s, begun) for pair in pairs]
        return min(moments, default=math.inf)

    def _touching(self, pair: Pair) -> tuple[NumberedFault, ...]:
        if pair not in self._of_pair:
            self._of_pair[pair] = self.faults_of([pair])
        return self._of_pair[pair]

    def _next_of_link_s(self, pair: Pair, time_s: float, begun: BegunFaults) -> float:
        of_link = begun.windows(self._touching(pair))
        if _cut_for_good_s(of_link) <= time_s + SAME_S:  # nothing to come back for
            return math.inf
        moments = [window.next_edge_s(time_s) for window in of_link]
        if schedule := self._scenario.schedules.links.get(pair):
            asked = self._scenario.what_if.links.get(pair, LinkChange())
            rate = schedule.rate_bps if asked.rate_bps is None else None  # what is asked for holds, whatever its time
            delay = schedule.delay_s if asked.delay_s is None else None
            moments += [each.next_change_s(time_s) for each in (rate, delay, schedule.loss) if each is not None]
        return min(moments, default=math.inf)


def _cut_for_good_s(of_link: Iterable[Window]) -> float:
    """From when on a link with these windows is down for ever; infinity if it is not."""
    cuts = (window for window in of_link if window.fault.kind is FaultKind.CUT and math.isinf(window.end_s))
    return min((window.begin_s for window in cuts), default=math.inf)


def while_met(link: Link, fault: Fault) -> Link:
    """``link`` while ``fault`` is in force."""
    value = fault.value or 0.0
    match fault.kind:
        case FaultKind.CUT:
            return replace(link, down=True)
        case FaultKind.SLOW_LINK:
            return link.slowed(value)
        case FaultKind.LATE_LINK:
            return replace(link, delay_s=link.delay_s + value)
        case _:
            return link.lossier(value)


def _on_schedule(link: Link, schedule: LinkSchedule, time_s: float) -> Link:
    if schedule.rate_bps is not None:
        link = replace(link, rate_bps=schedule.rate_bps.at(time_s))
    if schedule.delay_s is not None:
        link = replace(link, delay_s=schedule.delay_s.at(time_s))
    if schedule.loss is not None:
        link = replace(link, loss=schedule.loss.at(time_s), burst=None)  # the schedule says all of it
    return link
