"""``--on static --inventory FILE``: what can be said of its hosts before a run, and the claim of a run on them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from e2c_dl.emulation import compute, tc
from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import described, registry, shaping
from e2c_dl.testbeds.base import Probe, Testbed
from e2c_dl.testbeds.host_keys import UNCHECKED
from e2c_dl.testbeds.machines import facts, inventory
from e2c_dl.testbeds.machines.facts import Facts
from e2c_dl.testbeds.machines.run import MachinesRun, compute_plan
from e2c_dl.testbeds.this_machine import probes as machine
from e2c_dl.testbeds.this_machine.probes import DEPLOYING

_QUOTA = "compute: a CPU quota was requested, but the cgroups of other machines are not ours: emulated by sleep"
_PROGRAM = (
    "compute: no host is slowed: a program of one's own is not paced, and the cgroups of other machines are not ours"
)


class MachinesTestbed(Testbed):
    """The machines of one inventory. Asks each of them at most once."""

    name = "static"

    def __init__(self, listed: inventory.Inventory) -> None:
        self._listed = listed
        self._asked: dict[str, Facts] = {}  # machine's place in the inventory -> what it is

    @classmethod
    def of(cls, options: Mapping[str, str]) -> MachinesTestbed:
        """The testbed of ``options["inventory"]``. Raises: InputError: that file is wrong."""
        return cls(inventory.load(Path(os.path.abspath(options["inventory"]))))  # E2Clab changes directories

    def probes(self) -> tuple[Probe, ...]:
        """This machine's part, then every machine of the inventory."""
        return tuple(self._probes())

    def blocking(self, probes: tuple[Probe, ...]) -> tuple[str, ...]:
        """All that is missing, but for netem and what says that links are not emulated."""
        return tuple(probe.name for probe in probes if not probe.ok and not probe.name.endswith((": links", ": GPUs")))

    def preflight(self, scenario: Scenario) -> tuple[str, ...]:
        unmatched = inventory.problems(scenario.topology, self._listed)
        if unmatched:
            return unmatched
        wanted = shaping.at_most(scenario)
        shaped = bool(wanted.links or wanted.bottlenecks)
        return tuple(line for found in self.facts(scenario).values() for line in found.problems(shaped=shaped))

    def limitations(self, scenario: Scenario) -> tuple[str, ...]:
        return (*self._links_missed(scenario), *quota_missed(scenario))

    def plan(self, scenario: Scenario) -> dict[str, tuple[str, ...]]:
        devices, addresses = {}, {}
        for name, found in self.facts(scenario).items():
            devices[name], addresses[name] = found.data_device or "", found.data_address or ""
        said = {
            "machines": tuple(
                f"{name:<12} {found.machine.user}@{found.machine.address} port {found.machine.port}, training on "
                f"{addresses[name]} ({devices[name]}), {found.python}"
                for name, found in self.facts(scenario).items()
            )
        }
        return said | described.plan(scenario, self.backend(scenario), compute_plan(scenario), devices, addresses)

    def claim(self, scenario: Scenario) -> MachinesRun:
        # no slot: these machines have addresses of their own
        run = registry.begin(registry.new_run_id(), scenario=scenario.name, testbed=self.name)
        return MachinesRun(self, scenario, run)

    def facts(self, scenario: Scenario) -> dict[str, Facts]:
        """host -> what its machine is. Asks those that were not asked yet."""
        machines = inventory.matched(scenario.topology, self._listed)
        # preflight, limitations, plan and run all want to know: each machine is asked once
        new = {each.where: each for each in machines.values() if each.where not in self._asked}
        self._asked |= facts.asked(new)
        return {name: self._asked[each.where] for name, each in machines.items()}

    def backend(self, scenario: Scenario) -> Backend:
        """What all machines of ``scenario`` can do: the least of any."""
        return Backend.least(found.backend for found in self.facts(scenario).values())

    def _links_missed(self, scenario: Scenario) -> tuple[str, ...]:
        wanted, backend = shaping.at_most(scenario), self.backend(scenario)
        if not (wanted.links or wanted.bottlenecks):
            return ()
        if backend is Backend.TC:
            return tc.unsupported(wanted, netem=True)
        why = described.grouped(
            (name, found.why_not_more())
            for name, found in self.facts(scenario).items()
            if found.backend is backend  # the least of all: no other has less
        )
        if backend is Backend.NONE:
            return (f"no link is emulated, the network is as it is: {'; '.join(why)}",)
        return tuple(f"{sentence} ({'; '.join(why)})" for sentence in tc.unsupported(wanted, netem=False))

    def _probes(self) -> Iterator[Probe]:
        yield from deploying()
        self._asked |= facts.asked({each.where: each for each in self._listed.machines})
        for listed in self._listed.machines:
            yield from _of_machine(self._asked[listed.where])


def quota_missed(scenario: Scenario) -> tuple[str, ...]:
    """That its processors are emulated in another way than asked for, where that is so, as on any other machine."""
    if scenario.trained is None:
        return (_PROGRAM,) if compute.slows(scenario) else ()
    return (_QUOTA,) if scenario.compute.method == "quota" else ()


def deploying() -> Iterator[Probe]:
    """What this machine needs so that it can deploy on others."""
    yield machine.program_probe("ssh")
    for package in DEPLOYING:
        if package != "torch":  # that is for the hosts
            yield machine.package_probe(package, remedy="pip install 'e2c_dl[deploy]'")


def _of_machine(found: Facts) -> Iterator[Probe]:
    listed = found.machine
    name = listed.name or listed.address
    problems = found.problems(shaped=True)
    if found.unreachable is None:
        told = found.told
        key = "host key not checked" if listed.host_keys == UNCHECKED else "host key known"
        detail = f"{told['hostname']}, {key}, {told['kernel']}, {told['cores']} cores, Python {told['python']}"
        yield Probe(name=name, ok=not problems, detail=detail, remedy="; ".join(problems))
        links = {Backend.TC: "tc with netem", Backend.HTB: "rates alone, by HTB", Backend.NONE: "not emulated"}
        said = f"{found.data_address} on {found.data_device}, {links[found.backend]}"
        yield Probe(name=f"{name}: links", ok=found.backend is Backend.TC, detail=said, remedy=found.why_not_more())
        yield Probe(name=f"{name}: GPUs", ok=bool(told["gpus"]), detail=", ".join(told["gpus"]) or "none")
    else:
        yield Probe(name=name, ok=False, detail="unreachable", remedy="; ".join(problems))
