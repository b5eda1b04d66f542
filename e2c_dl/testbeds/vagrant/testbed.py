"""``--on vagrant``: what can be said before any machine is up, and the claim of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from e2c_dl import units
from e2c_dl.errors import InputError
from e2c_dl.formatting import count, size
from e2c_dl.memory import memory_available_bytes
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Foreseen, Probe, Testbed
from e2c_dl.testbeds.machines.run import compute_plan
from e2c_dl.testbeds.machines.testbed import deploying, quota_missed
from e2c_dl.testbeds.this_machine import addresses, preflight
from e2c_dl.testbeds.this_machine import probes as machine
from e2c_dl.testbeds.vagrant import machines
from e2c_dl.testbeds.vagrant.planned import BOX, MEMORY_BYTES, Plan, prefix
from e2c_dl.testbeds.vagrant.run import VagrantRun

LEAST_MEMORY_BYTES = 512 * 2**20
_BOX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}(/[A-Za-z0-9][A-Za-z0-9_.-]{0,99})?")  # it stands in a Ruby program
_KVM = Path("/dev/kvm")
_PYTHON_VAGRANT = "python-vagrant"
_SETUP = "`make setup-vagrant`, or apt-get install vagrant vagrant-libvirt"
_VIRTUALISATION = "turn virtualisation on in the firmware, or in what runs this machine"
_LIBVIRT = "apt-get install libvirt-daemon-system libvirt-clients qemu-system-x86 dnsmasq-base, and start libvirtd"


class VagrantTestbed(Testbed):
    """Virtual machines of ``box``, each with ``memory_bytes`` and one core."""

    name = "vagrant"

    def __init__(self, box: str, memory_bytes: int) -> None:
        self._box, self._memory_bytes = box, memory_bytes

    @classmethod
    def of(cls, options: Mapping[str, str]) -> VagrantTestbed:
        """The testbed. ``box``: such as generic/debian12; ``memory``: such as 2GiB. Raises: InputError."""
        box, memory = options.get("box", BOX), options.get("memory")
        if not _BOX.fullmatch(box):
            raise InputError(f"--box {box!r}: no name of a box; write one that `vagrant box add` takes, such as {BOX}")
        return cls(box, MEMORY_BYTES if memory is None else preflight.memory_option(memory, LEAST_MEMORY_BYTES))

    def probes(self) -> tuple[Probe, ...]:
        return tuple(_probes())

    def blocking(self, probes: tuple[Probe, ...]) -> tuple[str, ...]:
        return tuple(probe.name for probe in probes if not probe.ok)

    def preflight(self, scenario: Scenario) -> tuple[str, ...]:
        planned = self._plan_of(scenario, "RUN", 1)
        needed, available = len(planned.names) * planned.memory_bytes, memory_available_bytes()
        found = preflight.names(planned.names)
        if needed > available:
            each, has = units.format_size(planned.memory_bytes), size(available)
            found.append(
                f"{len(planned.names)} machines of {each} need {units.format_size(needed)}, {has} are available; "
                "ask for fewer hosts, or less with --memory"
            )
        lacking = (f"{probe.name}: {probe.detail}; {probe.remedy}" for probe in _probes() if not probe.ok)
        return (*found, *lacking)

    def limitations(self, scenario: Scenario) -> tuple[str, ...]:
        return quota_missed(scenario)

    def plan(self, scenario: Scenario) -> dict[str, tuple[str, ...]]:
        planned = self._plan_of(scenario, "RUN", 1)
        reached = planned.addresses
        return {
            "virtual machines": (
                planned.cost(),
                *(f"{prefix('RUN')}-{name}: training on {reached[name]}" for name in planned.names),
            ),
            "commands on this machine": ("vagrant up", "vagrant provision", "vagrant destroy --force"),
            "hosts": tuple(f"{host.name:<12} {host.role}" for host in scenario.topology.hosts),
            "processors": (compute_plan(scenario, shared_cores=_cores()).why,),
        }

    def claim(self, scenario: Scenario) -> VagrantRun:
        run_id = registry.new_run_id()
        run = registry.begin(run_id, scenario=scenario.name, testbed=self.name, choose_slot=addresses.free_slot)
        return VagrantRun(scenario, run, self._plan_of(scenario, run_id, run.slot), _cores())

    def _plan_of(self, scenario: Scenario, run_id: str, slot: int) -> Plan:
        return Plan(
            run_id=run_id, slot=slot, names=scenario.topology.names, box=self._box, memory_bytes=self._memory_bytes
        )


def foreseen(scenario: Scenario) -> Foreseen:
    """What running ``scenario`` would take of this machine, unless options say otherwise."""
    planned = Plan(run_id="RUN", slot=1, names=scenario.topology.names)
    has = f"this machine has {count(_cores(), 'core')}, and {size(memory_available_bytes())} of memory available"
    return Foreseen(lines=(planned.cost(), has, f"processors: {compute_plan(scenario, shared_cores=_cores()).why}"))


def _probes() -> Iterator[Probe]:
    yield from deploying()
    yield machine.package_probe(_PYTHON_VAGRANT, remedy="pip install 'e2c_dl[vagrant]'")
    yield _probe("vagrant", machines.vagrant_problem(), f"with {machines.PLUGIN}", _SETUP)
    yield _probe("KVM", None if _KVM.exists() else f"{_KVM} is not there", str(_KVM), _VIRTUALISATION)
    yield _probe("libvirt", machines.libvirt_problem(), "answers", _LIBVIRT)


def _probe(name: str, problem: str | None, found: str, remedy: str) -> Probe:
    return Probe(name=name, ok=problem is None, detail=problem or found, remedy=remedy if problem else "")


def _cores() -> int:
    return len(os.sched_getaffinity(0))
