"""Machines for ``--on static``, made of namespaces: each with sshd, a management device, and a data device to shape."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.local import addresses
from e2c_dl.testbeds.local.access import ssh_argv
from e2c_dl.testbeds.local.testbed import Data, HostSpec, LocalTestbed

TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)


@contextmanager
def machines(count: int, state: Path) -> Iterator[tuple[Access, ...]]:
    """``count`` machines, up while in it; their own run's state is in ``state``, apart from the runs under test."""
    run = registry.begin(registry.new_run_id(), scenario="machines", choose_slot=addresses.free_slot, base=state)
    specs = [HostSpec(name=f"node-{number}") for number in range(1, count + 1)]
    hosts = LocalTestbed(run, specs, data=Data.VETH, tcp=TCP)
    try:
        yield hosts.up()
    finally:
        hosts.down()


def inventory(accesses: tuple[Access, ...], path: Path, **more: object) -> Path:
    """An inventory of ``accesses`` at ``path``; ``more`` goes into its defaults."""
    defaults = {"key": accesses[0].keyfile, "user": accesses[0].user, "python": sys.executable, **more}
    hosts = [{"address": access.address, "data_device": access.data_device} for access in accesses]
    path.write_text(json.dumps({"defaults": defaults, "hosts": hosts}))  # JSON is YAML
    return path


_LOOK = """
import glob, os, sys
from e2c_dl.testbeds.static import host_side, remains
run_id, device = sys.argv[1:]
found = [*glob.glob(f"{remains.PLACE}{run_id}-*"), *glob.glob(os.path.expanduser("~/.ansible*"))]
found += [str(what) for what in (host_side.claimed_by(device), host_side.shaped_by(device)) if what]
found += [f"process {pid}" for pid in host_side.started_from(f"{remains.PLACE}{run_id}-")]
print("\\n".join(found))
"""


def left_on(access: Access, run_id: str) -> tuple[str, ...]:
    """What there is of the run on a machine: directory, claim, queueing, processes; nothing, if it was released."""
    argv = ssh_argv(access, access.python, "-c", _LOOK, run_id, access.data_device)
    said = subprocess.run(argv, capture_output=True, text=True, check=True)
    return tuple(line for line in said.stdout.splitlines() if line)
