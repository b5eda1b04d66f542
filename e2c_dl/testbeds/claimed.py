"""What every run of every testbed is: a scenario, a place in the registry, and the ways to its hosts.

A testbed's own run derives from ClaimedRun and adds what base.TestbedRun asks for beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import described, registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.e2clab import upstream


class ClaimedRun(ABC):
    """A registered run; ``accesses`` is empty until its hosts are up."""

    def __init__(self, scenario: Scenario, run: registry.Run) -> None:
        self._scenario, self._run = scenario, run
        self._strict = False
        self.accesses: tuple[Access, ...] = ()

    def adopt(self, scenario: Scenario, *, archive: Path, strict: bool) -> None:
        """Run this ``scenario``: the staged one, whose injected departures may have been placed anew."""
        self._scenario, self._strict = scenario, strict
        self._run = registry.filed(self._run, str(archive))

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
        return described.rank0(self._scenario, self.accesses)

    def provider(self) -> type[Any]:
        """The E2Clab provider that brings this run's hosts up."""
        return upstream.make_provider(self._bring_up, lambda: None)

    @abstractmethod
    def _bring_up(self) -> Any:
        """(Roles, Networks) of the hosts, which are up then; called by E2Clab, as its provider."""
