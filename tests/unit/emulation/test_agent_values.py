"""What an agent is told and has to do, and the log of what it did, as values."""

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.run import Run
from e2c_dl.dynamics.faults import CLOCK_FAULTS, BegunFaults, faults_of_kind, skews
from e2c_dl.emulation.agent.config import AgentConfig, WorkerSignal
from e2c_dl.emulation.agent.duties import Duties
from e2c_dl.emulation.compute import HEADROOM, LEAST_CORES, RELAY_CORES, Method, least_factors, of_scenario, plan
from e2c_dl.errors import ArchiveError, EmulationError, TestbedError
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Fault, FaultKind, LinkSchedule, Schedules
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal
from e2c_dl.testbeds.this_machine.cpu import Quota
from e2c_dl.topology import Bottleneck, Host
from e2c_dl.trace.changes import Change, ChangeLog, read_changes
from e2c_dl.trace.clocks.clock import write_alignment
from e2c_dl.trace.clocks.skew import Skew
from e2c_dl.trace.model import ClockAlignment

FIRST_LIGHT = load(Path(__file__).parents[3] / "experiments" / "first-light")
EDGE, OTHER = FIRST_LIGHT.topology.names[:2]
CLOUD = FIRST_LIGHT.topology.names[-1]
STEPS = Schedule(points=((0.0, 2.0), (1.0, 4.0)))


def scenario(*faults: Fault, **schedules: object):
    return replace(
        FIRST_LIGHT,
        injected=replace(FIRST_LIGHT.injected, compute={EDGE: 3.0}, faults=faults),
        schedules=Schedules(**schedules),
    )


def test_a_configuration_comes_back_as_it_was_sent():
    config = AgentConfig(
        host="edge-1", scenario="/s", log="/l", worker_pid=7, backend="tc", relay_socket=None, device="eth1",
        addresses={"fog-1": "198.19.0.12"},
    )  # fmt: skip
    assert AgentConfig.from_line(config.to_line()) == config
    for told in (WorkerSignal(at_ns=12), WorkerSignal(at_ns=12, iteration=3)):
        assert WorkerSignal.from_line(told.to_line().strip()) == told


@pytest.mark.parametrize("line", ["", "[]", "{}", "no", json.dumps({"host": "edge-1", "pid": 1})])
def test_what_is_no_configuration_is_refused(line):
    with pytest.raises(EmulationError, match="agent: .*configuration"):
        AgentConfig.from_line(line)


@pytest.mark.parametrize("line", ["", "began", "began x", "iteration 3", "stop 5", "iteration 1 2 3"])
def test_what_no_worker_says_is_refused(line):
    with pytest.raises(EmulationError, match="was told"):
        WorkerSignal.from_line(line)


def test_every_host_has_its_own_duties():
    cut = Fault(kind=FaultKind.CUT, at_s=1.0, links=((EDGE, OTHER), (OTHER, EDGE)))
    pause = Fault(kind=FaultKind.PAUSE, at_s=1.0, for_s=1.0, host=OTHER)
    shared = Bottleneck(name="shared", rate_bps=1e6, links=((EDGE, CLOUD), (OTHER, CLOUD)))
    asked = scenario(
        cut, pause, links=MappingProxyType({(EDGE, CLOUD): LinkSchedule(rate_bps=STEPS)}),
        bottlenecks=MappingProxyType({"shared": STEPS}),
    )  # fmt: skip
    asked = replace(asked, topology=replace(asked.topology, bottlenecks=(shared,)))
    own = Duties.of(asked, EDGE, relay=True)
    assert set(own.links) == {(EDGE, OTHER), (EDGE, CLOUD)}
    assert (own.bottlenecks, own.pauses, own.kills) == (("shared",), (), ())
    assert own.faults == ((0, cut),)
    assert own.concerns((0, 7)) and not own.concerns((1,)) and not own.concerns(())
    other = Duties.of(asked, OTHER, relay=True)
    assert (other.links, other.bottlenecks, other.pauses) == (((OTHER, EDGE),), (), ((1, pause),))
    assert not Duties.of(asked, CLOUD, relay=True).any
    assert Duties.of(asked, CLOUD, relay=False).bottlenecks == ("shared",)  # its kernel may be where it is held
    assert set(asked.emulated_topology().links) >= {(OTHER, EDGE), (EDGE, CLOUD)}


@pytest.mark.parametrize("sources", [("aux-1", OTHER), ("aux-1",)])
def test_a_bottleneck_that_hosts_which_do_not_train_share_is_changed_by_one_that_does(sources):
    aux = Host(name="aux-1", layer="aux", service="Default", service_id="9_1_1", role="aux.default.1.1", rank=None)
    shared = Bottleneck(name="shared", rate_bps=1e6, links=tuple((source, CLOUD) for source in sources))
    asked = scenario(bottlenecks=MappingProxyType({"shared": STEPS}))
    topology = replace(asked.topology, hosts=(*asked.topology.hosts, aux), bottlenecks=(shared,))
    asked = replace(asked, topology=topology)
    have = [host.name for host in topology.hosts if Duties.of(asked, host.name, relay=True).bottlenecks]
    assert len(have) == 1 and topology.host(have[0]).rank is not None and (OTHER not in sources or have == [OTHER])


def test_clock_faults_become_skews_of_the_machines_clock():
    step = Fault(kind=FaultKind.CLOCK_STEP, at_s=2.0, host=EDGE, value=0.05)
    drift = Fault(kind=FaultKind.CLOCK_DRIFT, at_iteration=4, for_s=3.0, host=EDGE, value=1e-4)
    asked = scenario(step, drift, replace(step, host=OTHER))
    faults = faults_of_kind(asked, *CLOCK_FAULTS, host=EDGE)
    assert faults == ((0, step), (1, drift))
    assert skews(faults, 10**9, BegunFaults()) == (Skew(begin_ns=3 * 10**9, step_ns=50_000_000),)
    assert skews(faults, 10**9, BegunFaults({1: 0.5})) == (
        Skew(begin_ns=1_500_000_000, drift=1e-4),
        Skew(begin_ns=3 * 10**9, step_ns=50_000_000),
        Skew(begin_ns=4_500_000_000, drift=-1e-4),
    )


def test_a_host_that_changes_gets_the_quota_of_its_fastest_and_is_paced():
    chosen = plan(4, {"a": 1.0, "b": 4.0}, "quota", 0.5, least={"b": 2.0})
    assert dict(chosen.cores) == {"a": 0.5 * HEADROOM, "b": 0.25 * HEADROOM}
    assert dict(chosen.speed) == {"a": 0.5, "b": 0.125}
    assert not chosen.oversubscribed
    slept = plan(2, {"a": 1.0, "b": 4.0}, "sleep", None, least={"b": 0.5})
    assert slept.method is Method.SLEEP
    assert slept.speed["a"] == pytest.approx(0.5) == pytest.approx(4 * slept.speed["b"])  # b: once twice as fast
    assert plan(8, {"a": 1.0}, "auto", None, least={"a": 0.5}).method is Method.SLEEP  # two cores for one thread


def test_no_quota_is_chosen_that_the_kernel_cannot_give():
    assert plan(4, {"a": 1.0, "b": 300.0}, "auto", 0.2).method is Method.QUOTA
    assert plan(4, {"a": 1.0, "b": 301.0}, "auto", 0.2).method is Method.SLEEP
    assert Quota.of(LEAST_CORES).period_us == 1_000_000
    with pytest.raises(TestbedError, match="no less than 0.001"):
        Quota.of(LEAST_CORES * 0.999)


def test_who_changes_is_found_in_the_scenario():
    slow = Fault(kind=FaultKind.SLOW_HOST, at_s=1.0, host=OTHER, value=2.0)
    asked = scenario(slow, compute=MappingProxyType({EDGE: STEPS}), thermal=MappingProxyType({CLOUD: Thermal()}))
    least = least_factors(asked)
    assert least == {EDGE: 6.0, OTHER: asked.emulated_factor(OTHER), CLOUD: asked.emulated_factor(CLOUD)}
    chosen = of_scenario(64 + RELAY_CORES, asked)
    assert set(chosen.speed) >= set(least)


def test_a_log_of_changes_is_read_on_the_reference_clock(tmp_path):
    folder = tmp_path / layout.HOSTS / "edge-1"
    folder.mkdir(parents=True)
    log = ChangeLog(folder / layout.CHANGES, "edge-1", lambda machine_ns: machine_ns + 5)
    log.began_ns = 10**9
    log.add(Change.PAUSE, "edge-1", 3 * 10**9, asked_s=1.75)
    log.add(Change.LINK, "edge-1 -> fog-1", 2 * 10**9, asked_s=1.0, asked_iteration=7, rate_bps=1e6)
    log.close()
    with (folder / layout.CHANGES).open("a") as file:
        file.write('{"what": "pau')  # killed while writing
    own = ChangeLog(folder / layout.WORKER_CHANGES, "edge-1", lambda machine_ns: machine_ns)
    own.add(Change.COMPUTE, "edge-1", 0, asked_s=0.0, factor=2.0)
    own.close()
    write_alignment(folder / layout.CLOCK, ClockAlignment(offset_ns=1000))
    compute, link, pause = ReadArchive(path=tmp_path, run=Run(run_id="r", started="")).changes()
    assert (compute.what, compute.in_force_ns) == (Change.COMPUTE, 1000)
    assert (link.in_force_ns, link.in_force_s, link.lateness_s) == (2 * 10**9 + 1005, 1.0, 0.0)
    assert (link.asked_s, link.asked_iteration, link.value) == (None, 7, {"rate_bps": 1e6})
    assert (pause.asked_s, pause.lateness_s, pause.whom) == (1.75, 0.25, "edge-1")


def test_what_is_no_log_of_changes_is_said(tmp_path):
    path = tmp_path / "changes.jsonl"
    path.write_text('{"what": "weather", "in_force_ns": 1}\n')
    with pytest.raises(ArchiveError, match="what 'weather' must be one of"):
        read_changes(path, ClockAlignment())
