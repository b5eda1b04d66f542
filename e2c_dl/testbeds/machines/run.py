"""A run on machines that are there: taken, shaped, and left as they were.

::

    registered with how to reach them -> begun: run_dir, claim -> E2Clab deploys -> shaped -> ... -> ended
    from here on `destroy` knows all      on the machines                                     over SSH, the same way
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from e2c_dl.archive.records import HostEnding
from e2c_dl.emulation import compute
from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import TestbedError
from e2c_dl.scenario.model import FaultKind, Scenario
from e2c_dl.testbeds import described, host_keys, registry, shaping
from e2c_dl.testbeds.base import Access, Told
from e2c_dl.testbeds.claimed import ClaimedRun
from e2c_dl.testbeds.machines import cleanup
from e2c_dl.testbeds.machines.facts import Facts, ask, way_to


class Asked(Protocol):
    """What a run needs of its testbed: what is known of the machines of a scenario."""

    def limitations(self, scenario: Scenario) -> tuple[str, ...]: ...

    def facts(self, scenario: Scenario) -> dict[str, Facts]: ...

    def backend(self, scenario: Scenario) -> Backend: ...


class NotYet:
    """What a run knows of machines that it has to get first; ``missed``: what none of them will honour."""

    def __init__(self, missed: Callable[[Scenario], tuple[str, ...]]) -> None:
        self._missed = missed

    def limitations(self, scenario: Scenario) -> tuple[str, ...]:
        return self._missed(scenario)

    def facts(self, scenario: Scenario) -> dict[str, Facts]:
        return {}

    def backend(self, scenario: Scenario) -> Backend:
        return Backend.NONE


class MachinesRun(ClaimedRun):
    """One run's hosts and emulation: conforms to base.TestbedRun."""

    def __init__(self, kind: Asked, scenario: Scenario, run: registry.RegisteredRun) -> None:
        super().__init__(scenario, run)
        self._kind = kind

    def provision(self) -> tuple[Access, ...]:
        """The machines of the inventory, begun on: there is nothing to reserve. Raises: TestbedError."""
        accesses = tuple(_access(name, facts, self.run_id) for name, facts in self._facts.items())
        # Registered before anything is done to the machines: whatever happens, `destroy` knows where to look.
        self._run = registry.changed(self._run, hosts=accesses, details={cleanup.SHAPED: self._shaped})
        begun = {
            access.name: [self.run_id, cleanup.directory(access), access.data_device if self._shaped else ""]
            for access in accesses
        }
        answers = ask(accesses, "begin", begun)
        for access in accesses:
            answers[access.name].checked(access, TestbedError)
        self.accesses = accesses
        return accesses

    @property
    def limitations(self) -> tuple[str, ...]:
        found = self._kind.limitations(self._scenario)
        differing = [
            (name, line) for name, facts in self._facts.items() for line in _tcp_limitations(facts, self._scenario)
        ]
        return (*found, *described.grouped(differing))

    def facts(self) -> dict[str, Any]:
        return described.facts(self._scenario, self._backend, self._computing())

    def host_facts(self) -> tuple[dict[str, Any], ...]:
        kept = ("kernel", "cores", "memory_bytes", "cpu_model", "gpus")
        return tuple(row | {key: self._facts[row["name"]].told[key] for key in kept} for row in super().host_facts())

    def emulate(self) -> None:
        if self._shaped:
            shaping.apply(self.accesses, self._scenario.emulated_topology(), netem=self._backend is Backend.TC)

    def emulation_failure(self) -> str | None:
        """None: the kernels keep what they were told."""
        return None

    def endings(self) -> Mapping[str, HostEnding]:
        """Nothing: whether a machine is gone shows in its silence."""
        return {}

    def log_files(self) -> dict[str, Path]:
        return {}

    def end_emulation(self) -> tuple[str, ...]:
        """Nothing to say; ``release`` puts the devices back."""
        return ()

    def release(self, keep: Collection[str] = ()) -> tuple[str, ...]:
        return cleanup.destroy(self.run_id, keep=keep)

    def secrets(self) -> tuple[bytes, ...]:
        paths = {Path(access.keyfile) for access in self.accesses}  # the user's own: whoever has one has the machines
        return tuple(path.read_bytes() for path in sorted(paths) if path.is_file())

    @property
    def _facts(self) -> dict[str, Facts]:
        return self._kind.facts(self._scenario)

    @property
    def _backend(self) -> Backend:
        return self._kind.backend(self._scenario)

    @property
    def _shaped(self) -> bool:
        return self._backend is not Backend.NONE

    def _computing(self) -> compute.ComputePlan:
        return compute_plan(self._scenario)

    def _told(self, access: Access) -> Told:
        speed = self._computing().speed.get(access.name)
        return Told(speed=speed, strict=self._strict, only_probe=self._only_probe, backend=self._backend)

    def _for_ansible(self, access: Access) -> Mapping[str, Any]:
        return for_ansible(access)


def compute_plan(scenario: Scenario, *, shared_cores: float | None = None) -> compute.ComputePlan:
    """By sleep, since a machine's cgroups are not ours; nobody is paced if the scenario slows nobody down.

    ``shared_cores``: of the one machine that all of these are on; None: each is a machine of its own.
    """
    # As many cores as hosts, and the relay's that is not here: each has its own machine, none is oversubscribed.
    cores = len(scenario.topology.hosts) + compute.RELAY_CORES if shared_cores is None else shared_cores
    planned = compute.of_scenario(cores, scenario, quota=False)
    if shared_cores is not None or scenario.trained is None:  # who trains by a program of his own is not paced
        return planned
    schedules = scenario.schedules
    slowed = compute.slows(scenario) or any(f.kind is FaultKind.SLOW_HOST for f in scenario.injected.faults)
    if slowed or schedules.compute or schedules.thermal:
        return replace(planned, why="calibrated sleep, on a whole core of each machine")
    return replace(planned, speed={}, why="nothing is requested: every machine computes as fast as it is")


def _access(name: str, facts: Facts, run_id: str) -> Access:
    return replace(
        way_to(name, facts.machine),
        own_address=facts.told["ssh_address"],  # ``address`` may be a name, or another one on the way
        data_address=facts.data_address or "",
        data_device=facts.data_device or "",
        run_dir=f"{cleanup.PLACE}{run_id}-{name}/work",
    )


def for_ansible(access: Access) -> Mapping[str, Any]:
    """Ansible's variables: it trusts whom we trust; what it leaves on a host lies in the run's directory."""
    ours = f"{cleanup.directory(access)}/ansible"
    places = {"ansible_remote_tmp": ours, "ansible_async_dir": f"{ours}/async"}  # else in the user's home, for good
    return host_keys.ansible_variables(access.host_keys, access.jump, access.keyfile) | places


def _tcp_limitations(facts: Facts, scenario: Scenario) -> list[str]:
    asked = {
        "net.ipv4.tcp_congestion_control": (scenario.tcp.congestion_control, facts.told["congestion_control"]),
        "net.ipv4.tcp_slow_start_after_idle": (scenario.tcp.slow_start_after_idle, facts.told["slow_start_after_idle"]),
    }
    return [
        f"{key} was requested to be {_spelled(wanted)}, and is {_spelled(has)}: settings of static hosts are left alone"
        for key, (wanted, has) in asked.items()
        if wanted != has
    ]


def _spelled(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
