"""``--on local``: hosts as namespaces of this machine, brought up by ``testbeds.namespaces``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.namespaces import cleanup
from e2c_dl.testbeds.namespaces.hosts import Data, HostSpec, LocalTestbed
from e2c_dl.testbeds.this_machine import cpu, preflight
from e2c_dl.testbeds.this_machine import probes as machine
from e2c_dl.testbeds.this_machine.probes import PROGRAMS, Probe
from e2c_dl.testbeds.this_machine.testbed import OneMachine

_NEEDED = frozenset({"kernel", "network namespaces", *PROGRAMS, *machine.DEPLOYING})
_RIGHTS = frozenset({"root", machine.ROOTLESS})  # one of the two
_SHAPING = frozenset({"tc netem", "TAP devices"})  # one of the two


class Local(OneMachine):
    """Namespaces of this machine. There is nothing to say about them: it has no options."""

    name = "local"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Local:
        """The testbed; ``options`` is empty."""
        return cls()

    def probes(self) -> tuple[Probe, ...]:
        return machine.probes()

    def blocking(self, probes: tuple[Probe, ...]) -> tuple[str, ...]:
        missing = {probe.name for probe in probes if not probe.ok}
        in_the_way = missing & _NEEDED
        for one_of in (_RIGHTS, _SHAPING):
            in_the_way |= one_of if missing >= one_of else frozenset()
        return tuple(probe.name for probe in probes if probe.name in in_the_way)

    def problems(self, hosts: Sequence[str], data: Data) -> tuple[str, ...]:
        return preflight.preflight(hosts, data)

    def has_quota(self) -> bool:
        return cpu.can_limit()

    def make_hosts(self, run: registry.Run, specs: Sequence[HostSpec], *, data: Data, tcp: Tcp) -> LocalTestbed:
        return LocalTestbed(run, specs, data=data, tcp=tcp)

    def destroy(self, run_id: str) -> tuple[str, ...]:
        return cleanup.destroy(run_id)
