"""``--on local``: hosts as namespaces of this machine, brought up by ``testbeds.namespaces``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.model import Scenario, Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Probe
from e2c_dl.testbeds.namespaces import cleanup
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.this_machine import cpu, preflight, private_root
from e2c_dl.testbeds.this_machine import probes as machine
from e2c_dl.testbeds.this_machine.hosts import HostSpec
from e2c_dl.testbeds.this_machine.probes import PROGRAMS
from e2c_dl.testbeds.this_machine.testbed import ThisMachineTestbed

SHARED = (
    "hosts have no files of their own, as overlayfs cannot be had here ({problem}): a workflow that writes to /etc, "
    "/root, /opt or /tmp changes this machine's, and those of all hosts"
)
_NEEDED = frozenset({"kernel", "network namespaces", *PROGRAMS, *machine.DEPLOYING})
_RIGHTS = frozenset({"root", machine.ROOTLESS})  # one of the two
_SHAPING = frozenset({"tc netem", "TAP devices"})  # one of the two


class NamespacesTestbed(ThisMachineTestbed):
    """Namespaces of this machine. There is nothing to say about them: it has no options."""

    name = "local"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> NamespacesTestbed:
        """The testbed; ``options`` is empty."""
        return cls()

    def probes(self) -> tuple[Probe, ...]:
        return machine.probes()

    def blocking(self, probes: tuple[Probe, ...]) -> tuple[str, ...]:
        missing = {probe.name for probe in probes if not probe.ok}
        in_the_way = missing & _NEEDED
        for one_of in (_RIGHTS, _SHAPING):
            in_the_way |= one_of if missing >= one_of else frozenset()  # named only where none of them will do
        return tuple(probe.name for probe in probes if probe.name in in_the_way)

    def problems(self, hosts: Sequence[str], backend: Backend) -> tuple[str, ...]:
        return preflight.preflight(hosts, backend)

    def limitations(self, scenario: Scenario) -> tuple[str, ...]:
        problem = private_root.problem()
        return (*super().limitations(scenario), *([] if problem is None else [SHARED.format(problem=problem)]))

    def has_quota(self) -> bool:
        return cpu.can_limit()

    def make_hosts(
        self, run: registry.RegisteredRun, specs: Sequence[HostSpec], *, backend: Backend, tcp: Tcp,
        seen: Collection[Path] = (),
    ) -> NamespaceHosts:  # fmt: skip
        return NamespaceHosts(run, specs, backend=backend, tcp=tcp, seen=seen)

    def destroy(self, run_id: str) -> tuple[str, ...]:
        return cleanup.destroy(run_id)
