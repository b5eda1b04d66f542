"""Who takes part: ``members.json`` in the run directory, joined with the scenario's ranks.

The file is a JSON list with one object per host: ``_id`` (E2Clab's), ``host``, ``address`` (management),
``data_address`` (training), and optionally ``speed`` (this host's emulated share of a core, 0..1; null: not paced),
``strict``, ``backend`` (what emulates links: relay, tc, htb, none), ``relay_socket`` (a path on the host),
``data_device`` and, for rank 0, ``control_port``. Other keys are left to others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import InputError
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.topology import Host

SCENARIO = "scenario"
MEMBERS = "members.json"
CONTROL_PORT = 47600
BACKENDS = tuple(each.value for each in Backend)


@dataclass(frozen=True, kw_only=True)
class Member:
    """One rank: the scenario's host, and how to reach it."""

    host: Host
    address: str  # management
    data_address: str
    data_device: str | None
    speed: float | None
    strict: bool
    control_port: int
    backend: Backend = Backend.NONE
    relay_socket: str | None = None

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
    def size(self) -> int:
        return len(self.members)


def read(run_dir: Path, service_id: str) -> Assignment:
    """The assignment of the host that E2Clab calls ``service_id``.

    Raises: ScenarioError, InputError: the run directory does not hold a scenario and its members.
    """
    scenario = load(run_dir / SCENARIO)
    path = run_dir / MEMBERS
    described = _by_id(path)
    hosts = scenario.topology.ranks
    ranks = [rank for rank, host in enumerate(hosts) if host.service_id == service_id]
    if not ranks:
        known = ", ".join(host.service_id for host in hosts)
        raise InputError(f"host {service_id} does not train in scenario {scenario.name}; name one of {known}")
    members = tuple(_member(path, host, described) for host in hosts)
    return Assignment(run_dir=run_dir, scenario=scenario, members=members, rank=ranks[0])


def _by_id(path: Path) -> dict[str, dict[str, Any]]:
    try:
        rows = json.loads(path.read_text())
        return {row["_id"]: row for row in rows}
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; deploy the scenario again") from error
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: is not a JSON list of objects with '_id'; deploy the scenario again") from error


def _member(path: Path, host: Host, described: dict[str, dict[str, Any]]) -> Member:
    row = described.get(host.service_id)
    if row is None:
        raise InputError(f"{path}: {host.name} ({host.service_id}) is not in it; deploy the scenario again")
    speed, strict = row.get("speed"), row.get("strict", False)
    if isinstance(speed, bool) or not isinstance(speed, int | float | None) or not isinstance(strict, bool):
        raise InputError(
            f"{path}: {host.name} ({host.service_id}): speed {speed!r} must be a number or null, "
            f"strict {strict!r} true or false; deploy the scenario again"
        )
    backend, relay_socket = row.get("backend", "none"), row.get("relay_socket")
    if backend not in BACKENDS or not isinstance(relay_socket, str | None):
        raise InputError(
            f"{path}: {host.name} ({host.service_id}): backend {backend!r} must be one of {', '.join(BACKENDS)}, "
            f"relay_socket {relay_socket!r} a path or null; deploy the scenario again"
        )
    missing = [key for key in ("address", "data_address") if not isinstance(row.get(key), str)]
    if missing:
        raise InputError(f"{path}: {host.name} ({host.service_id}) has no {missing[0]}; deploy the scenario again")
    return Member(
        host=host, address=row["address"], data_address=row["data_address"], data_device=row.get("data_device"),
        speed=speed, strict=strict, control_port=row.get("control_port", CONTROL_PORT),
        backend=Backend(backend), relay_socket=relay_socket,
    )  # fmt: skip
