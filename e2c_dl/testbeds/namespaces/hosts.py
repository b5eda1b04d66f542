"""Hosts as namespaces of this machine: brought up, reached and released under one run's id.

``up`` goes through these steps; waiting is for whole sets of hosts, so that they come up side by side::

    files -> holders (core, and hosts) -> keys -> cables -> settings, CPU quotas -> "go" -> sshd answers

All of it happens in a network of the program's own (``rootless``), which a keeper keeps when the program has ended.

Under tc the hosts' data devices are there from the start. Under the relay it makes them later, from what Access says
(``addresses.mac`` gives the hardware address); then ``settle`` is called.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import TestbedError
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.namespaces.cleanup import destroy
from e2c_dl.testbeds.namespaces.holder import (
    HELD_BY_SSHD,
    Holder,
    in_core,
    in_machine,
    start_core,
    start_host,
    start_keeper,
)
from e2c_dl.testbeds.programs import enter_network
from e2c_dl.testbeds.this_machine import addresses, cpu, private_root, rootless, tcp
from e2c_dl.testbeds.this_machine.files import TEMPORARY, HostFiles, sshd_config
from e2c_dl.testbeds.this_machine.hosts import HostSpec, MadeHosts, await_sshd, make_keys, run_here
from e2c_dl.testbeds.this_machine.system_path import SYSTEM_PATH

CLOSED = "hosts cannot write to {paths}: the file system there cannot be overlaid, so it is shown read-only"


class NamespaceHosts(MadeHosts):
    """The hosts of one registered run. For one thread, and one ``up``."""

    def __init__(
        self,
        run: registry.RegisteredRun,
        hosts: Sequence[HostSpec],
        *,
        backend: Backend,
        tcp: Tcp,
        seen: Collection[Path] = (),
    ) -> None:
        """``seen``: directories of this machine that the hosts are to see although /tmp and homes are their own."""
        super().__init__(run, hosts, backend=backend, tcp_settings=tcp)
        self._root, self._seen = os.geteuid() == 0, seen
        self._holders: list[Holder] = []
        self._keeper: Holder | None = None
        self._refused_congestion_control: dict[str, str] = {}  # host -> limitation, until its route takes it

    @property
    def limitations(self) -> tuple[str, ...]:
        return (*super().limitations, *self._refused_congestion_control.values())

    def down(self, keep: Collection[str] = ()) -> tuple[str, ...]:
        removed = destroy(self.run.id, self.run.directory.parent, keep=keep)
        for holder in self._holders:
            holder.reap()
        self._holders.clear()
        return removed

    def _how_ended(self, host: str) -> Mapping[str, Any]:
        holder = next(holder for holder in self._holders if holder.name == host)
        status = holder.ended()
        if status is None:
            return {}
        if holder.killed:
            return {"signal": signal.SIGKILL.value}
        if status > HELD_BY_SSHD:  # a shell's way to say that what it waited for was killed
            return {"process": "sshd", "signal": status - HELD_BY_SSHD}
        return {"signal": -status} if status < 0 else {"status": status}

    def settle(self) -> None:
        for access in self.run.hosts:
            if access.name in self._refused_congestion_control:
                address = IPv4Interface(f"{access.data_address}/{addresses.DATA_NETWORK.prefixlen}")
                change = tcp.route_change(address, self._tcp.congestion_control)
                run_here(enter_network(access, ["ip", *change]), self._environ())
                del self._refused_congestion_control[access.name]

    def _start_all(self) -> tuple[Access, ...]:
        user = _user()
        files = self._files(Path(user.pw_dir))
        for host in files:
            host.write(user)
        core, holders = self._start(files)
        make_keys(self.run, self._environ())
        self._take_closed(holders)
        for holder, host in zip(holders, files, strict=True):
            self._take_settings(holder, host.sysctl)
        self._cable(core, holders)
        for spec, holder in zip(self._specs, holders, strict=True):
            if spec.cores is not None:  # before sshd is there: what it starts inherits the cgroup
                self._limitations += cpu.make_group(self.run.id, spec.name, spec.cores, holder.pid)
        for holder in holders:
            holder.tell_go()  # all of them before any is waited for: their sshds start side by side
        for holder in holders:
            holder.expect("started")
        through = None if self._keeper is None else self._keeper.pid
        more = {"user": user.pw_name, "python": sys.executable, "through_pid": through}
        return tuple(
            self._access(
                host.name, _ip(host), host.neighbours[host.name], run_dir=str(host.work), netns_pid=holder.pid, **more
            )
            for host, holder in zip(files, holders, strict=True)
        )

    def _await_all(self, reached: tuple[Access, ...]) -> None:
        for access in reached:
            await_sshd(access)
        for holder in self._holders:
            holder.close()

    def _files(self, home: Path) -> tuple[HostFiles, ...]:
        apart = None if private_root.problem() else private_root.of_machine(home, self._seen, root=self._root)
        neighbours = {spec.name: str(addresses.data_address(i).ip) for i, spec in enumerate(self._specs)}
        settings = tcp.sysctls(self._tcp)
        return tuple(
            HostFiles(
                name=spec.name,
                run=self.run.directory,
                management=str(addresses.management_address(self.run.slot, i)),
                data=str(addresses.data_address(i)) if self._backend is Backend.TC else None,
                neighbours=neighbours,
                sysctl=settings,
                root=self._root,
                apart=apart,
            )
            for i, spec in enumerate(self._specs)
        )

    def _environ(self) -> dict[str, str]:
        """For everything started here, and what runs on hosts: nothing of the controller's environment."""
        places = {"PATH": SYSTEM_PATH, "TMPDIR": str(self.run.directory / TEMPORARY)}  # what is left in it goes too
        return places | {"LANG": "C.UTF-8"} | self.run.environ  # messages are read: untranslated

    def _environ_on_hosts(self, files: Sequence[HostFiles]) -> dict[str, str]:
        """What commands on hosts have: /tmp is a host's own where its root is."""
        environ = self._environ()
        return {key: value for key, value in environ.items() if key != "TMPDIR" or not any(f.apart for f in files)}

    def _start(self, files: Sequence[HostFiles]) -> tuple[Holder, list[Holder]]:
        """The core and the hosts, their namespaces there."""
        sshd, config = shutil.which("sshd", path=SYSTEM_PATH), self.run.directory / "sshd_config"
        if sshd is None:
            raise TestbedError("sshd: not found on this machine; apt-get install openssh-server")
        config.write_text(sshd_config(self.run.directory, self._environ_on_hosts(files)), encoding="utf-8")
        (self.run.directory / TEMPORARY).mkdir(mode=0o700)
        if not self._root or rootless.entered():  # else this process's network is the machine's, which stays
            self._keeper = start_keeper(self.run.directory, self._environ())
            self._holders.append(self._keeper)
        core = start_core(self.run.directory, self._environ())
        self._holders.append(core)
        hosts = []
        for host in files:
            hosts.append(start_host(host.name, host.directory, (sshd, str(config)), _ip(host), self._environ()))
            self._holders.append(hosts[-1])  # at once: if the next one fails, ``down`` reaps this one too
        for holder in self._holders:
            holder.await_pid()
        return core, hosts

    def _cable(self, core: Holder, hosts: Sequence[Holder]) -> None:
        lines = in_core(self.run.id, os.getpid(), [h.pid for h in hosts], self._backend is Backend.TC)
        # from inside the core: no device is ever in the machine's own network under a name it may have
        run_here(["nsenter", "--target", str(core.pid), "--net", "ip", "-batch", "-"], self._environ(), lines)
        run_here(["ip", "-batch", "-"], self._environ(), in_machine(self.run.id, self.run.slot))

    def _take_closed(self, holders: Sequence[Holder]) -> None:
        """Wait until ``holders`` have their roots, and note what of the machine they cannot write to."""
        for holder in holders:
            closed = [" ".join(words) for words in holder.expect("apart")[:-1]]
            if closed and holder is holders[0]:  # all are made alike
                self._limitations.append(CLOSED.format(paths=", ".join(closed)))

    def _take_settings(self, holder: Holder, asked: Mapping[str, str]) -> None:
        """Wait for what ``holder`` reads back of its sysctls, and note where that is not as asked."""
        in_force = {key: " ".join(value) for key, *value in holder.expect("prepared")[:-1]}
        for key, value in tcp.refused(asked, in_force).items():
            sentence = tcp.limitation(holder.name, key, asked[key], value)
            # not lost: a route may name it all the same
            if key == tcp.CONGESTION_CONTROL and tcp.known(self._tcp.congestion_control):
                self._refused_congestion_control[holder.name] = sentence
            else:
                self._limitations.append(sentence)


def _user() -> pwd.struct_passwd:
    """Who logs in on the hosts: who runs this. Raises: TestbedError if the machine has no name for him."""
    try:
        return pwd.getpwuid(os.geteuid())
    except KeyError as error:
        raise TestbedError(
            f"uid {os.geteuid()}: the machine knows no user of this number; add a line to /etc/passwd"
        ) from error


def _ip(host: HostFiles) -> str:
    return host.management.partition("/")[0]
