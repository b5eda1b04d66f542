"""What a testbed offers to a campaign: hosts one can reach, brought up, emulated and released under one run's id.

::

    Testbed ── blocking / preflight ── claim ──> TestbedRun: adopt ── provider ── emulate ── ... ── release
    "local"    what stands in the way            one run's hosts      E2Clab calls it     nothing is left

``testbeds.catalogue`` knows them by name; a campaign knows none of them by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import host_keys as keys

if TYPE_CHECKING:
    from e2c_dl.testbeds.this_machine.probes import Probe


VENV = "/opt/e2c_dl"
"""Where this program is installed on hosts that do not bring it."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """How to reach one host, and how training reaches it from the others."""

    name: str  # the scenario's name of it: edge-1
    address: str  # management: SSH and Ansible; never shaped
    data_address: str  # training talks here; shaped
    data_device: str  # eth1
    user: str
    keyfile: str  # private key, mode 0600
    port: int
    python: str  # interpreter on the host that has e2c_dl
    run_dir: str  # on the host: where its worker writes; starts empty
    netns_pid: int | None = None  # where hosts share this machine: pid 1 of the host's namespaces, seen from here
    own_address: str | None = None  # what the host itself knows as its management address; None: ``address``
    through_pid: int | None = None  # a process whose user and network namespaces one must enter to reach it; None: none
    ansible_python: str | None = None  # what Ansible runs on there; None: ``python``
    host_keys: str = keys.UNCHECKED  # which of its keys ssh accepts: see ``host_keys``


class Backend(Enum):
    """What carries out the emulation of links."""

    RELAY = "relay"  # a userspace relay on TAP devices, for hosts that share one machine
    TC = "tc"  # the hosts' own kernels: HTB + netem
    HTB = "htb"  # the same, of kernels without netem: rates alone
    NONE = "none"  # nothing is shaped


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the worker of one host is told of the emulation, beside its addresses: published as ``_self``."""

    speed: float | None = None  # times a whole core that it may compute at; None: not paced
    strict: bool = False
    backend: Backend = Backend.NONE
    relay_socket: str | None = None  # where the relay takes changes, a path on the host

    def published(self) -> dict[str, Any]:
        """The entries of ``_self``, and so of members.json."""
        return {
            "speed": self.speed,
            "strict": self.strict,
            "backend": self.backend.value,
            "relay_socket": self.relay_socket,
        }


class TestbedRun(Protocol):
    """One run's hosts and emulation. Driven by one thread; ``emulation_failure`` may be asked from another."""

    accesses: tuple[Access, ...]  # empty until the hosts are up

    def adopt(self, scenario: Scenario, *, archive: Path, strict: bool) -> None:
        """Run this ``scenario``: the staged one, whose injected departures may have been placed anew."""
        ...

    @property
    def run_id(self) -> str: ...

    @property
    def state_dir(self) -> Path:
        """The run's own directory in the registry of this machine."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """What every process that is started for this run has in its environment: `destroy` finds it by that."""
        ...

    @property
    def rank0(self) -> Access: ...

    @property
    def limitations(self) -> tuple[str, ...]:
        """What of the scenario cannot be honoured here, in sentences; may grow until the hosts are emulated."""
        ...

    def facts(self) -> dict[str, Any]:
        """How network and compute are emulated, for run.json: backend, compute, tcp."""
        ...

    def host_facts(self) -> tuple[dict[str, Any], ...]:
        """Who takes part, for run.json."""
        ...

    def provider(self) -> type[Any]:
        """The E2Clab provider that brings this run's hosts up."""
        ...

    def emulate(self) -> None:
        """Put the whole emulated topology in force at once, as it is before training. Raises: EmulationError."""
        ...

    def emulation_failure(self) -> str | None:
        """Why the emulation is no longer in force; None while it is."""
        ...

    def log_files(self) -> dict[str, Path]:
        """Name -> path of what this testbed logged, while the run is up."""
        ...

    def end_emulation(self) -> tuple[str, ...]:
        """End the emulation; why the network may not have been as asked, in sentences. Raises: EmulationError."""
        ...

    def release(self) -> tuple[str, ...]:
        """Remove everything of this run, from this machine and from the hosts; what that was, one line each."""
        ...

    def secrets(self) -> tuple[bytes, ...]:
        """What must not stand in an archive. Empty once the hosts are released."""
        ...


class Testbed(Protocol):
    """A kind of hosts, with what a user said about them (an inventory, an image)."""

    @property
    def name(self) -> str:
        """As it is written after ``--on``."""
        ...

    def probes(self) -> tuple[Probe, ...]:
        """Everything that matters for it, found out without leaving a trace."""
        ...

    def blocking(self, probes: tuple[Probe, ...]) -> tuple[str, ...]:
        """Names of the missing capabilities without which no run works here."""
        ...

    def preflight(self, scenario: Scenario) -> tuple[str, ...]:
        """What stands in the way of running ``scenario``, one line each, with its remedy; starts nothing."""
        ...

    def limitations(self, scenario: Scenario) -> tuple[str, ...]:
        """What ``scenario`` asks of network and processors and cannot have here, in sentences, as far as it is known.

        ``preflight`` comes before. ``--strict`` refuses to start for them; else they stand in the archive.
        """
        ...

    def plan(self, scenario: Scenario) -> Mapping[str, tuple[str, ...]]:
        """What would be done, for ``--dry-run``: heading -> lines, in order, every command on hosts among them."""
        ...

    def claim(self, scenario: Scenario) -> TestbedRun:
        """A run id of its own, registered: from now on ``e2c-dl destroy`` knows of this run."""
        ...
