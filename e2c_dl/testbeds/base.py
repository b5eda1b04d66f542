"""Testbed and TestbedRun, the seam to a campaign: hosts brought up, emulated and released under one run's id.

::

    Testbed ── blocking, preflight ── claim ──> TestbedRun: adopt ── provision ── provider ── emulate ── ... release
    "local"    what stands in the way           one run's hosts      they exist   E2Clab's               nothing is left

All that a campaign does with one, in this order::

    kind = catalogue.testbed("local", {})                # named in ``catalogue``, as e2c-dl deploy --on local
    kind.preflight(scenario)                             # lines: what stands in the way; nothing is started
    run = kind.claim(scenario)                           # from here on `e2c-dl destroy` knows of it
    try:
        run.adopt(scenario, archive=path, strict=False)
        hosts = run.provision()                          # made, reserved or listed: the inventory
        with Session(provider=run.provider(), ...) as session:
            session.infrastructure()                     # E2Clab deploys its services on them
            run.emulate()                                # the whole topology is in force
            session.workflow("launch")                   # training
            run.end_emulation()
    finally:
        run.release()                                    # hosts, networks, processes, the registry's entry

So a new testbed offers three things: a class that conforms to Testbed, with ``of(options)``; a run that derives from
``claimed.ClaimedRun`` and adds what is left of TestbedRun; a module ``cleanup`` with ``destroy(run_id, base)``, which
needs no more than the registry. ``testbeds.catalogue`` knows them by name; a campaign knows none of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from e2c_dl.archive.records import HostEnding
from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import host_keys as keys

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
    through_pid: int | None = None  # whose network (and user) namespace one must enter to reach it; None: nobody's
    ansible_python: str | None = None  # what Ansible runs on there; None: ``python``
    host_keys: str = keys.UNCHECKED  # which of its keys ssh accepts: see ``host_keys``
    jump: str | None = None  # USER@HOST through which ssh goes there, with the same key; None: straight


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One capability of a machine; not all are always needed. ``remedy`` is empty if there is nothing to do."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """What running a scenario would take, in lines for people, and what makes that impossible, with what to do."""

    lines: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the worker of one host is told of the emulation, beside its addresses: published as ``_self``."""

    speed: float | None = None  # times a whole core that it may compute at; None: not paced
    strict: bool = False
    only_probe: bool = False  # it is not to train
    backend: Backend = Backend.NONE
    relay_socket: str | None = None  # where the relay takes changes, a path on the host
    oversubscribed: bool = False  # hosts were given more cores than their machine has

    def published(self) -> dict[str, Any]:
        """The entries of ``_self``, and so of members.json."""
        return vars(self) | {"backend": self.backend.value}  # Ansible and members.json carry JSON, which has no enums


class TestbedRun(Protocol):
    """One run's hosts and emulation. Driven by one thread; ``emulation_failure`` may be asked from another."""

    accesses: tuple[Access, ...]  # empty until ``provision``
    tell: Callable[[str], None]  # hears of what ``provision`` waits for; set by who drives the run
    waits_s: float  # how long others may keep ``provision`` waiting, beside what it takes itself

    def adopt(
        self,
        scenario: Scenario,
        *,
        archive: Path,
        strict: bool,
        only_probe: bool = False,
        artifacts: Path | None = None,
    ) -> None:
        """Run this ``scenario``: the staged one, whose injected departures may have been placed anew.

        ``artifacts``: the folder that its workflow knows by this name; hosts of this machine see it where it is.
        ``only_probe``: its workers end when they have measured what training would use.
        """

    def provision(self) -> tuple[Access, ...]:
        """The run's inventory: all hosts of the scenario, there from now on until ``release``; also ``accesses``.

        Hosts are made here (namespaces, containers), reserved, or read from a list: before it, those that do not exist
        yet cannot be looked at, after it all can, so ``limitations`` may grow. Whatever is begun is registered first:
        ``destroy`` must find it if this process is killed in the middle. Raises: TestbedError.
        """

    @property
    def run_id(self) -> str: ...

    @property
    def state_dir(self) -> Path:
        """The run's own directory in the registry of this machine."""

    @property
    def environ(self) -> Mapping[str, str]:
        """What every process that is started for this run has in its environment: `destroy` finds it by that."""

    @property
    def rank0(self) -> Access: ...

    @property
    def limitations(self) -> tuple[str, ...]:
        """What of the scenario cannot be honoured here, in sentences; may grow until the hosts are emulated."""

    def facts(self) -> dict[str, Any]:
        """How network and compute are emulated, for run.json: backend, compute, tcp."""

    def host_facts(self) -> tuple[dict[str, Any], ...]:
        """Who takes part, for run.json."""

    def provider(self) -> type[Any]:
        """The E2Clab provider that hands the provisioned hosts over."""

    def emulate(self) -> None:
        """Put the whole emulated topology in force at once, as it is before training. Raises: EmulationError."""

    def emulation_failure(self) -> str | None:
        """Why training cannot go on: the emulation is no longer in force, or hosts are soon gone; None while it can."""

    def endings(self) -> Mapping[str, HostEnding]:
        """Hosts that ended so far, before they were released, and how; those of other machines cannot be seen."""

    def log_files(self) -> dict[str, Path]:
        """Name -> path of what this testbed logged, while the run is up."""

    def end_emulation(self) -> tuple[str, ...]:
        """End the emulation; why the network may not have been as requested, in sentences. Raises: EmulationError."""

    def release(self, keep: Collection[str] = ()) -> tuple[str, ...]:
        """Remove everything of this run, from this machine and from the hosts; what that was, one line each.

        The run directories of the hosts ``keep`` stay, and the registry knows the run until they are removed, too.
        """

    def secrets(self) -> tuple[bytes, ...]:
        """What must not stand in an archive. Empty once the hosts are released."""


class Testbed(Protocol):
    """A kind of hosts, with what a user said about them (an inventory, an image)."""

    @property
    def name(self) -> str:
        """As it is written after ``--on``."""

    def probes(self) -> tuple[Probe, ...]:
        """Everything that matters for it, found out without leaving a trace."""

    def blocking(self, probes: tuple[Probe, ...]) -> tuple[str, ...]:
        """Names of the missing capabilities without which no run works here."""

    def preflight(self, scenario: Scenario) -> tuple[str, ...]:
        """What stands in the way of running ``scenario``, one line each, with its remedy; starts nothing.

        Of hosts only those are looked at that exist before a run: the rest is for ``TestbedRun.provision`` to say.
        """

    def limitations(self, scenario: Scenario) -> tuple[str, ...]:
        """What ``scenario`` asks of network and processors and cannot have here, in sentences, as far as it is known.

        ``preflight`` comes before. ``--strict`` refuses to start for them; else they stand in the archive.
        """

    def plan(self, scenario: Scenario) -> Mapping[str, tuple[str, ...]]:
        """What would be done, for ``--dry-run``: heading -> lines, in order, every command on hosts among them."""

    def claim(self, scenario: Scenario) -> TestbedRun:
        """A run id of its own, registered: from now on ``e2c-dl destroy`` knows of this run."""
