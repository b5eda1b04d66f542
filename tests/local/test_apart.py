"""Hosts are in a network of the run's own: no other user of the machine reaches their ports; who owns the run does."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ordinary_user import UID

from e2c_dl.testbeds import registry
from e2c_dl.testbeds.namespaces.cleanup import destroy, leftovers
from e2c_dl.testbeds.programs import enter_network, said

pytestmark = pytest.mark.local

_CONTROLLER = """
import os, sys
from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.this_machine import addresses, rootless
from e2c_dl.testbeds.this_machine.hosts import HostSpec

rootless.enter()
rootless.enter()  # once is enough
run = registry.begin(registry.new_run_id(), scenario="test", choose_slot=addresses.free_slot)
tcp = Tcp(congestion_control="cubic", slow_start_after_idle=False)
NamespaceHosts(run, [HostSpec(name="edge-1")], backend=Backend.TC, tcp=tcp).up()
registry.changed(registry.load(run.id), kept=True)
os._exit(0)
"""


@pytest.fixture
def kept() -> Iterator[registry.RegisteredRun]:
    """A run of one host whose controller has ended."""
    subprocess.run([sys.executable, "-c", _CONTROLLER], check=True)
    (run,) = registry.runs()
    yield run
    destroy(run.id)


def tried(address: str, port: int, uid: int, device: str) -> str:
    """What becomes of a connection that user ``uid`` tries, by ``device`` if there is such a one."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.setgid(uid)
        os.setuid(uid)
        with socket.socket() as trying:
            trying.settimeout(2)
            try:
                if device:
                    trying.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
                trying.connect((address, port))
                os.write(write, b"connected")
            except OSError as error:
                os.write(write, str(error.strerror).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    said_by_it = os.read(read, 100).decode()
    os.close(read)
    os.close(write)
    return said_by_it


def test_only_who_owns_the_run_reaches_its_hosts(kept: registry.RegisteredRun) -> None:
    (host,) = kept.hosts
    assert [name for _, name in socket.if_nameindex() if kept.id in name] == []
    assert Path("/proc/net/route").read_text().count("\n") == 1  # its head: there is no way there from here
    assert tried(host.address, host.port, UID, "") == "Network is unreachable"
    assert tried(host.address, host.port, UID, f"e2c-{kept.id}") == "No such device"
    denied = subprocess.run(
        ["setpriv", f"--reuid={UID}", "--clear-groups", "nsenter", "--target", str(host.through_pid), "--net", "true"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert denied.returncode != 0
    assert said(host, "hostname") == "edge-1\n"
    assert subprocess.run(enter_network(host, ["true"]), check=False).returncode == 0


def test_nothing_of_it_is_left(kept: registry.RegisteredRun) -> None:
    assert kept.id in {run.id for run in registry.runs()}
    destroy(kept.id)
    assert leftovers(kept.id) == ()
    assert registry.runs() == ()
