"""Machines for ``--on static``, made of namespaces: each with sshd, devices for management and to shape, a /tmp."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ordinary_user import covered, needed
from whole_runs import COMMAND, Started

from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.machines import cleanup
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.programs import ssh_argv
from e2c_dl.testbeds.this_machine import addresses
from e2c_dl.testbeds.this_machine.hosts import HostSpec

TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)


@contextmanager
def machines(count: int, state: Path) -> Iterator[tuple[Access, ...]]:
    """``count`` machines, up while in it; their own run's state is in ``state``, apart from the runs under test."""
    run = registry.begin(registry.new_run_id(), scenario="machines", choose_slot=addresses.free_slot, base=state)
    specs = [HostSpec(name=f"node-{number}") for number in range(1, count + 1)]
    hosts = NamespaceHosts(run, specs, backend=Backend.TC, tcp=TCP)
    try:
        up = hosts.up()
        for access in up:
            _own_tmp(access, state)
        yield up
    finally:
        hosts.down()


def _own_tmp(access: Access, state: Path) -> None:
    """Cover this machine's /tmp on ``access``: what others do there meanwhile is none of its files.

    The machine's own state, and where its interpreter and this package are, can still be read if they are in /tmp.
    """
    within = [place for place in (state, *needed()) if Path("/tmp") in place.parents]
    lines = [*covered(Path("/tmp"), within, Path("/mnt")), "chmod 1777 /tmp"]
    subprocess.run([*_inside(access), "sh", "-c", "\n".join(["set -e", *lines])], check=True)


def _inside(access: Access) -> list[str]:
    return ["nsenter", "--target", str(access.netns_pid), "--mount", "--pid"]


def inventory(accesses: tuple[Access, ...], path: Path, **more: object) -> Path:
    """An inventory of ``accesses`` at ``path``, their host keys beside it; ``more`` goes into its defaults."""
    keys = {"known_hosts": str(known_hosts(accesses, path.with_suffix(".keys")))}
    defaults = {"key": accesses[0].keyfile, "user": accesses[0].user, "python": sys.executable, **keys, **more}
    hosts = [{"address": access.address, "data_device": access.data_device} for access in accesses]
    path.write_text(json.dumps({"defaults": defaults, "hosts": hosts}))  # JSON is YAML
    return path


def known_hosts(accesses: tuple[Access, ...], path: Path) -> Path:
    """A file of their host keys, as ssh writes it, at ``path``."""
    key = Path(accesses[0].keyfile).with_name("hostkey.pub").read_text().strip()
    path.write_text("".join(f"{access.address} {key}\n" for access in accesses))
    return path


_LOOK = """
import json, os, tempfile
from pathlib import Path
from e2c_dl.testbeds.machines import host_side

own, pid = set(), os.getpid()
while pid > 0:
    own.add(pid)
    pid = host_side.parent_of(pid) or 0
others = {int(name) for name in os.listdir("/proc") if name.isdigit()} - own
places = (Path.home(), Path("/run"), Path(tempfile.gettempdir()))
print(json.dumps({
    "devices": {link["ifname"]: [link["qdisc"], link["gso_max_segs"]]
                for link in host_side.parsed("ip", "-json", "-details", "link", "show")},
    "queueing": [[each["dev"], each["kind"], each["handle"]] for each in host_side.parsed("tc", "-json", "qdisc")],
    "processes": sorted(name for pid in others if (name := host_side.content(f"/proc/{pid}/comm")) not in ("", "sshd")),
    "files": sorted(str(path) for place in places for path in place.glob("*")),
}))
"""


def seen(access: Access) -> dict[str, Any]:
    """What a machine is like: devices, queueing, processes, files where programs leave some. sshd is passed over."""
    said = subprocess.run(ssh_argv(access, access.python, "-c", _LOOK), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def directories(accesses: tuple[Access, ...], run_id: str) -> list[str]:
    """Those of the run on any of the machines."""
    argv = ["find", "/tmp", "-maxdepth", "1", "-path", f"{cleanup.PLACE}{run_id}-*"]
    found = [subprocess.check_output([*_inside(access), *argv], text=True) for access in accesses]
    return sorted({path for each in found for path in each.splitlines()})


def killed_and_destroyed(run: Started) -> str:
    """``e2c-dl`` is killed, with no word to anybody; then a user clears up. What that printed."""
    os.kill(run.process.pid, signal.SIGKILL)
    run.ended()
    destroyed = subprocess.run([*COMMAND, "destroy", run.run_id], capture_output=True, text=True, check=False)
    assert destroyed.returncode == 0, destroyed.stderr
    return destroyed.stdout
