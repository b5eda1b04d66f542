"""``--on docker``: hosts as containers of this machine, all else as on every testbed of one machine."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import TestbedError
from e2c_dl.scenario.model import Scenario, Tcp
from e2c_dl.testbeds import described, registry
from e2c_dl.testbeds.base import Probe
from e2c_dl.testbeds.docker import cleanup, image, interpreter, probes
from e2c_dl.testbeds.docker.containers import Plan
from e2c_dl.testbeds.docker.engine import asked, meant
from e2c_dl.testbeds.docker.hosts import DockerHosts, sysctls
from e2c_dl.testbeds.this_machine import addresses, preflight
from e2c_dl.testbeds.this_machine import probes as machine
from e2c_dl.testbeds.this_machine.hosts import HostSpec
from e2c_dl.testbeds.this_machine.testbed import ThisMachineTestbed, backend_of, compute_plan

LEAST_MEMORY_BYTES = 256 * 2**20


class DockerTestbed(ThisMachineTestbed):
    """Containers of ``image``, each with at most ``memory_bytes``."""

    name = "docker"

    def __init__(self, image_name: str, memory_bytes: int | None) -> None:
        self._image, self._memory_bytes = image_name, memory_bytes

    @classmethod
    def of(cls, options: Mapping[str, str]) -> DockerTestbed:
        """The testbed. ``image``: of one's own; ``memory``: such as 1GiB. Raises: InputError."""
        chosen, memory = options.get("image"), options.get("memory")
        return cls(
            image.default_name() if chosen is None else image.checked_name(chosen),
            None if memory is None else preflight.memory_option(memory, LEAST_MEMORY_BYTES),
        )

    def probes(self) -> tuple[Probe, ...]:
        return tuple(probes.probes(self._image))

    def blocking(self, probes_: tuple[Probe, ...]) -> tuple[str, ...]:
        return probes.blocking(probes_)

    def has_quota(self) -> bool:
        """Whether the daemon can limit CPU time; where none answers, ``problems`` says so."""
        try:
            return probes.has_quota(asked("info", "--format={{json .}}"))
        except TestbedError:
            return True

    def problems(self, hosts: Sequence[str], backend: Backend) -> tuple[str, ...]:
        found = [
            *preflight.names(hosts),
            *preflight.memory(len(hosts)),
            *machine.missing_programs(probes.CONTROLLER_PROGRAMS),
        ]
        if backend is Backend.RELAY:
            found += probes.relay_problems()
        try:
            problem = image.problem(self._image) or interpreter.problem(self._image)
        except TestbedError as error:
            problem = str(error)
        return (*found, *([] if problem is None else [problem]))

    def plan(self, scenario: Scenario) -> dict[str, tuple[str, ...]]:
        backend, names = backend_of(scenario), scenario.topology.names
        computing = compute_plan(scenario, quota=self.has_quota())
        planned = Plan(
            run_id="RUN",
            directory=Path(registry.state_base()) / "RUN",
            slot=1,  # any one: the run's own is chosen when it begins
            image=self._image,
            backend=backend,
            names=names,
            sysctls=sysctls(scenario.tcp),
            memory_bytes=self._memory_bytes,
        )
        commands = list(planned.networks_argv())
        for name in names:
            commands.append(planned.run_argv(name, computing.cores.get(name)))
            commands += [planned.connect_argv(name)] if backend is Backend.TC else []
        reached = {name: str(planned.data_address(name).ip) for name in names}
        devices = dict.fromkeys(names, addresses.DATA_DEVICE)
        said = described.plan(scenario, backend, computing, devices, reached)
        return {"commands to docker": tuple(shlex.join(["docker", *argv]) for argv in commands)} | said

    def make_hosts(
        self, run: registry.RegisteredRun, specs: Sequence[HostSpec], *, backend: Backend, tcp: Tcp,
        seen: Collection[Path] = (),
    ) -> DockerHosts:  # fmt: skip
        return DockerHosts(
            run, specs, backend=backend, tcp_settings=tcp, image=self._image, memory_bytes=self._memory_bytes
        )

    def destroy(self, run_id: str) -> tuple[str, ...]:
        return cleanup.destroy(run_id)

    def details(self) -> dict[str, Any]:
        """Which daemon it is: `destroy` asks the same one."""
        return {"daemon": meant(), "image": self._image}
