"""Descriptions of a run in words that all testbeds share: for run.json, and for ``--dry-run``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from e2c_dl import units
from e2c_dl.emulation import tc
from e2c_dl.emulation.backend import Backend
from e2c_dl.emulation.compute import ComputePlan
from e2c_dl.scenario.model import Fault, Scenario
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.testbeds.base import Access
from e2c_dl.topology import Pair

_POINTS = 6  # of a schedule, that are shown


def facts(scenario: Scenario, backend: Backend, plan: ComputePlan) -> dict[str, Any]:
    """How network and compute are emulated, for run.json."""
    return {
        "backend": backend.value,
        "compute": {
            "method": plan.method.value,
            "cores": dict(plan.cores),
            "speed": dict(plan.speed),
            "oversubscribed": plan.oversubscribed,
            "why": plan.why,
        },
        "tcp": vars(scenario.tcp),
    }


def host_facts(scenario: Scenario, accesses: Sequence[Access]) -> tuple[dict[str, Any], ...]:
    """Who takes part, for run.json."""
    by_name = {access.name: access for access in accesses}
    return hosts(
        scenario,
        lambda name: {"address": by_name[name].address, "data_address": by_name[name].data_address},
    )


def hosts(scenario: Scenario, more: Callable[[str], Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Every host as the scenario has it, with ``more`` of it by its name, for run.json."""
    return tuple(
        {"name": host.name, "layer": host.layer, "rank": host.rank, "role": host.role, **more(host.name)}
        for host in scenario.topology.hosts
    )


def versions(of: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Package -> version, ``of`` several who say it; where they differ, all of theirs."""
    found: dict[str, list[str]] = {}
    for its in of:
        for package, version in its.items():
            found.setdefault(package, []).append(version)
    return {package: ", ".join(dict.fromkeys(each)) for package, each in found.items()}


def grouped(said: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """``(host, what)`` by what is said of several hosts alike: "edge-1, edge-2: its kernel has no netem"."""
    hosts: dict[str, list[str]] = {}
    for host, what in said:
        hosts.setdefault(what, []).append(host)
    return tuple(f"{', '.join(names)}: {what}" for what, names in hosts.items())


def plan(
    scenario: Scenario,
    backend: Backend,
    computing: ComputePlan,
    devices: Mapping[str, str],
    addresses: Mapping[str, str],
) -> dict[str, tuple[str, ...]]:
    """Headings and lines for ``--dry-run``: hosts, links, every tc command. ``devices``: host -> its data device."""
    said = {
        "hosts": tuple(
            f"{host.name:<12} {host.role:<24} {_share(computing, host.name)}" for host in scenario.topology.hosts
        ),
        f"links, shaped by {backend.value}": _links(scenario),
    }
    if backend.by_kernel:  # the relay is given a configuration, no commands
        said["commands on the hosts"] = tuple(
            f"{host}: {' '.join(command)}"
            for host, device in devices.items()
            for command in tc.commands(
                scenario.emulated_topology(), host, device, addresses, netem=backend is Backend.TC
            )
        )
    changing = (*_schedules(scenario), *map(_fault, scenario.injected.faults))
    return said | ({"what changes while training": changing} if changing else {})


def _share(plan: ComputePlan, host: str) -> str:
    share = {**plan.cores, **plan.speed}.get(host)
    return "as fast as it is" if share is None else f"{share:.3f} of a core, by {plan.method.value}"


def _links(scenario: Scenario) -> tuple[str, ...]:
    emulated = scenario.emulated_topology()
    links = (
        f"{src} -> {dst}: {emulated.links[src, dst].described()}"
        + (f" (injected; designed {link.described()})" if emulated.links[src, dst] != link else "")
        for (src, dst), link in sorted(scenario.topology.links.items())
    )
    shared = (
        f"bottleneck {each.name}: {units.format_rate(each.rate_bps)} for {_pairs(each.links)}"
        for each in emulated.bottlenecks
    )
    return (*links, *shared)


def _pairs(pairs: Iterable[Pair]) -> str:
    return ", ".join(f"{src} -> {dst}" for src, dst in pairs)


def _schedules(scenario: Scenario) -> tuple[str, ...]:
    schedules = scenario.schedules
    links = (
        f"{src} -> {dst}: {what.partition('_')[0]} {_schedule(schedule)}"
        for (src, dst), its in schedules.links.items()
        for what, schedule in vars(its).items()
        if schedule is not None
    )
    return (
        *links,
        *(f"bottleneck {name}: rate {_schedule(schedule)}" for name, schedule in schedules.bottlenecks.items()),
        *(f"{host}: times slower {_schedule(schedule)}" for host, schedule in schedules.compute.items()),
        *(
            f"{host}: from {heat.limit_c:g} degrees on {heat.factor:g} times slower, until {heat.hysteresis_c:g} cooler"
            for host, heat in schedules.thermal.items()
        ),
    )


def _schedule(schedule: Schedule) -> str:
    """Its first points, in SI units."""
    shown = ", ".join(f"{time_s:g} s: {value:g}" for time_s, value in schedule.points[:_POINTS])
    more = f" ... {len(schedule.points)} points" if len(schedule.points) > _POINTS else ""
    again = "" if schedule.period_s is None else f", again every {schedule.period_s:g} s"
    return f"{'ramp' if schedule.ramp else 'steps'} {{{shown}{more}}}{again}"


def _fault(fault: Fault) -> str:
    where = fault.host or _pairs(fault.links)
    when = f"at iteration {fault.at_iteration}" if fault.at_s is None else f"at {fault.at_s:g} s"
    value = "" if fault.value is None else f" by {fault.value:g}"
    return f"{fault.kind.value} {where}{value} {when}" + ("" if fault.for_s is None else f" for {fault.for_s:g} s")
