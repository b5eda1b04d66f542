"""Reference of a run: what its scenario designed, which diagnosis judges by. What was injected stays out of it.

How slow a host was by design is what its gradients are held against::

    factor or schedule of the scenario   |--1--|------2------|
    the device's heat, as it was         |-cool-|---hot x 3---|cool|     from the log of changes: heat follows the load
                                         |--1--|2|-----6------|-2--|
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from e2c_dl.archive.records import HostFacts
from e2c_dl.diagnosis.window import BEGAN
from e2c_dl.dynamics.speed import HostSpeed
from e2c_dl.scenario.model import LinkSchedule, Scenario, Schedules, Tcp
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal
from e2c_dl.topology import Link, Topology
from e2c_dl.trace.changes import Change, ChangeInForce
from e2c_dl.trace.model import Trace
from e2c_dl.worlds.allotment import own_pace

UNKNOWN = "unknown"
"""Hardware class of hosts that do not say what they are."""

MODEL = "profile"
"""Method of a virtual world, which slows what the method that the scenario asks for would slow."""
PACED = ("sleep", MODEL)
"""Methods of emulating compute that make a gradient take what was agreed: a quota gives it a share of a core."""

VIRTUAL = "virtual"  # how the back ends of modelled networks begin
RATES_ALONE = "htb"  # the back end that carries out nothing else of links


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What the scenario designed, which departures are judged against. It does not know what was injected."""

    topology: Topology
    compute_factors: Mapping[str, Schedule]  # host -> times slower by design than the reference host, heat included
    batch_sizes: Mapping[str, int]  # host -> samples per iteration
    batches_change: bool = False  # with the hosts' speed: then these are the first
    hardware: Mapping[str, str] = field(default_factory=dict)
    """Host -> class; hosts of one class are comparable, those of UNKNOWN with nobody."""
    normal_s: Mapping[str, float] = field(default_factory=dict)
    """Host -> seconds of a gradient, forward and backward, that it was paced by, for a host of factor 1."""
    paced: bool = False  # its factors slow gradients and evaluations; else a quota may slow whatever it computes
    modelled: bool = False  # in a virtual world, where nothing but what departs slows anybody
    compute_valid: bool = True  # False: cores were oversubscribed, no verdict on compute may be given
    schedules: Schedules = field(default_factory=Schedules)  # how links and bottlenecks change by design
    tcp: Tcp | None = None  # what sends over the links; None: nobody knows
    network_emulated: bool = True  # False: links are as they are, and have no asked-for quality
    own_pace: bool = False  # its ranks may have unlike numbers of iterations
    on_gpu: bool = False  # of a script: what lies between its spans may be a wait for what a device was asked to do

    def missing_in(self, trace: Trace) -> list[str]:
        """Hosts that were to train, and left nothing in ``trace``."""
        return [host.name for host in self.topology.ranks if host.name not in trace.hosts]


def reference_of(
    scenario: Scenario,
    trace: Trace,
    changes: Sequence[ChangeInForce],
    emulation: Mapping[str, Any],
    host_facts: Mapping[str, HostFacts | None],
) -> Reference:
    """What ``scenario`` designed by design while ``trace`` was recorded.

    ``emulation`` is the run's; ``host_facts``: host -> its facts, None if it left none.
    """
    ranks, trained = scenario.topology.ranks, scenario.trained
    topology, schedules = _in_force(scenario, emulation)
    return Reference(
        topology=topology,
        schedules=schedules,
        compute_factors=compute_factors(scenario, changes, _seconds(trace)) if slowed(emulation) else {},
        batch_sizes={} if trained is None else {host.name: trained.batch_sizes[host.rank or 0] for host in ranks},
        batches_change=trained is not None and trained.batching != "fixed",
        own_pace=trained is not None and own_pace(trained),
        hardware={host: hardware_of(facts) for host, facts in host_facts.items()},
        normal_s=_normal_s(scenario, emulation, host_facts),
        paced=_paced(scenario, emulation),
        modelled=str(emulation.get("backend", "")).startswith(VIRTUAL),
        compute_valid=not emulation.get("compute", {}).get("oversubscribed", False),
        tcp=scenario.tcp, network_emulated=emulation.get("backend", "none") != "none",
    )  # fmt: skip


def _in_force(scenario: Scenario, emulation: Mapping[str, Any]) -> tuple[Topology, Schedules]:
    """What ``scenario`` designs of links, as far as the back end of ``emulation`` can carry it out."""
    topology, schedules = scenario.topology, scenario.schedules
    if emulation.get("backend") != RATES_ALONE:
        return topology, schedules
    links = {pair: Link(rate_bps=of.rate_bps, queue_bytes=of.queue_bytes) for pair, of in topology.links.items()}
    rates = {pair: LinkSchedule(rate_bps=of.rate_bps) for pair, of in schedules.links.items()}
    return replace(topology, links=links), replace(schedules, links=rates)


def slowed(emulation: Mapping[str, Any]) -> bool:
    """Whether hosts were made as slow as designed, as far as the run's ``emulation`` says otherwise.

    A program of the user's own is slowed by a quota alone: where nobody could have one, none was.
    """
    compute = emulation.get("compute", {})
    of_nobody = compute.get("method") == "quota" and not compute.get("cores", True)
    return bool(compute.get("method") != "none" and not of_nobody)


def _paced(scenario: Scenario, emulation: Mapping[str, Any]) -> bool:
    method = emulation.get("compute", {}).get("method", MODEL)
    return bool(method in PACED and (method != MODEL or scenario.compute.method != "quota"))


def hardware_of(facts: HostFacts | None) -> str:
    """Class of the host that left ``facts``."""
    return UNKNOWN if facts is None or not facts.cpu_model else f"{facts.cpu_model} x {facts.cores or '?'}"


def _normal_s(
    scenario: Scenario, emulation: Mapping[str, Any], host_facts: Mapping[str, HostFacts | None]
) -> Mapping[str, float]:
    """Of the hosts whose gradients are paced by times that are known: those of a host of factor 1."""
    if emulation.get("compute", {}).get("method") not in PACED:
        return {}
    found = {}
    for host, facts in host_facts.items():
        if facts is not None and facts.compute.speed and sum(facts.compute.agreed_s) > 0:
            found[host] = sum(facts.compute.agreed_s) / HostSpeed.of(scenario, host, facts.compute.speed).base
    return found


def _seconds(trace: Trace) -> float:
    """From where training began, or the first span of any rank, to the last; 0 if there is none."""
    spans = [rank.spans for rank in trace.ranks if len(rank.spans)]
    if not spans:
        return 0.0
    begin_ns = min(int(trace.facts.get(BEGAN, each["start_ns"].min())) for each in spans)
    return (max(int(each["end_ns"].max()) for each in spans) - begin_ns) / 1e9


def compute_factors(scenario: Scenario, changes: Sequence[ChangeInForce], seconds: float) -> Mapping[str, Schedule]:
    """Host that trains -> times slower by design in ``seconds`` of training, heat as ``changes`` tell it included."""
    schedules, constants = scenario.schedules, scenario.compute
    found = {}
    for host in scenario.topology.ranks:
        schedule = schedules.compute.get(host.name, Schedule.constant(constants.factor(host.name)))
        device = schedules.thermal.get(host.name)
        found[host.name] = (
            schedule if device is None else _heated(schedule, device, _switches(changes, host.name), seconds)
        )
    return found


def _switches(changes: Sequence[ChangeInForce], host: str) -> list[tuple[float, bool]]:
    """(when, whether it is throttled from then on), in order."""
    own = (each for each in changes if each.host == host and each.what in (Change.THROTTLE, Change.RECOVER))
    return sorted((each.in_force_s, each.what is Change.THROTTLE) for each in own)


def _heated(schedule: Schedule, device: Thermal, switches: Sequence[tuple[float, bool]], seconds: float) -> Schedule:
    """``schedule`` until ``seconds``, times the device's factor while it was throttled."""

    def factor(time_s: float) -> float:
        hot = [throttled for at_s, throttled in switches if at_s <= time_s][-1:] == [True]
        return schedule.at(time_s) * (device.factor if hot else 1.0)

    moments = {0.0, *(at_s for at_s, _ in schedule.steps(seconds)), *(at_s for at_s, _ in switches if at_s > 0)}
    return Schedule(points=tuple((time_s, factor(time_s)) for time_s in sorted(moments)))
