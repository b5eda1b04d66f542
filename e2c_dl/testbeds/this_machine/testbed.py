"""Hosts that share this machine, whatever makes them: what a run of namespaces and one of containers have in common.

::

    ThisMachineTestbed (a Testbed)                 a kind says: name, probes, blocking, problems, make_hosts, destroy
        | claim
    ThisMachineRun (a TestbedRun)           shared: backend, compute, facts, what workers are told, release
        |-- MadeHosts                      up ── settle ── down             a kind's own, one per run
        `-- the relay, or tc               on the network namespaces of the hosts (Access.netns_pid)

Data network: where the kernel has netem and tc can do all that the scenario asks for, the hosts' own devices shaped by
tc (``MadeHosts.up`` brings them); else TAP devices that the relay makes and carries, of the addresses and hardware
addresses that ``addresses`` computes. A new kind derives from ThisMachineTestbed, and is named in
``catalogue``.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from e2c_dl.archive.records import HostEnding
from e2c_dl.emulation import compute, tc
from e2c_dl.emulation.backend import Backend
from e2c_dl.emulation.relay import report as relay_report
from e2c_dl.emulation.relay.config import RelayConfig, RelayHost
from e2c_dl.emulation.relay.process import RelayProcess
from e2c_dl.errors import EmulationError, TestbedError
from e2c_dl.scenario.model import Scenario, Tcp
from e2c_dl.testbeds import described, own_programs, registry, shaping
from e2c_dl.testbeds.base import Access, Testbed, Told
from e2c_dl.testbeds.claimed import ClaimedRun
from e2c_dl.testbeds.this_machine import addresses
from e2c_dl.testbeds.this_machine.hosts import KEYS, HostSpec, MadeHosts
from e2c_dl.testbeds.this_machine.probes import has_netem


class ThisMachineTestbed(Testbed, ABC):
    """A kind of hosts on this machine: ``name``, ``probes``, ``blocking`` of base.Testbed and these are its own."""

    @abstractmethod
    def problems(self, hosts: Sequence[str], backend: Backend) -> tuple[str, ...]:
        """What stands in the way of bringing up hosts of these names, one line each, with its remedy."""

    @abstractmethod
    def make_hosts(
        self, run: registry.RegisteredRun, specs: Sequence[HostSpec], *, backend: Backend, tcp: Tcp,
        seen: Collection[Path] = (),
    ) -> MadeHosts:  # fmt: skip
        """The hosts of ``run``, not yet up. ``seen``: directories that are there on hosts which see this machine's."""

    @abstractmethod
    def destroy(self, run_id: str) -> tuple[str, ...]:
        """Remove what there is of a run of this kind whose ``Hosts`` are not at hand; what that was."""

    def has_quota(self) -> bool:
        """Whether a host's CPU time can be limited here."""
        return True

    def details(self) -> dict[str, Any]:
        """What the registry keeps of this kind, so that ``destroy`` can do without this object."""
        return {}

    def preflight(self, scenario: Scenario) -> tuple[str, ...]:
        return self.problems(scenario.topology.names, backend_of(scenario))

    def limitations(self, scenario: Scenario) -> tuple[str, ...]:
        """Of links nothing, as what tc cannot do on these hosts, the relay can; of processors, a CPU quota."""
        return compute.quota_missed(scenario, quota=self.has_quota())

    def plan(self, scenario: Scenario) -> dict[str, tuple[str, ...]]:
        backend = backend_of(scenario)
        reached = {name: str(addresses.data_address(i).ip) for i, name in enumerate(scenario.topology.names)}
        devices = dict.fromkeys(reached, addresses.DATA_DEVICE)
        return described.plan(scenario, backend, compute_plan(scenario, quota=self.has_quota()), devices, reached)

    def claim(self, scenario: Scenario) -> ThisMachineRun:
        run = registry.begin(
            registry.new_run_id(),
            scenario=scenario.name,
            testbed=self.name,
            details=self.details(),
            choose_slot=addresses.free_slot,  # under the registry's lock: two runs that begin at once get two
        )
        return ThisMachineRun(self, scenario, run)


def backend_of(scenario: Scenario) -> Backend:
    """What carries the data network of ``scenario`` on this machine: the relay, or tc."""
    if not has_netem() or tc.unsupported(shaping.at_most(scenario), netem=True):
        return Backend.RELAY
    return Backend.TC


def compute_plan(scenario: Scenario, *, quota: bool = True) -> compute.ComputePlan:
    """How the processors of ``scenario`` are emulated on this machine. ``quota``: whether CPU time can be limited."""
    return compute.of_scenario(len(os.sched_getaffinity(0)), scenario, quota=quota)


class ThisMachineRun(ClaimedRun):
    """One run's hosts and emulation: conforms to base.TestbedRun."""

    def __init__(self, kind: ThisMachineTestbed, scenario: Scenario, run: registry.RegisteredRun) -> None:
        super().__init__(scenario, run)
        self._kind = kind
        self._hosts: MadeHosts | None = None
        self._relay: RelayProcess | None = None
        self._relay_stopped = False  # when it was looked at last
        self._choose()

    def adopt(
        self,
        scenario: Scenario,
        *,
        archive: Path,
        strict: bool,
        only_probe: bool = False,
        artifacts: Path | None = None,
    ) -> None:
        super().adopt(scenario, archive=archive, strict=strict, only_probe=only_probe, artifacts=artifacts)
        self._choose()

    def provision(self) -> tuple[Access, ...]:
        """Make the hosts: there is nothing to reserve on one's own machine. Raises: TestbedError."""
        specs = [HostSpec(name=name, cores=self._plan.cores.get(name)) for name in self._scenario.topology.names]
        self._hosts = self._kind.make_hosts(
            self._run, specs, backend=self._backend, tcp=self._scenario.tcp, seen=self._seen()
        )
        self.accesses = self._hosts.up()
        self._run = self._hosts.run  # with its hosts, which ``up`` registered
        return self.accesses

    @property
    def limitations(self) -> tuple[str, ...]:
        found = [] if self._hosts is None else list(self._hosts.limitations)
        found += self._kind.limitations(self._scenario)
        if self._plan.oversubscribed:
            found.append(f"compute is oversubscribed, so no verdict on compute is given: {self._plan.why}")
        return tuple(found)

    def facts(self) -> dict[str, Any]:
        return described.facts(self._scenario, self._backend, self._plan)

    def emulate(self) -> None:
        if self._backend is Backend.TC:
            shaping.apply(self.accesses, self._scenario.emulated_topology(), netem=True)
        else:
            self._start_relay()

    def emulation_failure(self) -> str | None:
        if self._relay is None:  # tc needs no process
            return None
        status, was_stopped = self._relay.poll(), self._relay_stopped
        self._relay_stopped = self._relay.is_stopped()
        if status is not None:
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        elif was_stopped and self._relay_stopped:  # asked twice: somebody may have looked at it with a debugger
            how = "was stopped by a signal"
        else:
            return None
        return f"the relay {how}, so the hosts lost their network; see logs/relay.log in the archive"

    def endings(self) -> Mapping[str, HostEnding]:
        return {} if self._hosts is None else self._hosts.endings()

    def log_files(self) -> dict[str, Path]:
        return {path.name: path for path in map(self._of_relay, ("log", "json"))}

    def end_emulation(self) -> tuple[str, ...]:
        if self._relay is None:
            return ()
        # ended first, so that its report is final
        return relay_report.limitations(self._relay.stop(), compute.RELAY_CORES)

    def release(self, keep: Collection[str] = ()) -> tuple[str, ...]:
        return self._kind.destroy(self.run_id) if self._hosts is None else self._hosts.down(keep)

    def secrets(self) -> tuple[bytes, ...]:
        found = [self.state_dir / name for name in (*KEYS, own_programs.KEY)]
        return tuple(path.read_bytes() for path in found if path.is_file())

    def _seen(self) -> tuple[Path, ...]:
        """Directories of this machine that the scenario names, which its hosts see at the same paths."""
        trained = self._scenario.trained
        data = None if trained is None else trained.data_dir
        named = (self._artifacts, Path(data or "").expanduser())
        return tuple(path for path in named if path is not None and path.is_absolute() and path.is_dir())

    def _choose(self) -> None:
        """How the scenario is emulated: found by trying what the kernel can do, so once per scenario."""
        self._backend = backend_of(self._scenario)
        self._plan = compute_plan(self._scenario, quota=self._kind.has_quota())

    def _told(self, access: Access) -> Told:
        socket = str(self._of_relay("sock")) if self._backend is Backend.RELAY else None
        speed = self._plan.speed.get(access.name)
        return Told(
            speed=speed, strict=self._strict, only_probe=self._only_probe, backend=self._backend, relay_socket=socket,
            oversubscribed=self._plan.oversubscribed,
        )  # fmt: skip

    def _of_relay(self, kind: str) -> Path:
        """The relay's own file: ``log``, ``json`` for its report, ``sock`` to be told of changes."""
        return self.state_dir / f"relay.{kind}"

    def _start_relay(self) -> None:
        hosts = tuple(
            RelayHost(
                name=access.name,
                netns_pid=access.netns_pid or 0,
                device=access.data_device,
                address=f"{access.data_address}/{addresses.DATA_NETWORK.prefixlen}",
                mac=addresses.mac(access.data_address),
            )
            for access in self.accesses
        )
        topology = self._scenario.emulated_topology()
        config = RelayConfig(
            hosts=hosts,
            links=topology.links,
            bottlenecks=topology.bottlenecks,
            seed=self._scenario.seed,
            report_path=str(self._of_relay("json")),
            control_path=str(self._of_relay("sock")),
        )
        self._relay = RelayProcess.start(config, {**os.environ, **self.environ}, self._of_relay("log"))
        if self._hosts is not None:
            try:
                self._hosts.settle()  # only now are the data devices there
            except TestbedError as error:  # unless the relay, which made them, is gone again
                raise EmulationError(self.emulation_failure() or str(error)) from error
