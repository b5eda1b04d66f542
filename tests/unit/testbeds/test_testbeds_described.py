from dataclasses import replace

import pytest
from small_scenario import SERVICES, STRATEGIES, writer

from e2c_dl.emulation import compute
from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Fault, FaultKind, LinkSchedule, Schedules
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal
from e2c_dl.testbeds import described, shaping
from e2c_dl.testbeds.machines.run import compute_plan
from e2c_dl.testbeds.machines.testbed import quota_missed
from e2c_dl.topology import Bottleneck, BurstLoss, Link

PAIR = ("edge-1", "cloud-1")
RATE = Schedule(points=((0.0, 40e6), (20.0, 10e6)), period_s=60.0)


@pytest.fixture
def scenario(tmp_path):
    return load(writer(tmp_path)(), services=SERVICES, strategies=STRATEGIES)


def plan(scenario, backend=Backend.TC):
    names = scenario.topology.names
    reached = {name: f"198.19.0.{number}" for number, name in enumerate(names, 1)}
    return described.plan(scenario, backend, compute.of_scenario(4, scenario), dict.fromkeys(names, "eth1"), reached)


def test_every_command_on_the_hosts_is_told(scenario):
    told = plan(scenario)
    assert "what changes while training" not in told
    assert "edge-1 -> cloud-1: 10mbit, 10ms" in told["links, shaped by tc"]
    netem = [line for line in told["commands on the hosts"] if line.startswith("edge-1: tc") and "netem" in line]
    assert netem and any("delay" in line for line in netem)
    assert not [line for line in plan(scenario, Backend.HTB)["commands on the hosts"] if "netem" in line]
    assert "commands on the hosts" not in plan(scenario, Backend.RELAY)


def test_everything_that_is_asked_of_a_link_is_told(scenario):
    burst = BurstLoss(good_to_bad=0.01, bad_to_good=0.3)
    link = Link(rate_bps=1e6, delay_s=0.01, jitter_s=0.002, burst=burst, reorder=0.1, queue_bytes=4096)
    shared = Bottleneck(name="campus", rate_bps=2e6, links=(PAIR,))
    topology = replace(scenario.topology, links={PAIR: link}, bottlenecks=(shared,))
    assert plan(replace(scenario, topology=topology), Backend.RELAY)["links, shaped by relay"] == (
        "edge-1 -> cloud-1: 1mbit, 10ms, jitter 2ms uniform, bursts of loss 3.23% in the mean, reorder 10%, queue 4KiB",
        "bottleneck campus: 2mbit for edge-1 -> cloud-1",
    )


def test_what_changes_is_told(scenario):
    schedules = Schedules(
        links={PAIR: LinkSchedule(rate_bps=RATE)},
        compute={"edge-1": Schedule.constant(2.0)},
        thermal={"edge-2": Thermal()},
    )
    faults = (
        Fault(kind=FaultKind.CUT, at_iteration=3, for_s=5.0, links=(PAIR,)),
        Fault(kind=FaultKind.SLOW_HOST, at_s=20.0, host="edge-2", value=3.0),
    )
    changing = replace(scenario, schedules=schedules, injected=replace(scenario.injected, faults=faults))
    assert plan(changing)["what changes while training"] == (
        "edge-1 -> cloud-1: rate steps {0 s: 4e+07, 20 s: 1e+07}, again every 60 s",
        "edge-1: times slower steps {0 s: 2}",
        "edge-2: from 70 degrees on 2 times slower, until 5 cooler",
        "cut edge-1 -> cloud-1 at iteration 3 for 5 s",
        "slow_host edge-2 by 3 at 20 s",
    )


def test_what_a_back_end_must_be_able_to_do_is_what_ever_comes(scenario):
    later = LinkSchedule(
        delay_s=Schedule(points=((0.0, 0.0), (9.0, 0.2))), loss=Schedule(points=((0.0, 0.0), (5.0, 0.1)))
    )
    changing = replace(scenario, schedules=Schedules(links={("edge-1", "edge-2"): later}))
    link = shaping.at_most(changing).link("edge-1", "edge-2")
    assert (link.delay_s, link.loss, link.rate_bps) == (0.2, 0.1, None)
    faults = tuple(
        Fault(kind=kind, at_s=1.0, links=(PAIR,), value=0.01) for kind in (FaultKind.LATE_LINK, FaultKind.LOSSY_LINK)
    )
    met = replace(scenario, injected=replace(scenario.injected, faults=faults))
    before, after = scenario.emulated_topology().link(*PAIR), shaping.at_most(met).link(*PAIR)
    assert (after.delay_s, after.rate_bps) == (pytest.approx(before.delay_s + 0.01), before.rate_bps)
    assert after.loss == pytest.approx(1 - (1 - before.loss) * 0.99)


def test_machines_that_are_there_are_paced_only_if_something_is_asked(scenario):
    assert compute_plan(scenario).speed == {}
    slowed = replace(scenario, compute=replace(scenario.compute, factors={"edge-1": 4.0}, method="quota"))
    told = compute_plan(slowed)
    assert told.method is compute.Method.SLEEP
    assert told.speed["edge-1"] == pytest.approx(0.25) and told.speed["edge-2"] == pytest.approx(1.0)


def test_a_program_of_ones_own_is_not_slowed_on_other_machines_and_that_is_said(scenario):
    own = replace(scenario, trained=None)
    assert quota_missed(own) == ()
    slowed = replace(own, compute=replace(own.compute, factors={"edge-1": 4.0}))
    for told in (compute_plan(slowed), compute_plan(slowed, shared_cores=4.0)):
        assert dict(told.cores) == dict(told.speed) == {} and "no CPU quota is in force" in told.why
    (sentence,) = quota_missed(slowed)
    assert sentence.startswith("compute: no host is slowed")


def test_what_several_hosts_say_alike_is_said_once():
    assert described.grouped([("a", "x"), ("b", "y"), ("c", "x")]) == ("a, c: x", "b: y")
