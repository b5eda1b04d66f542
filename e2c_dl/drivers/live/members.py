"""Members of a run: ``members.json`` in the run directory, joined with the scenario's ranks.

The file is a JSON list with one object per host: ``_id`` (E2Clab's), ``host``, ``address`` (management),
``data_address`` (training), and optionally ``speed`` (this host's emulated share of a core, 0..1; null: not paced),
``strict``, ``only_probe`` (measure, try a gradient, end), ``backend`` (what emulates links: relay, tc, htb, none),
``relay_socket`` (a path on the host), ``oversubscribed`` (hosts have more cores than their machine), ``data_device``
and, for rank 0, ``control_port``. Under plain E2Clab, where no testbed takes part, ``own_emulation``: then speeds are
by the scenario, and workers put their links in force themselves; ``node`` is what the host was reserved as,
``versions`` are of what deployed it. Other keys are left to others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.codec import convert, decode
from e2c_dl.drivers.live.detached import MEMBERS
from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import InputError
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds.machines.run import compute_plan
from e2c_dl.topology import Host

CONTROL_PORT = 47600
REMEDY = "deploy the scenario again"


class Member(Struct, frozen=True, kw_only=True):
    """One rank: the scenario's host, and how to reach it."""

    host: Host
    address: str  # management
    data_address: str
    data_device: str | None = None
    speed: float | None = None
    strict: bool = False
    only_probe: bool = False
    control_port: int = CONTROL_PORT
    backend: Backend = Backend.NONE
    relay_socket: str | None = None
    oversubscribed: bool = False
    own_emulation: bool = False
    node: str | None = None
    versions: dict[str, str] = {}

    @property
    def name(self) -> str:
        return self.host.name


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What one worker process is to do: its place among all ranks of a scenario."""

    run_dir: Path
    scenario: Scenario
    members: tuple[Member, ...]  # by rank
    rank: int

    @property
    def own(self) -> Member:
        return self.members[self.rank]

    @property
    def records(self) -> HostRecords:
        return HostRecords(self.run_dir)

    @property
    def size(self) -> int:
        return len(self.members)


def read(run_dir: Path, service_id: str) -> Assignment:
    """The assignment of the host that E2Clab calls ``service_id``.

    Raises: ScenarioError, InputError: the run directory does not hold a scenario and its members.
    """
    scenario = load(run_dir / layout.SCENARIO)
    path = run_dir / MEMBERS
    described = _by_id(path)
    hosts = scenario.topology.ranks
    ranks = [rank for rank, host in enumerate(hosts) if host.service_id == service_id]
    if not ranks:
        known = ", ".join(host.service_id for host in hosts)
        raise InputError(f"host {service_id} does not train in scenario {scenario.name}; name one of {known}")
    members = _paced(tuple(_member(path, host, described) for host in hosts), scenario)
    return Assignment(run_dir=run_dir, scenario=scenario, members=members, rank=ranks[0])


def _paced(members: tuple[Member, ...], scenario: Scenario) -> tuple[Member, ...]:
    """``members``, with the speeds that a testbed would have told them where there is none."""
    if not any(member.own_emulation for member in members):
        return members
    speed = compute_plan(scenario).speed
    return tuple(replace(member, speed=speed.get(member.name)) for member in members)


def _by_id(path: Path) -> dict[str, dict[str, Any]]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; {REMEDY}") from error
    rows = decode(text, list[dict[str, Any]], str(path), error=InputError, remedy=REMEDY)
    return {str(row.get("_id")): row for row in rows}


def _member(path: Path, host: Host, described: dict[str, dict[str, Any]]) -> Member:
    where = f"{path}: {host.name} ({host.service_id})"
    row = described.get(host.service_id)
    if row is None:
        raise InputError(f"{where} is not in it; {REMEDY}")
    return convert({**row, "host": host}, Member, where, error=InputError, remedy=REMEDY)
