"""What a run was like by design: courses, shares and heat as the one figure that a finding is held against."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from e2c_dl.campaign import by_design
from e2c_dl.course import Course
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import LinkCourse, Scenario, Schedules
from e2c_dl.thermal import Thermal
from e2c_dl.topology import Bottleneck, Link
from e2c_dl.trace.changes import Change, ChangeInForce

PAIR = ("edge-1", "edge-2")


@pytest.fixture
def scenario(repository) -> Scenario:
    found = load(repository / "experiments" / "first-light")
    return replace(found, compute=replace(found.compute, factors=MappingProxyType({"edge-1": 1.5})))


def test_a_scenario_that_does_not_change_is_its_own_design(scenario):
    assert by_design.topology(scenario, 30.0).links == scenario.topology.links
    factors = by_design.compute_factors(scenario, (), 30.0)
    assert factors["edge-1"] == 1.5
    assert factors["cloud-1"] == 1.0


@pytest.mark.parametrize(("until_s", "rate_bps"), [(12.0, 40e6), (18.0, 40e6), (21.0, 10e6), (60.0, 10e6)])
def test_a_course_counts_with_its_median_over_time(scenario, until_s, rate_bps):
    course = LinkCourse(rate_bps=Course(points=((0.0, 40e6), (10.0, 10e6))))
    changing = replace(scenario, schedules=Schedules(links={PAIR: course}))
    assert by_design.topology(changing, until_s).link(*PAIR).rate_bps == rate_bps


def test_links_of_a_bottleneck_have_an_even_share_by_design(scenario):
    pairs = (("edge-1", "fog-1"), ("edge-2", "fog-1"))
    links = {**scenario.topology.links, pairs[0]: Link(rate_bps=4e6), pairs[1]: Link(rate_bps=40e6)}
    shared = replace(
        scenario.topology, links=links, bottlenecks=(Bottleneck(name="uplink", rate_bps=20e6, links=pairs),)
    )
    design = by_design.topology(replace(scenario, topology=shared), 30.0)
    assert design.link(*pairs[0]).rate_bps == 4e6
    assert design.link(*pairs[1]).rate_bps == 16e6


def test_heat_counts_if_it_throttles_for_most_of_the_run(scenario):
    hot = replace(scenario, schedules=Schedules(thermal={"edge-1": Thermal(factor=3.0)}))

    def change(what: Change, at_s: float) -> ChangeInForce:
        return ChangeInForce(
            host="edge-1", what=what, whom="edge-1", in_force_ns=0, in_force_s=at_s, lateness_s=0.0, value={}
        )

    changes = (change(Change.THROTTLE, 5.0), change(Change.RECOVER, 25.0))
    assert by_design.compute_factors(hot, changes, 30.0)["edge-1"] == 4.5
    assert by_design.compute_factors(hot, changes, 60.0)["edge-1"] == 1.5
