"""What a host writes, anywhere, is its own: this machine's files, and the other hosts', stay as they are."""

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine_files import listing, sums

from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.namespaces.cleanup import destroy, leftovers
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.programs import enter, ssh_argv
from e2c_dl.testbeds.this_machine import addresses, private_root
from e2c_dl.testbeds.this_machine.hosts import HostSpec

pytestmark = pytest.mark.local

WRITES = """
set -e
echo 'export OF_A_HOST=1' >/etc/profile.d/z10_host.sh
echo changed >>/etc/services
rm -f /etc/issue
mkdir -p ~/app /opt/app /srv/data /my-spack /tmp/datasets /usr/local/lib/app
ln -sfn /srv/data /my-spack/view
for place in ~/app /opt/app /tmp/datasets /usr/local/bin /usr/local/lib/app /var/lib /var/log /var/tmp /usr/bin; do
    echo "$(hostname)" >$place/of-a-host
done
chmod 0600 /etc/profile
mv /usr/share/doc/bash /usr/share/doc/moved
"""


def make(tmp_path: Path) -> NamespaceHosts:
    run = registry.begin(registry.new_run_id(), scenario="test", choose_slot=addresses.free_slot)
    return NamespaceHosts(
        run, [HostSpec(name="edge-1"), HostSpec(name="edge-2")], backend=Backend.TC,
        tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False), seen=[tmp_path],
    )  # fmt: skip


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifacts")
    (folder / "data.txt").write_text("of the machine")
    return folder


@pytest.fixture(scope="module")
def hosts(artifacts: Path) -> Iterator[tuple[Access, ...]]:
    if (problem := private_root.problem()) is not None:
        pytest.skip(f"overlayfs cannot be had here: {problem}")
    made = make(artifacts)
    try:
        yield made.up()
    finally:
        made.down()


def on(host: Access, script: str) -> str:
    done = subprocess.run(ssh_argv(host, "sh", "-c", script), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_hosts_write_changes_neither_the_machine_nor_each_other(hosts: tuple[Access, ...]) -> None:
    own = [
        Path(place, "of-a-host").expanduser()
        for place in ("~/app", "/tmp/datasets", "/var/tmp", "/var/lib", "/var/log")
    ]
    before = listing(), sums(), os.listdir("/")
    for host in hosts:
        on(host, WRITES)
    for host in hosts:
        assert on(host, "cat /tmp/datasets/of-a-host /usr/bin/of-a-host") == f"{host.name}\n{host.name}"
        assert on(host, ". /etc/profile.d/z10_host.sh; echo $OF_A_HOST; ls /my-spack; tail -1 /etc/services") == (
            "1\nview\nchanged"
        )
    assert before == (listing(), sums(), os.listdir("/"))
    assert [path for path in own if path.exists()] == []


def test_homes_and_tmp_are_empty_but_for_what_a_worker_and_the_workflow_need(
    hosts: tuple[Access, ...], artifacts: Path
) -> None:
    host = hosts[0]
    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert on(host, "echo ~") == home
    assert on(host, f"cat {artifacts}/data.txt") == "of the machine"
    on(host, f"echo changed >{artifacts}/data.txt")
    assert (artifacts / "data.txt").read_text() == "of the machine"
    brought = {path.relative_to(home).parts[0] for path in private_root.interpreter() if path.is_relative_to(home)}
    assert set(on(host, f"ls -A {home}").split()) - {"app"} == brought
    assert on(host, f"{sys.executable} -c 'import e2c_dl, tempfile; print(tempfile.gettempdir())'") == "/tmp"


def test_hosts_know_themselves_and_each_other_by_files_that_they_may_change(hosts: tuple[Access, ...]) -> None:
    host = hosts[1]
    assert on(host, "cat /etc/hostname") == "edge-2"
    on(host, "echo 198.19.9.9 elsewhere >>/etc/hosts && useradd -M visitor && getent passwd visitor")
    assert "198.19.9.9" in on(host, "getent hosts elsewhere")
    assert "elsewhere" not in on(hosts[0], "cat /etc/hosts")


def test_what_enters_a_host_without_ssh_sees_the_same_files(hosts: tuple[Access, ...]) -> None:
    on(hosts[0], "echo here >/opt/seen")
    argv = enter(hosts[0], ["cat", "/opt/seen"])
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "here\n"


_KILLED = """
import os, signal
from pathlib import Path
from test_private_roots import make
make(Path("/usr")).up()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_stays_mounted_when_the_controller_is_killed(hosts: tuple[Access, ...]) -> None:
    known = {run.id for run in registry.runs()}
    mounts = Path("/proc/self/mountinfo").read_text()
    environ = {**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{Path(__file__).parents[1]}"}
    subprocess.run([sys.executable, "-c", _KILLED], env=environ, check=False)
    (run,) = (run for run in registry.runs() if run.id not in known)
    assert destroy(run.id)
    assert leftovers(run.id) == ()
    assert Path("/proc/self/mountinfo").read_text() == mounts
