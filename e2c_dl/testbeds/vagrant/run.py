"""A run on virtual machines: brought up, then machines as any others, then destroyed whatever happens."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from e2c_dl.emulation.compute import ComputePlan
from e2c_dl.errors import TestbedError
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.host_keys import UNCHECKED
from e2c_dl.testbeds.machines.inventory import Inventory, Machine
from e2c_dl.testbeds.machines.run import MachinesRun, NotYet, compute_plan
from e2c_dl.testbeds.machines.testbed import MachinesTestbed, quota_missed
from e2c_dl.testbeds.vagrant import cleanup, machines
from e2c_dl.testbeds.vagrant.planned import Plan


class VagrantRun(MachinesRun):
    """One run's machines, hosts and emulation: conforms to base.TestbedRun."""

    def __init__(self, scenario: Scenario, run: registry.RegisteredRun, plan: Plan, cores: int) -> None:
        super().__init__(NotYet(quota_missed), scenario, run)
        self._plan, self._cores = plan, cores

    def provision(self) -> tuple[Access, ...]:
        """Bring the machines up; they are looked at then. Raises: TestbedError."""
        self.tell(self._plan.cost())
        folder = self.state_dir / cleanup.FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        found = machines.bring_up(self._plan, folder, self.environ, self.tell)
        reached = self._plan.addresses
        listed = tuple(
            Machine(
                where=f"{name} ({its['address']})", name=name, address=its["address"], user=its["user"],
                key=its["key"], port=its["port"], data_address=reached[name],
                host_keys=UNCHECKED,  # they are made for this run
            )
            for name, its in found.items()
        )  # fmt: skip
        kind = MachinesTestbed(Inventory(path=folder / machines.VAGRANTFILE, machines=listed))
        for line in kind.preflight(self._scenario):
            raise TestbedError(line)
        self._kind = kind
        return super().provision()

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"box": self._plan.box, "memory_bytes": self._plan.memory_bytes}

    def release(self, keep: Collection[str] = ()) -> tuple[str, ...]:
        """Also where something was not collected: machines take memory of this one."""
        return cleanup.destroy(self.run_id, keep=keep)

    def _computing(self) -> ComputePlan:
        return compute_plan(self._scenario, shared_cores=self._cores)
