"""One run's containers and networks, as docker's command lines: values, computed before anything is started.

::

    machine 198.18.SLOT.1 ==[ network e2cdl-RUN, bridge e2c-RUN ]== eth0 198.18.SLOT.<10+i>   container e2cdl-RUN-HOST
                            [ network e2cdl-RUN-data, bridge e2d-RUN ] == eth1 198.19.SLOT.<10+i>   only for tc

Under the relay there is no second network: the relay makes eth1, 198.19.0.<10+i>, in each container's own namespace.
Every name carries the run's id, and the label ``e2cdl.run`` does, by which all of it is found again.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

from e2c_dl.emulation.backend import Backend
from e2c_dl.testbeds.docker.interpreter import bound, mount
from e2c_dl.testbeds.registry import RUN_VARIABLE
from e2c_dl.testbeds.this_machine import addresses
from e2c_dl.testbeds.this_machine.cpu import Quota

LABEL = "e2cdl.run"

_QUOTA_FILES = ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us")

START = """\
# The first process of every container of run {run}: says what is in force in it, then serves SSH.
set -eu
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
mkdir -p /run/sshd
cd {directory}
# By grep: the shell's own read takes a byte at a time, and a sysctl's second byte is never given.
grep -s "" {told} /dev/null >"hosts/$1/in_force" || :
exec "$(command -v sshd)" -D -e -f "$PWD/sshd_config"
"""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What all containers of one run have in common."""

    run_id: str
    directory: Path  # the run's, which every container sees at the same place: the relay's socket is in it
    slot: int
    image: str
    backend: Backend
    names: tuple[str, ...]  # of all hosts, in order
    sysctls: Mapping[str, str]  # path under /proc/sys -> value, set from the beginning
    memory_bytes: int | None = None  # each container may use at most that much

    @property
    def network(self) -> str:
        return f"e2cdl-{self.run_id}"

    @property
    def data_network(self) -> str:
        """The name of the data network, which there is for tc alone."""
        return f"e2cdl-{self.run_id}-data"

    def container(self, host: str) -> str:
        return f"e2cdl-{self.run_id}-{host}"

    def address(self, host: str) -> IPv4Interface:
        """The management address of ``host``, with its prefix."""
        return addresses.management_address(self.slot, self.names.index(host))

    def data_address(self, host: str) -> IPv4Interface:
        return data_address(self.backend, self.slot, self.names.index(host))

    def networks_argv(self) -> tuple[list[str], ...]:
        gateway = str(addresses.gateway(self.slot).ip)
        subnet = str(addresses.management_network(self.slot))
        made = [self._network_argv(self.network, f"e2c-{self.run_id}", subnet, f"--gateway={gateway}")]
        if self.backend is Backend.TC:
            made.append(
                # no gateway: all but training goes by the management network
                self._network_argv(self.data_network, f"e2d-{self.run_id}", str(data_subnet(self.slot)), "--internal")
            )
        return tuple(made)

    def run_argv(self, host: str, cores: float | None) -> list[str]:
        """The command line that starts the container of ``host``."""
        # a missing image is an error with a remedy, no download in the middle of a run
        argv = ["run", "--detach", "--pull=never", f"--name={self.container(host)}", f"--hostname={host}"]
        argv += [f"--label={LABEL}={self.run_id}", f"--env={RUN_VARIABLE}={self.run_id}"]
        # for tc and routes, in its own network only
        argv += [f"--network={self.network}", f"--ip={self.address(host).ip}", "--cap-add=NET_ADMIN"]
        argv += [f"--add-host={name}:{self.data_address(name).ip}" for name in self.names]
        argv += [f"--sysctl={path.replace('/', '.')}={value}" for path, value in self.sysctls.items()]
        if cores is not None:
            quota = Quota.of(cores)
            argv += [f"--cpu-period={quota.period_us}", f"--cpu-quota={quota.quota_us}"]
        if self.memory_bytes is not None:
            # the sum of both: so no swap, which would be a slow-down nobody asked for
            argv += [f"--memory={self.memory_bytes}", f"--memory-swap={self.memory_bytes}"]
        # writable: it says there what is in force, and finds the relay's socket
        argv += [mount(str(self.directory), readonly=False), *(mount(path, readonly=True) for path in bound())]
        return [*argv, "--entrypoint=/bin/sh", self.image, str(self.script), host]

    def connect_argv(self, host: str) -> list[str]:
        """The command line that gives the container of ``host`` its eth1, under tc."""
        return ["network", "connect", f"--ip={self.data_address(host).ip}", self.data_network, self.container(host)]

    @property
    def script(self) -> Path:
        """The file of what every container starts with."""
        return self.directory / "start.sh"

    def script_text(self) -> str:
        told = [*(f"/proc/sys/{path}" for path in self.sysctls), *_QUOTA_FILES]
        return START.format(run=self.run_id, directory=shlex.quote(str(self.directory)), told=" ".join(told))

    def said(self, host: str) -> Path:
        """The file in which the container of ``host`` says what is in force in it."""
        return self.directory / "hosts" / host / "in_force"

    def work(self, host: str) -> Path:
        """Its run directory, at the same place in the container: it can be read when that is gone."""
        return self.directory / "hosts" / host / "work"

    def _network_argv(self, name: str, bridge: str, subnet: str, *more: str) -> list[str]:
        # docker's own names carry no run's id
        chosen = [f"--label={LABEL}={self.run_id}", f"--opt=com.docker.network.bridge.name={bridge}"]
        return ["network", "create", "--driver=bridge", *chosen, f"--subnet={subnet}", *more, name]


def data_subnet(slot: int) -> IPv4Network:
    """198.19.SLOT.0/24: under tc, the data networks of two runs are in the machine's own namespace side by side."""
    return IPv4Network((int(addresses.DATA_NETWORK.network_address) + (slot << 8), 24))


def data_address(backend: Backend, slot: int, index: int) -> IPv4Interface:
    """Host ``index``'s data address, with its prefix."""
    own = addresses.data_address(index)
    if backend is Backend.RELAY:  # its network exists in the containers alone: runs need no networks that differ
        return own
    return IPv4Interface((int(own.ip) + (slot << 8), data_subnet(slot).prefixlen))


def in_force(text: str) -> dict[str, str]:
    """What a container said: path -> value, words apart by one blank."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {path: " ".join(value.split()) for path, _, value in pairs}


def quota_in_force(said: Mapping[str, str]) -> tuple[int, int] | None:
    """(quota, period) in microseconds, of cgroup version 2 or 1; None if the container found no limit."""
    both, quota, period = (said.get(path, "") for path in _QUOTA_FILES)
    words: Sequence[str] = both.split() if both else [quota, period]
    return (int(words[0]), int(words[1])) if all(word.isdigit() for word in words) and len(words) == 2 else None
