"""Targets of `e2c-dl emulate`: the hosts of a run that is up, or the machines of an inventory.

::

    --run RUN          hosts and names from the registry, requests from the run's archive, relay or tc as it is
    --inventory FILE   machines over SSH, tc; names from the scenario if one is given, else from the file
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from e2c_dl.archive.read import open_archive
from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import ArchiveError, InputError, TestbedError
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.machines import facts, inventory
from e2c_dl.topology import Host, Topology

RELAY_SOCKET = "relay.sock"


@dataclass(frozen=True, kw_only=True)
class Target:
    """Hosts that are up, and what carries out their emulation."""

    name: str  # for people
    accesses: dict[str, Access]
    designed: Topology
    requested: Topology
    backend: Backend
    relay_socket: Path | None = None
    archive: Path | None = None


def chosen(run_id: str | None, inventory: Path | None, scenario: Path | None) -> Target:
    """The target that the options name; without any, the only run that is up. Raises: E2cDlError."""
    if run_id is not None and inventory is not None:
        raise InputError("--run and --inventory: write one of them")
    requested = None if scenario is None else load(scenario)
    return of_run(registry.up(run_id), requested) if inventory is None else of_inventory(inventory, requested)


def of_run(run: registry.RegisteredRun, scenario: Scenario | None) -> Target:
    """The hosts of ``run``; what was requested of them is in its archive, unless ``scenario`` says something else.

    Nothing is requested where there is neither. Raises: InputError for a scenario of other hosts; ArchiveError,
    ScenarioError.
    """
    archive = Path(run.archive) if run.archive and Path(run.archive).is_dir() else None
    # the staged copy: injected departures may have been placed anew
    ran = load(open_archive(archive).scenario) if scenario is None and archive is not None else scenario
    accesses = {access.name: access for access in run.hosts}  # as registered when they came up: nothing is asked anew
    bare = Topology(hosts=tuple(_host(name, "") for name in accesses))
    missing = [name for name in accesses if ran is not None and name not in ran.topology.names]
    if missing:
        raise InputError(f"run {run.id}: the scenario has no host {missing[0]}; name the one that was deployed")
    socket = run.directory / RELAY_SOCKET  # its socket shows a relay even where the archive is gone
    return Target(
        name=f"run {run.id}",
        accesses=accesses,
        designed=bare if ran is None else ran.topology,
        requested=bare if ran is None else ran.emulated_topology(),
        backend=Backend.RELAY if socket.exists() else _backend(archive),
        relay_socket=socket if socket.exists() else None,
        archive=archive if scenario is None else None,
    )


def of_inventory(path: Path, scenario: Scenario | None) -> Target:
    """The machines of the inventory at ``path``, asked over SSH what they are; without a scenario nothing is requested.

    Raises: InputError for a wrong inventory; TestbedError for a machine that cannot be used, with what to do.
    """

    read = inventory.load(path)
    if scenario is None:
        machines = {machine.name or machine.address: machine for machine in read.machines}
        topology = Topology(hosts=tuple(_host(name, machine.layer or "") for name, machine in machines.items()))
        designed = requested = topology
    else:
        for problem in inventory.problems(scenario.topology, read):
            raise InputError(problem)
        machines = inventory.matched(scenario.topology, read)
        designed, requested = scenario.topology, scenario.emulated_topology()
    found = facts.asked(machines)
    for its in found.values():
        for problem in its.problems(shaped=False):  # unshaped machines can be measured too
            raise TestbedError(problem)
        if its.told["version"] is None:
            raise TestbedError(
                f"{its.machine.where}: {its.python} has no e2c_dl; `e2c-dl deploy` installs it, or write python: PATH"
            )
    return Target(
        name=str(path),
        accesses={name: _access(name, its) for name, its in found.items()},
        designed=designed,
        requested=requested,
        backend=Backend.least(its.backend for its in found.values()),
    )


def _backend(archive: Path | None) -> Backend:
    """What the run said of itself; the archive of another version may not say."""
    if archive is None:
        return Backend.TC
    try:
        return Backend(open_archive(archive).run.emulation.get("backend", "none"))
    except ValueError as error:
        raise ArchiveError(f"{archive}: {error}; it was written by another version of this program") from error


def _host(name: str, layer: str) -> Host:
    return Host(name=name, layer=layer, service="", service_id=name, role=name, rank=None)


def _access(name: str, its: facts.Facts) -> Access:
    way = facts.way_to(name, its.machine)
    return replace(way, data_address=its.data_address or "", data_device=its.data_device or "")
