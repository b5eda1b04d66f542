"""ClaimedRun, the base of every run of every testbed: a scenario, a place in the registry, the ways to its hosts.

A testbed's own run derives from ClaimedRun and adds what base.TestbedRun asks for beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import described, registry
from e2c_dl.testbeds.base import Access, Told
from e2c_dl.testbeds.e2clab import upstream


class ClaimedRun(ABC):
    """A registered run; ``accesses`` is empty until its hosts are up."""

    def __init__(self, scenario: Scenario, run: registry.RegisteredRun) -> None:
        self._scenario, self._run = scenario, run
        self._strict = self._only_probe = False
        self._artifacts: Path | None = None
        self.accesses: tuple[Access, ...] = ()
        self.tell: Callable[[str], None] = lambda _: None
        self.waits_s = 0.0

    def adopt(
        self,
        scenario: Scenario,
        *,
        archive: Path,
        strict: bool,
        only_probe: bool = False,
        artifacts: Path | None = None,
    ) -> None:
        self._scenario, self._strict, self._only_probe, self._artifacts = scenario, strict, only_probe, artifacts
        self._run = registry.changed(self._run, archive=str(archive))  # `e2c-dl emulate` finds by it what was requested

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def state_dir(self) -> Path:
        return self._run.directory

    @property
    def environ(self) -> dict[str, str]:
        return self._run.environ

    @property
    def rank0(self) -> Access:
        name = self._scenario.topology.ranks[0].name
        return next(access for access in self.accesses if access.name == name)

    def host_facts(self) -> tuple[dict[str, Any], ...]:
        return described.host_facts(self._scenario, self.accesses)

    def provider(self) -> type[Any]:
        return upstream.make_provider(self._roles_and_networks, lambda: None)  # the campaign releases, after collecting

    @abstractmethod
    def _told(self, access: Access) -> Told:
        """What the worker of that host is told."""

    def _for_ansible(self, access: Access) -> Mapping[str, Any]:
        """Variables of that host for Ansible, beside how to reach it."""
        return {}

    def _roles_and_networks(self) -> Any:
        """Called by E2Clab, as its provider."""
        from e2c_dl.testbeds.e2clab.hosts import roles_and_networks  # it imports EnOSlib, which takes two seconds

        told = {access.name: self._told(access) for access in self.accesses}
        variables = {access.name: self._for_ansible(access) for access in self.accesses}
        return roles_and_networks(self._scenario.topology, self.accesses, told, variables)
