"""A run on nodes of Grid'5000: reserved, then machines as any others, then given back whatever happened.

::

    registered with the jobs' name -> reserved -> known: devices, GPUs -> as ``machines`` -> ... -> jobs deleted
    from here on `destroy` knows all              jobs are looked at from here on
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from e2c_dl.archive.records import HostEnding
from e2c_dl.errors import E2cDlError, TestbedError
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import described, registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.grid5000 import cleanup, energy
from e2c_dl.testbeds.grid5000.account import Account
from e2c_dl.testbeds.grid5000.api import Api, gpus_of
from e2c_dl.testbeds.grid5000.asked import Asked, read_asked
from e2c_dl.testbeds.grid5000.node import Node
from e2c_dl.testbeds.grid5000.watch import JobWatch
from e2c_dl.testbeds.host_keys import UNCHECKED
from e2c_dl.testbeds.machines.inventory import Inventory, Machine, SharedDevice
from e2c_dl.testbeds.machines.run import MachinesRun, NotYet
from e2c_dl.testbeds.machines.testbed import MachinesTestbed, quota_missed

ENERGY = "energy.json"


class Grid5000Run(MachinesRun):
    """One run's jobs, hosts and emulation: conforms to base.TestbedRun."""

    def __init__(self, scenario: Scenario, run: registry.RegisteredRun, account: Account, wait_s: float) -> None:
        super().__init__(NotYet(quota_missed), scenario, run)
        self._account, self._api = account, Api(account)
        asked = read_asked(scenario.path)
        self.waits_s = wait_s + max(0.0, asked.begins_in_s(time.time()))  # of nodes reserved for later, from then on
        self._jobs: tuple[tuple[str, int], ...] = ()
        self._watch: JobWatch | None = None
        self._nodes: Mapping[str, Node] = {}
        self._had_s = 0.0  # when the hosts were there
        self._without_gpus: tuple[str, ...] = ()

    def provision(self) -> tuple[Access, ...]:
        """Reserve, wait, have them installed if asked; they are looked at then. Raises: TestbedError, InputError."""
        from e2c_dl.testbeds.e2clab.reservation import Wish, reserve  # it imports EnOSlib, which takes two seconds

        asked = read_asked(self._scenario.path)
        self.tell(asked.cost())
        name = f"{asked.job_name[:40]}-{self.run_id}"  # no other run's: EnOSlib takes a job of that name for its own
        sites = sorted(set(self._api.sites(asked.clusters).values()))
        # Before it is asked for: a job that nobody knows of would be paid for until its walltime.
        self._run = registry.changed(self._run, details={cleanup.JOBS: {"name": name, "sites": sites}})
        wish = Wish(
            scenario=self._scenario.path, job_name=name, project=asked.project, wait_s=self.waits_s, tell=self.tell,
            reserved=self._reserved,
        )  # fmt: skip
        self._nodes = reserve(wish, self._account, self._scenario.topology, self._own_folder())
        self._had_s = time.time()
        kind = MachinesTestbed(self._inventory(asked))
        for line in kind.preflight(self._scenario):
            raise TestbedError(line)
        self._kind = kind
        accesses = super().provision()
        self._without_gpus = self._gpus_missing()
        self._watch = JobWatch(self._api, self._jobs, asked.walltime)
        self._watch.start()
        return accesses

    @property
    def limitations(self) -> tuple[str, ...]:
        return (*super().limitations, *self._without_gpus)

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"jobs": [{"site": site, "id": uid} for site, uid in self._jobs]}

    def host_facts(self) -> tuple[dict[str, Any], ...]:
        return tuple(
            row | {"node": self._nodes[row["name"]].address, "slots": max(1, len(row["gpus"]))}
            for row in super().host_facts()
        )

    def endings(self) -> Mapping[str, HostEnding]:
        """Those whose job is over: Grid'5000 has taken them back."""
        ended = {} if self._watch is None else self._watch.ended
        return {
            name: HostEnding(at_s=how.at_s, process="job", reason=how.reason)
            for name, node in self._nodes.items()
            if (how := ended.get(node.site)) is not None
        }

    def emulation_failure(self) -> str | None:
        """Why training has to end: the walltime is near."""
        return None if self._watch is None else self._watch.closing

    def end_emulation(self) -> tuple[str, ...]:
        """What was measured of the nodes' power is fetched; why not, in a sentence."""
        try:
            found = energy.measured(self._api, self._nodes, self._had_s, time.time())
        except E2cDlError as error:
            return (f"energy: what Grid'5000 measured of the nodes could not be had: {error}",)
        if found is None:
            return ("energy: no wattmetre measures these nodes",)
        self._energy().write_text(json.dumps(found, indent=1), encoding="utf-8")
        return ()

    def log_files(self) -> dict[str, Path]:
        return {ENERGY: self._energy()} if self._energy().is_file() else {}

    def release(self, keep: Collection[str] = ()) -> tuple[str, ...]:
        """Also where something was not collected: nodes are too dear to be kept for it."""
        if self._watch is not None:
            self._watch.stop()
        return cleanup.destroy(self.run_id, keep=keep)

    def secrets(self) -> tuple[bytes, ...]:
        return (*super().secrets(), *([self._account.password] if self._account.password else []))

    def _gpus_missing(self) -> tuple[str, ...]:
        """GPUs that the API describes and the nodes' own system does not see, as without a driver; in sentences."""
        described_there = {
            (site, each.get("uid")): gpus_of(each)
            for site, cluster in sorted({(node.site, node.cluster) for node in self._nodes.values()})
            for each in self._api.nodes(site, cluster)
        }
        seen = {row["name"]: len(row["gpus"]) for row in super().host_facts()}
        missing = [
            (name, f"Grid'5000 describes {there} GPUs, its system sees {seen[name]}; name an environment with drivers")
            for name, node in self._nodes.items()
            if (there := described_there.get((node.site, node.uid), 0)) > seen[name]
        ]
        return described.grouped(missing)

    def _reserved(self, jobs: Sequence[tuple[str, int]]) -> None:
        self._jobs = tuple(jobs)
        self.tell(f"reserved: {', '.join(f'job {uid} of {site}' for site, uid in jobs)}")

    def _own_folder(self) -> Path:
        """Where EnOSlib and Ansible put what they need meanwhile."""
        folder = self.state_dir / "g5k"  # short: sockets lie in it, whose paths have 107 characters at most
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _energy(self) -> Path:
        return self.state_dir / ENERGY

    def _inventory(self, asked: Asked) -> Inventory:
        machines = tuple(
            Machine(
                where=f"{name} ({node.address})", name=name, address=node.address, key=self._account.key,
                host_keys=UNCHECKED,  # they are installed anew all the time
                data_address=node.data_address, data_device=node.device,
                shared_device=SharedDevice.SHAPE,  # there is one device, for SSH and training alike
                jump=self._account.jump,
            )
            for name, node in self._nodes.items()
        )  # fmt: skip
        return Inventory(path=self._scenario.path / asked.job_name, machines=machines)
