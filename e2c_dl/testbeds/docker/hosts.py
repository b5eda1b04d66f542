"""The containers of one registered run: brought up side by side, reached over SSH, and released.

``up`` goes through these steps::

    key, sshd_config -> networks -> containers, all at once -> sshd answers -> what is in force in them, read back
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import TestbedError
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.docker import cleanup
from e2c_dl.testbeds.docker.containers import Plan, in_force, quota_in_force
from e2c_dl.testbeds.docker.engine import asked, docker
from e2c_dl.testbeds.this_machine import tcp
from e2c_dl.testbeds.this_machine.cpu import Quota
from e2c_dl.testbeds.this_machine.files import sshd_config
from e2c_dl.testbeds.this_machine.hosts import HostSpec, MadeHosts, await_sshd, make_keys
from e2c_dl.testbeds.this_machine.system_path import SYSTEM_PATH

KILLED = 128
"""docker's exit code of a container is this and the number of the signal, if it was killed."""

_AT_ONCE = 8  # command lines; the daemon works on few things side by side


class DockerHosts(MadeHosts):
    """The hosts of one run. For one thread, and one ``up``."""

    def __init__(
        self,
        registered: registry.RegisteredRun,
        specs: Sequence[HostSpec],
        *,
        backend: Backend,
        tcp_settings: Tcp,
        image: str,
        memory_bytes: int | None = None,
    ) -> None:
        super().__init__(registered, specs, backend=backend, tcp_settings=tcp_settings)
        self._plan = Plan(
            run_id=registered.id,
            directory=registered.directory,
            slot=registered.slot,
            image=image,
            backend=backend,
            names=tuple(spec.name for spec in specs),
            sysctls=sysctls(tcp_settings),
            memory_bytes=memory_bytes,
        )

    def down(self, keep: Collection[str] = ()) -> tuple[str, ...]:
        return cleanup.destroy(self.run.id, self.run.directory.parent, keep=keep)

    def _how_ended(self, host: str) -> Mapping[str, Any]:
        try:
            state = asked("container", "inspect", self._plan.container(host))[0]["State"]
        except TestbedError:  # removed by hand, or the daemon is gone, too
            return {}
        killed = state["ExitCode"] - KILLED if state["ExitCode"] > KILLED else None
        status = state["ExitCode"] if killed is None else None
        return {"process": "sshd", "status": status, "signal": killed, "out_of_memory": bool(state["OOMKilled"])}

    def settle(self) -> None:
        wanted = self._tcp.congestion_control
        if congestion_control_is_free(wanted):
            return  # every container has it from the beginning
        if not tcp.known(wanted):
            self._limitations += [
                f"host {spec.name}: this machine has no congestion control {wanted}" for spec in self._specs
            ]
            return

        def route(spec: HostSpec) -> None:
            change = tcp.route_change(self._plan.data_address(spec.name), wanted)
            docker("exec", self._plan.container(spec.name), "ip", *change)

        self._on_all(route)

    def _start_all(self) -> tuple[Access, ...]:
        self._write_files()
        for argv in self._plan.networks_argv():
            docker(*argv)
        self._on_all(self._start)  # side by side: each takes the daemon a moment
        return self._accesses()

    def _await_all(self, reached: tuple[Access, ...]) -> None:
        for access in reached:
            await_sshd(access, partial(self._not_running, access.name))  # one that ended says why in its log
        for spec in self._specs:
            self._take_in_force(spec)

    def _write_files(self) -> None:
        directory, environ = self.run.directory, {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8"} | self.run.environ
        make_keys(self.run, environ)
        (directory / "sshd_config").write_text(sshd_config(directory, environ), encoding="utf-8")
        self._plan.script.write_text(self._plan.script_text(), encoding="utf-8")
        for spec in self._specs:
            self._plan.work(spec.name).mkdir(parents=True)

    def _start(self, spec: HostSpec) -> None:
        docker(*self._plan.run_argv(spec.name, spec.cores))
        if self._plan.backend is Backend.TC:
            docker(*self._plan.connect_argv(spec.name))

    def _accesses(self) -> tuple[Access, ...]:
        names = [self._plan.container(spec.name) for spec in self._specs]
        states = {found["Name"].lstrip("/"): found["State"] for found in asked("container", "inspect", *names)}
        for spec in self._specs:
            if not states[self._plan.container(spec.name)]["Running"]:
                raise self._ended(spec.name)
        return tuple(
            self._access(
                *(spec.name, str(self._plan.address(spec.name).ip), str(self._plan.data_address(spec.name).ip)),
                user="root",
                python=sys.executable,
                run_dir=str(self._plan.work(spec.name)),
                netns_pid=seen_from_here(int(states[self._plan.container(spec.name)]["Pid"])),
            )
            for spec in self._specs
        )

    def _not_running(self, host: str) -> TestbedError | None:
        told = docker("container", "inspect", "--format={{.State.Running}}", self._plan.container(host))
        return None if told.strip() == "true" else self._ended(host)

    def _ended(self, host: str) -> TestbedError:
        said = docker("logs", "--tail=3", self._plan.container(host)).split("\n")
        return TestbedError(f"host {host}: its container ended: {' '.join(said).strip() or 'it said nothing'}")

    def _take_in_force(self, spec: HostSpec) -> None:
        """Note where sysctls or quota are not as asked."""
        said = in_force(self._plan.said(spec.name).read_text(encoding="utf-8"))
        found = {path: said.get(f"/proc/sys/{path}", "absent") for path in self._plan.sysctls}
        for path, value in tcp.refused(self._plan.sysctls, found).items():
            self._limitations.append(tcp.limitation(spec.name, path, self._plan.sysctls[path], value))
        if spec.cores is None:
            return
        quota, limit = Quota.of(spec.cores), quota_in_force(said)
        if limit != (quota.quota_us, quota.period_us):  # a daemon that cannot limit only warns, and starts it
            raise TestbedError(
                f"host {spec.name}: asked for {quota}, its container has {limit or 'no limit'}; "
                "emulate compute by sleep instead"
            )
        self._limitations += quota.limitations(spec.name, spec.cores)

    def _on_all(self, act: Callable[[HostSpec], object]) -> None:
        """``act`` on every host, some at once; the first failure is raised when all are done."""
        with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="docker") as pool:
            for done in [pool.submit(act, spec) for spec in self._specs]:
                done.result()


def sysctls(settings: Tcp, root: Path = Path("/proc/sys")) -> dict[str, str]:
    """Path under /proc/sys -> value that every container begins with: those that exist here, and that it may have."""
    asked_for = tcp.sysctls(settings, root)
    if not congestion_control_is_free(settings.congestion_control, root):
        del asked_for[tcp.CONGESTION_CONTROL]  # a container that asks for it does not start; its route gets it
    return {path: value for path, value in asked_for.items() if (root / path).exists()}


def congestion_control_is_free(name: str, root: Path = Path("/proc/sys")) -> bool:
    """Whether everybody on this machine may choose it: then it can be the default of a container."""
    return name in (root / "net/ipv4/tcp_allowed_congestion_control").read_text(encoding="ascii").split()


def seen_from_here(pid: int) -> int | None:
    """``pid``, if it is a process of this machine with a network of its own; None for that of a daemon elsewhere."""
    try:
        own = os.stat("/proc/self/ns/net").st_ino
        return pid if os.stat(f"/proc/{pid}/ns/net").st_ino != own else None
    except (FileNotFoundError, PermissionError):
        return None  # not this user's to enter: tc goes over SSH, the relay needs root anyway
