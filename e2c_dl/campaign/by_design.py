"""What a run's links and hosts were like by design, as one figure each: what diagnosis holds the run against.

::

    a course over the run   |--40--|-----10-----|--40--|     its median over time: 10 Mbit/s if it is there most of it
    a shared bottleneck     20 Mbit/s, two links             an even share of it: 10 Mbit/s each, also while one is idle
    heat                    throttled for most of the run    its factor counts

Findings compare medians, and a slow phase holds fewer iterations and messages than it lasts: the median over time is
never faster than the median message by design, so that nothing is accused of what the scenario itself asked for. What
was injected stays out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median_low

from e2c_dl.emulation import expected
from e2c_dl.scenario.model import LinkCourse, Scenario
from e2c_dl.topology import Link, Topology
from e2c_dl.trace.changes import Change, ChangeInForce

SAMPLES = 500
"""Moments of a run, evenly spread, at which a course is looked at."""


def topology(scenario: Scenario, seconds: float) -> Topology:
    """The design over ``seconds`` of training, every link without change and without sharing."""
    schedules, design = scenario.schedules, scenario.topology
    links = dict(design.links)
    for pair, course in schedules.links.items():
        links[pair] = _typical_link(design.link(*pair), course, seconds)
    shared = tuple(
        replace(each, rate_bps=_typical(schedules.bottlenecks[each.name].at, seconds))
        if each.name in schedules.bottlenecks
        else each
        for each in design.bottlenecks
    )
    steady = replace(design, links=links, bottlenecks=shared)
    for each in shared:
        shares = expected.shares(steady, each, each.rate_bps)
        links |= {pair: replace(steady.link(*pair), rate_bps=rate_bps) for pair, rate_bps in shares.items()}
    return replace(steady, links=links)


def compute_factors(scenario: Scenario, changes: Sequence[ChangeInForce], seconds: float) -> Mapping[str, float]:
    """Host that trains -> times slower by design over ``seconds`` of training, heat as ``changes`` tell it included."""
    return {host.name: _factor(scenario, host.name, changes, seconds) for host in scenario.topology.ranks}


def _factor(scenario: Scenario, host: str, changes: Sequence[ChangeInForce], seconds: float) -> float:
    constant, course = scenario.compute.factor(host), scenario.schedules.compute.get(host)
    device = scenario.schedules.thermal.get(host)
    if course is None and device is None:
        return constant
    switches = [
        (change.in_force_s, change.what is Change.THROTTLE)
        for change in changes
        if change.host == host and change.what in (Change.THROTTLE, Change.RECOVER)
    ]

    def factor(time_s: float) -> float:
        hot = [throttled for at_s, throttled in switches if at_s <= time_s][-1:] == [True]
        designed = constant if course is None else course.at(time_s)
        return designed * device.factor if device is not None and hot else designed

    return -_typical(lambda time_s: -factor(time_s), seconds)  # of two middle ones the slower, as of rates


def _typical_link(link: Link, course: LinkCourse, seconds: float) -> Link:
    if course.rate_bps is not None:
        link = replace(link, rate_bps=_typical(course.rate_bps.at, seconds))
    if course.loss is not None:
        link = replace(link, loss=_typical(course.loss.at, seconds))
    if course.delay_s is not None:
        delay_s = course.delay_s.at
        link = replace(link, delay_s=-_typical(lambda time_s: -delay_s(time_s), seconds))
    return link


def _typical(value: Callable[[float], float], seconds: float) -> float:
    """The median over time; of two middle ones the lower."""
    return median_low(value((index + 0.5) * seconds / SAMPLES) for index in range(SAMPLES))
