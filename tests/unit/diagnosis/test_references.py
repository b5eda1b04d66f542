"""How slow hosts were by design: constants, schedules, and heat as the log of changes tells it."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from e2c_dl.diagnosis import references
from e2c_dl.emulation import compute
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import LinkSchedule, Scenario, Schedules
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal
from e2c_dl.topology import Link
from e2c_dl.trace.changes import Change, ChangeInForce
from e2c_dl.trace.model import Trace


@pytest.fixture
def scenario(repository) -> Scenario:
    found = load(repository / "experiments" / "first-light")
    return replace(found, compute=replace(found.compute, factors=MappingProxyType({"edge-1": 1.5})))


def throttled(what: Change, at_s: float) -> ChangeInForce:
    return ChangeInForce(
        host="edge-1", what=what, whom="edge-1", in_force_ns=0, in_force_s=at_s, lateness_s=0.0, value={}
    )


def test_a_scenario_that_does_not_change_is_its_own_design(scenario):
    factors = references.compute_factors(scenario, (), 30.0)
    assert factors["edge-1"] == Schedule.constant(1.5)
    assert factors["cloud-1"] == Schedule.constant(1.0)


def test_a_schedule_takes_the_place_of_the_constant(scenario):
    schedule = Schedule(points=((0.0, 1.0), (10.0, 4.0)), period_s=20.0)
    changing = replace(scenario, schedules=Schedules(compute={"edge-1": schedule}))
    assert references.compute_factors(changing, (), 30.0)["edge-1"] == schedule


def test_heat_multiplies_while_the_device_was_throttled(scenario):
    hot = replace(scenario, schedules=Schedules(thermal={"edge-1": Thermal(factor=3.0)}))
    changes = (throttled(Change.THROTTLE, 5.0), throttled(Change.RECOVER, 25.0))
    assert references.compute_factors(hot, changes, 60.0)["edge-1"].points == ((0.0, 1.5), (5.0, 4.5), (25.0, 1.5))


def test_heat_and_a_schedule_that_repeats_hold_together(scenario):
    schedule = Schedule(points=((0.0, 1.0), (10.0, 2.0)), period_s=20.0)
    both = Schedules(compute={"edge-1": schedule}, thermal={"edge-1": Thermal(factor=3.0)})
    factor = references.compute_factors(replace(scenario, schedules=both), (throttled(Change.THROTTLE, 15.0),), 35.0)
    assert factor["edge-1"].points == ((0.0, 1.0), (10.0, 2.0), (15.0, 6.0), (20.0, 3.0), (30.0, 6.0))


def test_where_rates_alone_can_be_emulated_delays_and_losses_are_not_expected(scenario):
    pair = next(iter(scenario.topology.links))
    link = Link(rate_bps=20e6, delay_s=0.02, jitter_s=0.001, loss=0.01, queue_bytes=100_000)
    schedule = LinkSchedule(rate_bps=Schedule.constant(1e6), delay_s=Schedule.constant(0.1))
    lossy = replace(
        scenario, topology=replace(scenario.topology, links={pair: link}), schedules=Schedules(links={pair: schedule})
    )
    trace = Trace(ranks=(), facts={})
    rates, whole = (
        references.reference_of(lossy, trace, (), {"backend": backend}, {}) for backend in ("htb", "tc")
    )  # fmt: skip
    assert rates.topology.links == {pair: Link(rate_bps=20e6, queue_bytes=100_000)}
    assert rates.schedules.links == {pair: LinkSchedule(rate_bps=Schedule.constant(1e6))}
    assert (whole.topology.links, whole.schedules.links) == ({pair: link}, {pair: schedule})


def test_where_no_quota_could_be_had_no_host_is_slow_by_design(scenario):
    for quota, factors in ((True, {"edge-1": 1.5}), (False, {})):
        plan = compute.of_scenario(8, replace(scenario, trained=None), quota=quota)
        emulation = {"compute": {"method": plan.method.value, "cores": dict(plan.cores)}}
        found = references.reference_of(scenario, Trace(ranks=(), facts={}), (), emulation, {}).compute_factors
        assert {host: factor.at(0.0) for host, factor in found.items() if factor.at(0.0) != 1.0} == factors
