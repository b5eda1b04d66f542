"""A run on this machine: its hosts as namespaces, the data network between them, and how both end.

::

    claim ── adopt ── bring_up (called by E2Clab, as its provider) ── emulate ── ... ── release
    run id   plan     namespaces, sshd, Static provider               relay or tc       nothing is left

Data network: where the kernel has netem, veth devices shaped by tc; else TAP devices carried by the userspace relay.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2c_dl.emulation import compute, relay_report, tc
from e2c_dl.emulation.relay_config import RelayConfig, RelayHost
from e2c_dl.emulation.relay_process import RelayProcess
from e2c_dl.errors import EmulationError
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import registry, upstream
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.local import addresses, remains
from e2c_dl.testbeds.local import preflight as local_preflight
from e2c_dl.testbeds.local.access import enter_network
from e2c_dl.testbeds.local.testbed import Data, HostSpec, LocalTestbed
from e2c_dl.testbeds.machine import PROGRAMS, Probe, has_netem
from e2c_dl.topology import Topology

BACKENDS = {Data.TAP: "relay", Data.VETH: "tc"}


def data_network() -> Data:
    """What carries the data network on this machine."""
    return Data.VETH if has_netem() else Data.TAP


def preflight(scenario: Scenario) -> tuple[str, ...]:
    """What stands in the way of running ``scenario`` here, one line each, with its remedy."""
    return local_preflight.preflight(scenario.topology.names, data_network())


def data_addresses(topology: Topology) -> dict[str, str]:
    """host -> its address on the data network."""
    return {name: str(addresses.data_address(index).ip) for index, name in enumerate(topology.names)}


def compute_plan(scenario: Scenario) -> compute.ComputePlan:
    """How the processors of ``scenario`` are emulated on this machine."""
    factors = {name: scenario.emulated_factor(name) for name in scenario.topology.names}
    cores = len(os.sched_getaffinity(0))
    return compute.plan(cores, factors, scenario.compute.method, scenario.compute.cores)


class LocalRun:
    """One run's hosts and emulation. Driven by one thread; ``emulation_failure`` may be asked from another."""

    def __init__(self, scenario: Scenario, run: registry.Run) -> None:
        self._scenario, self._run = scenario, run
        self._data = data_network()
        self._plan = compute_plan(scenario)
        self._strict = False
        self._hosts: LocalTestbed | None = None
        self._relay: RelayProcess | None = None
        self.accesses: tuple[Access, ...] = ()

    @classmethod
    def claim(cls, scenario: Scenario) -> LocalRun:
        """A run id of its own, registered: from now on `e2c-dl destroy` knows of this run."""
        run = registry.begin(registry.new_run_id(), scenario=scenario.name, choose_slot=addresses.free_slot)
        os.environ.update(run.environ)  # ssh and whatever else Ansible starts carries the run's id
        return cls(scenario, run)

    def adopt(self, scenario: Scenario, *, archive: Path, strict: bool) -> None:
        """Run this ``scenario``: the staged one, whose injected departures may have been placed anew."""
        self._scenario, self._strict = scenario, strict
        self._plan = compute_plan(scenario)
        self._run = registry.filed(self._run, str(archive))

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def state_dir(self) -> Path:
        return self._run.directory

    @property
    def backend(self) -> str:
        return BACKENDS[self._data]

    @property
    def rank0(self) -> Access:
        name = self._scenario.topology.ranks[0].name
        return next(access for access in self.accesses if access.name == name)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What of the scenario this machine cannot honour, in sentences."""
        found = [] if self._hosts is None else list(self._hosts.caveats)
        if self._plan.oversubscribed:
            found.append(f"compute is oversubscribed, so no verdict on compute is given: {self._plan.why}")
        return tuple(found)

    def facts(self) -> dict[str, Any]:
        """How network and compute are emulated, for run.json."""
        return {
            "backend": self.backend,
            "compute": {
                "method": self._plan.method.value,
                "cores": dict(self._plan.cores),
                "speed": dict(self._plan.speed),
                "oversubscribed": self._plan.oversubscribed,
                "why": self._plan.why,
            },
            "tcp": vars(self._scenario.tcp),
        }

    def host_facts(self) -> tuple[dict[str, Any], ...]:
        """Who took part, for run.json."""
        by_name = {access.name: access for access in self.accesses}
        return tuple(
            {
                "name": host.name,
                "layer": host.layer,
                "rank": host.rank,
                "role": host.role,
                "address": by_name[host.name].address,
                "data_address": by_name[host.name].data_address,
            }
            for host in self._scenario.topology.hosts
        )

    def provider(self) -> type[Any]:
        """The E2Clab provider that brings this run's hosts up."""
        return upstream.make_provider(self._bring_up, lambda: None)

    def emulate(self) -> None:
        """Apply the whole emulated topology at once. Raises: EmulationError."""
        topology = self._scenario.emulated_topology()
        if self._data is Data.VETH:
            self._apply_tc(topology)
        else:
            self._start_relay(topology)

    def emulation_failure(self) -> str | None:
        """Why the emulation is no longer in force; None while it is."""
        status = None if self._relay is None else self._relay.poll()
        if status is None:
            return None
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"the relay {how}, so the hosts lost their network; see logs/relay.log in the archive"

    def log_files(self) -> dict[str, Path]:
        """Name -> path of what this testbed logged, while the run is up."""
        return {"relay.log": self._relay_log, "relay.json": self._relay_report}

    def end_emulation(self) -> tuple[str, ...]:
        """End the relay, so that its report is final; why the network may not have been as asked, in sentences.

        Raises: EmulationError if it left no report.
        """
        if self._relay is None:
            return ()
        return relay_report.caveats(self._relay.stop(), compute.RELAY_CORES)

    def release(self) -> tuple[str, ...]:
        """Remove everything of this run from the machine; what that was."""
        if self._hosts is not None:
            return self._hosts.down()
        return remains.destroy(self.run_id)

    def secrets(self) -> tuple[bytes, ...]:
        """What must not stand in an archive: the run's private keys. Empty once the hosts are released."""
        found = [self.state_dir / name for name in ("key", "hostkey")]
        return tuple(path.read_bytes() for path in found if path.is_file())

    def _bring_up(self) -> Any:
        from e2c_dl.testbeds.static_hosts import roles_and_networks

        specs = [HostSpec(name=name, cores=self._plan.cores.get(name)) for name in self._scenario.topology.names]
        self._hosts = LocalTestbed(self._run, specs, data=self._data, tcp=self._scenario.tcp)
        self.accesses = self._hosts.up()
        self._run = self._hosts.run
        told: dict[str, Mapping[str, Any]] = {
            access.name: {"speed": self._plan.speed.get(access.name), "strict": self._strict}
            for access in self.accesses
        }
        return roles_and_networks(self._scenario.topology, self.accesses, told)

    @property
    def _relay_log(self) -> Path:
        return self.state_dir / "relay.log"

    @property
    def _relay_report(self) -> Path:
        return self.state_dir / "relay.json"

    def _start_relay(self, topology: Topology) -> None:
        hosts = [
            RelayHost(
                name=access.name,
                netns_pid=access.netns_pid or 0,
                device=access.data_device,
                address=f"{access.data_address}/{addresses.DATA_NETWORK.prefixlen}",
                mac=addresses.mac(access.data_address),
            )
            for access in self.accesses
        ]
        seed = self._scenario.training.seed
        config = RelayConfig.of(topology, hosts, seed=seed, report_path=str(self._relay_report))
        self._relay = RelayProcess.start(config, dict(os.environ), self._relay_log)
        if self._hosts is not None:
            self._hosts.settle()

    def _apply_tc(self, topology: Topology) -> None:
        reached = {access.name: access.data_address for access in self.accesses}
        for access in self.accesses:
            for command in tc.commands(topology, access.name, access.data_device, reached):
                done = subprocess.run(enter_network(access, command), capture_output=True, text=True, check=False)
                if done.returncode:
                    said = " ".join(done.stderr.split()) or f"status {done.returncode}"
                    raise EmulationError(f"host {access.name}: `{' '.join(command)}` failed: {said}")


def blocking(probes: tuple[Probe, ...]) -> tuple[str, ...]:
    """Names of the missing capabilities without which no run on this machine works."""
    needed = {"kernel", "root", "network namespaces", "torch", "e2clab", "enoslib", "ansible-core", *PROGRAMS}
    missing = {probe.name for probe in probes if not probe.ok}
    shaping = {"tc netem", "TAP devices"}  # one of the two
    return tuple(
        probe.name
        for probe in probes
        if probe.name in missing & needed or (shaping <= missing and probe.name in shaping)
    )
