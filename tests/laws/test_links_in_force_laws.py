"""Laws of links that change: what a link is at a moment, and when it may change next."""

import math
import time
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.dynamics.faults import BegunFaults
from e2c_dl.dynamics.links import LinksInForce
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Fault, FaultKind, Injected, LinkSchedule, Scenario, Schedules
from e2c_dl.scenario.schedule import SAME_S, Schedule
from e2c_dl.scenario.what_if import Changed, LinkChange
from e2c_dl.topology import BurstLoss, Link

FIRST_LIGHT = load(Path(__file__).parents[2] / "experiments" / "first-light")
A, B = sorted(FIRST_LIGHT.topology.links)[:2]
MBIT = 1e6


def scenario(
    *, schedule: LinkSchedule | None = None, factor: float | None = None, faults: tuple[Fault, ...] = (),
    link: Link | None = None,
) -> Scenario:  # fmt: skip
    """First light without what is injected there, but with these on link A."""
    topology = FIRST_LIGHT.topology
    if link is not None:
        topology = replace(topology, links={**topology.links, A: link})
    return replace(
        FIRST_LIGHT, topology=topology,
        schedules=Schedules(links=MappingProxyType({A: schedule} if schedule else {})),
        injected=Injected(seed=1, compute={}, links={A: factor} if factor else {}, faults=faults),
    )  # fmt: skip


def slow(value: float, at_s: float, for_s: float) -> Fault:
    return Fault(kind=FaultKind.SLOW_LINK, at_s=at_s, for_s=for_s, links=(A,), value=value)


def cut(at_s: float, for_s: float | None) -> Fault:
    return Fault(kind=FaultKind.CUT, at_s=at_s, for_s=for_s, links=(A,))


def late(value_s: float, at_s: float, for_s: float | None) -> Fault:
    return Fault(kind=FaultKind.LATE_LINK, at_s=at_s, for_s=for_s, links=(A,), value=value_s)


def lossy(value: float, at_s: float, for_s: float | None) -> Fault:
    return Fault(kind=FaultKind.LOSSY_LINK, at_s=at_s, for_s=for_s, links=(A,), value=value)


lasting = st.none() | st.floats(0.1, 20)
met = st.builds(late, st.floats(0.001, 1), st.floats(0, 20), lasting) | st.builds(
    lossy, st.floats(0.001, 0.5), st.floats(0, 20), lasting
)
timed = st.builds(slow, st.floats(0.1, 1), st.floats(0, 20), st.floats(0.1, 20)) | st.builds(
    cut, st.floats(0, 20), st.none() | st.floats(0.1, 20)
)
rates = st.builds(
    lambda values, period_s: Schedule(
        points=tuple((float(index), value * MBIT) for index, value in enumerate(values)), period_s=period_s
    ),
    st.lists(st.floats(1, 100), min_size=1, max_size=5),
    st.sampled_from([None, 6.0, 7.5]),
)


@given(st.floats(0, 1000))
def test_without_changes_a_link_is_as_emulated(time_s: float) -> None:
    asked = replace(FIRST_LIGHT, injected=replace(FIRST_LIGHT.injected, faults=()))
    links = LinksInForce(asked)
    for pair, link in asked.emulated_topology().links.items():
        assert links.link(pair, time_s, BegunFaults()) == link
    assert links.changing == frozenset()
    assert links.next_change_s(asked.topology.links, (), time_s, BegunFaults()) == float("inf")


@given(st.lists(timed, max_size=6), rates, st.floats(0, 40))
def test_nothing_changes_before_the_next_change(faults: list[Fault], rate: Schedule, time_s: float) -> None:
    links = LinksInForce(scenario(schedule=LinkSchedule(rate_bps=rate), faults=tuple(faults)))
    now, at_s = links.link(A, time_s, BegunFaults()), links.next_change_s([A], (), time_s, BegunFaults())
    assert at_s > time_s
    for share in (0.3, 0.99):
        moment_s = time_s + share * (min(at_s, time_s + 50) - time_s)
        if moment_s < at_s - 2 * SAME_S:
            assert links.link(A, moment_s, BegunFaults()) == now
    assert links.link(B, time_s, BegunFaults()) == FIRST_LIGHT.topology.link(*B)


@given(st.lists(timed, max_size=6), rates, st.floats(0.1, 1), st.floats(0, 40))
def test_slow_windows_multiply_and_a_cut_is_down(
    faults: list[Fault], rate: Schedule, factor: float, time_s: float
) -> None:
    link = LinksInForce(scenario(schedule=LinkSchedule(rate_bps=rate), factor=factor, faults=tuple(faults))).link(
        A, time_s, BegunFaults()
    )
    found = BegunFaults().windows(enumerate(faults))
    settled_s = min([time_s, *(window.begin_s for window in found if window.end_s == math.inf)])
    expected, down = rate.at(settled_s) * factor, False
    for window in found:
        if window.covers(settled_s):
            down |= window.fault.kind is FaultKind.CUT
            expected *= window.fault.value or 1.0
    assert link.rate_bps == pytest.approx(expected)
    assert link.down is down


@given(st.lists(met, max_size=6), st.sampled_from([0.0, 0.02, None]), st.floats(0, 40))
def test_delays_add_up_and_each_loses_of_what_others_leave(
    faults: list[Fault], loss: float | None, time_s: float
) -> None:
    bursts = BurstLoss(good_to_bad=0.01, bad_to_good=0.3, loss_in_bad=0.8)
    designed = Link(rate_bps=MBIT, delay_s=0.01, loss=loss or 0.0, burst=bursts if loss is None else None)
    link = LinksInForce(scenario(link=designed, faults=tuple(faults))).link(A, time_s, BegunFaults())
    in_force = [each.fault for each in BegunFaults().windows(enumerate(faults)) if each.covers(time_s)]
    later_s = [fault.value or 0.0 for fault in in_force if fault.kind is FaultKind.LATE_LINK]
    comes = math.prod(1 - (fault.value or 0.0) for fault in in_force if fault.kind is FaultKind.LOSSY_LINK)
    assert link.delay_s == pytest.approx(0.01 + sum(later_s))
    assert 1 - link.mean_loss == pytest.approx(comes * (1 - designed.mean_loss))
    assert (link.rate_bps, link.down) == (MBIT, False)


@given(
    st.permutations([slow(0.5, 0, 9), slow(0.2, 1, 9), cut(2, 9), late(0.1, 0, 5), lossy(0.1, 1, 3), lossy(0.2, 0, 9)]),
    st.floats(0, 12),
)
def test_the_order_of_faults_does_not_matter(faults: list[Fault], time_s: float) -> None:
    link = LinksInForce(scenario(faults=tuple(faults))).link(A, time_s, BegunFaults())
    sorted_link = LinksInForce(scenario(faults=tuple(sorted(faults, key=str)))).link(A, time_s, BegunFaults())
    assert link.down is sorted_link.down
    assert (link.rate_bps, link.loss) == pytest.approx((sorted_link.rate_bps, sorted_link.loss))
    assert link.delay_s == pytest.approx(sorted_link.delay_s)


def test_a_schedule_takes_the_place_of_what_was_designed() -> None:
    bursts = BurstLoss(good_to_bad=0.01, bad_to_good=0.3)
    schedule = LinkSchedule(delay_s=Schedule(points=((0.0, 0.01), (5.0, 0.02))), loss=Schedule.constant(0.03))
    designed = Link(rate_bps=10 * MBIT, delay_s=0.5, jitter_s=0.001, burst=bursts, queue_bytes=90_000)
    links = LinksInForce(scenario(schedule=schedule, link=designed, factor=0.5))
    assert links.link(A, 5.0, BegunFaults()) == replace(
        designed, rate_bps=5 * MBIT, delay_s=0.02, loss=0.03, burst=None
    )
    assert links.next_change_s([A], (), 0.0, BegunFaults()) == 5.0


def test_a_cut_for_good_is_the_last_change_of_its_link_alone() -> None:
    schedule = LinkSchedule(rate_bps=Schedule(points=((0.0, MBIT), (1.0, 2 * MBIT)), period_s=2.0))
    faults = (cut(3.5, None), slow(0.5, 9.0, 1.0))
    links = LinksInForce(scenario(schedule=schedule, faults=faults))
    assert links.next_change_s([A], (), 3.0, BegunFaults()) == 3.5
    cut_link = links.link(A, 3.5, BegunFaults())
    assert (cut_link.down, cut_link.rate_bps) == (True, 2 * MBIT)
    assert all(links.link(A, time_s, BegunFaults()) == cut_link for time_s in (4.0, 9.5, 1e6))
    assert links.next_change_s([A], (), 3.5, BegunFaults()) == math.inf
    other = Schedules(links=MappingProxyType({A: schedule, B: schedule}))
    both = LinksInForce(replace(scenario(faults=faults), schedules=other))
    assert both.next_change_s([A, B], (), 3.5, BegunFaults()) == 4.0


def test_a_fault_of_an_iteration_begins_with_it() -> None:
    fault = Fault(kind=FaultKind.CUT, at_iteration=30, for_s=5.0, links=(A, B))
    links = LinksInForce(scenario(faults=(slow(0.5, 1, 1), fault)))
    numbered = links.faults_of([B])
    assert numbered == ((1, fault),)
    begun = BegunFaults()
    assert begun.begin(numbered, 29, 98.0) == ()
    assert not links.link(B, 100.0, begun).down
    assert begun.begin(numbered, 30, 99.0) == (1,)
    assert begun.begin(numbered, 30, 99.5) == ()  # once: the first worker to get there counts
    assert links.link(B, 100.0, begun).down
    assert links.next_change_s([B], (), 100.0, begun) == 104.0
    assert not links.link(B, 104.0, begun).down


@given(rates, st.floats(0, 40))
def test_what_is_asked_for_instead_of_a_schedule_never_changes(rate: Schedule, time_s: float) -> None:
    asked = replace(
        scenario(schedule=LinkSchedule(rate_bps=rate)), what_if=Changed(links={A: LinkChange(rate_bps=MBIT)})
    )
    links = LinksInForce(asked)
    assert links.link(A, time_s, BegunFaults()).rate_bps == MBIT
    assert links.next_change_s([A], (), time_s, BegunFaults()) == math.inf, "who waits for a change would for ever"


def test_a_partition_of_many_links_that_comes_often_is_looked_through_once() -> None:
    others = tuple((f"edge-{i}", f"cloud-{j}") for i in range(60) for j in range(60))
    often = tuple(replace(cut(10.0 * number, 5.0), links=(*others, A)) for number in range(1, 101))
    in_force, begun = LinksInForce(scenario(faults=often)), BegunFaults()
    begin_s, time_s = time.process_time(), 0.0
    for number in range(1, 101):
        for down in (True, False):
            time_s = in_force.next_change_s([A], (), time_s, begun)
            assert time_s == 10.0 * number + (0.0 if down else 5.0)
            assert in_force.link(A, time_s, begun).down is down
    assert time.process_time() - begin_s < 1.0  # looked through each time, it took 5
