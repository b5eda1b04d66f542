"""Whole runs of an ordinary user: the same as root's, seen from outside while they are up, and nothing is left."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ordinary_user import NAME, UID, OrdinaryUser
from whole_runs import COMMAND, Started, facts, scenario

from e2c_dl.archive.verify import verify
from e2c_dl.testbeds import pids, registry
from e2c_dl.testbeds.namespaces import cleanup

ENDS_WITHIN_S = 10.0

pytestmark = [pytest.mark.local, pytest.mark.slow]
CHECKED_VERDICT = pytest.mark.alone
"""Of tests that need the run whose verdict is checked."""

LONG = 100_000  # iterations: it does not end by itself
FORBIDDEN = (  # to make user namespaces, for all that comes after
    *("unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c"),
    'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps=-all --inh-caps=-all "$@"',
    "sh",
)


VETH = """
import subprocess
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.programs import enter, ssh_argv
from e2c_dl.emulation.backend import Backend
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.this_machine.hosts import HostSpec
from e2c_dl.testbeds.this_machine import addresses, rootless

rootless.enter()
run = registry.begin(registry.new_run_id(), scenario="test", choose_slot=addresses.free_slot)
hosts = [HostSpec(name=name) for name in ("edge-1", "fog-1")]
tcp = Tcp(congestion_control="cubic", slow_start_after_idle=False)
testbed = NamespaceHosts(run, hosts, backend=Backend.TC, tcp=tcp)
try:
    edge, fog = testbed.up()
    print(testbed.limitations)
    everywhere = "/etc/profile.d/a.sh ~root/a /tmp/a /my-spack/a"
    write = f"mkdir /my-spack && for file in {everywhere}; do hostname >$file; done; cat {everywhere} | xargs echo"
    subprocess.run(ssh_argv(edge, "sh", "-c", write), check=True)
    shaped = "tc qdisc add dev eth1 root handle 1: htb default 1 && tc class add dev eth1 classid 1:1 htb rate 10mbit"
    subprocess.run(ssh_argv(edge, "sh", "-c", f"{shaped} && tc class show dev eth1"), check=True)
    client = "import socket; print(len(socket.create_connection(('fog-1', 22), timeout=9).recv(1)))"
    listen = "import socket; s = socket.create_server(('fog-1', 22)); print(flush=True); s.accept()[0].send(b'x')"
    with subprocess.Popen(enter(fog, [fog.python, "-c", listen]), stdout=subprocess.PIPE) as server:
        server.stdout.readline()
        subprocess.run(enter(edge, [edge.python, "-c", client]), check=True)
finally:
    print(testbed.down())
"""


@pytest.fixture(scope="module")
def user() -> Iterator[OrdinaryUser]:
    home = Path(tempfile.mkdtemp(prefix="e2cdl-user-"))  # pytest's own directories are closed to other users
    try:
        yield OrdinaryUser(home)
    finally:
        shutil.rmtree(home)
        shutil.rmtree(f"/tmp/torchinductor_{NAME}", ignore_errors=True)  # torch makes it, whoever imports it


def said_by(user: OrdinaryUser, *arguments: str, prefix: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    argv = [*user.argv(), *prefix, *COMMAND, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def nothing_left(user: OrdinaryUser, run_id: str) -> None:
    assert cleanup.leftovers(run_id, user.state) == ()
    assert run_id not in {run.id for run in registry.runs(user.state)}
    until_s = time.monotonic() + ENDS_WITHIN_S  # what was killed still has to die, on a busy machine
    while (running := processes_of(UID)) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert running == []


def processes_of(uid: int) -> list[Path]:
    mine = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and owner(entry) == uid]
    return [entry for entry in mine if pids.start_ticks(int(entry.name)) is not None]


def owner(entry: Path) -> int | None:
    try:
        return entry.stat().st_uid
    except FileNotFoundError:
        return None


@pytest.fixture(scope="module")
def kept(user: OrdinaryUser, repository: Path) -> Iterator[tuple[Path, str]]:
    """(archive, run id) of first light, in a third of its iterations, whose hosts stay up."""
    source, archive = user.home / "first-light", user.home / "kept"
    shutil.copytree(repository / "experiments/first-light", source)
    layers = source / "layers_services.yaml"
    layers.write_text(layers.read_text().replace("iterations: 60", "iterations: 20"))
    options = ["--archive", archive, "--keep"]
    started = Started(
        "deploy", source, repository / "artifacts", *options, log=user.home / "log", prefix=tuple(user.argv())
    )
    try:
        assert started.ended() == 0, started.said
        yield archive, started.run_id
    finally:
        for run_id in [run.id for run in registry.runs(user.state)]:
            cleanup.destroy(run_id, user.state)


@CHECKED_VERDICT
def test_first_light_without_root(kept: tuple[Path, str]) -> None:
    archive, _ = kept
    run, report = facts(archive), json.loads((archive / "report.json").read_text())
    assert run["outcome"] == "finished"
    assert verify(archive) == ()
    assert run["emulation"]["compute"]["method"] == "sleep"
    injected = [*run["injected"]["compute"], *run["injected"]["links"]]
    elements = [finding["element"] for finding in report["culprits"]]
    named = [e["src"] if e["dst"] is None else f"{e['src']} -> {e['dst']}" for e in elements]
    assert sorted(named) == sorted(injected)


@CHECKED_VERDICT
def test_all_of_the_archive_belongs_to_the_user(kept: tuple[Path, str]) -> None:
    assert {path.stat().st_uid for path in [kept[0], *kept[0].rglob("*")]} == {UID}


@CHECKED_VERDICT
def test_the_machine_itself_has_no_device_of_the_run(kept: tuple[Path, str], user: OrdinaryUser) -> None:
    found = cleanup.find(kept[1], user.state)
    assert found.processes
    assert (found.devices, found.groups, found.mounts) == ((), (), ())
    assert registry.load(kept[1], user.state).directory.stat().st_mode & 0o777 == 0o700


@CHECKED_VERDICT
def test_hosts_that_were_kept_are_reached_from_outside(kept: tuple[Path, str], user: OrdinaryUser) -> None:
    script = 'hostname; id -u; tty || :; cat /sys/class/net/eth0/operstate; exit "$1"'
    told = said_by(user, "shell", "fog-1", "--", "sh", "-c", script, "sh", "5")
    assert (told.returncode, told.stdout.split("\n")) == (5, ["fog-1", str(UID), "not a tty", "up", ""]), told.stderr


@CHECKED_VERDICT
def test_a_terminal_can_be_had(kept: tuple[Path, str], user: OrdinaryUser) -> None:
    """``script`` gives the command a terminal, as a person's has; what it reads is typed there."""
    argv = ["script", "--quiet", "--return", "--command", f"{shlex.join(COMMAND)} shell edge-1", "/dev/null"]
    told = subprocess.run(
        [*user.argv(), *argv], input="tty; exit 7\n", capture_output=True, text=True, check=False, timeout=60
    )
    assert "/dev/pts/0" in told.stdout
    assert told.returncode == 7


@CHECKED_VERDICT
def test_logs_of_hosts_that_were_kept(kept: tuple[Path, str], user: OrdinaryUser) -> None:
    told = said_by(user, "logs", "--host", "cloud-2")
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("==> cloud-2 <==")


@CHECKED_VERDICT
def test_destroy_ends_what_was_kept(kept: tuple[Path, str], user: OrdinaryUser) -> None:
    told = said_by(user, "destroy", kept[1])
    assert told.returncode == 0, told.stderr
    assert f"{kept[1]}: removed" in told.stdout
    nothing_left(user, kept[1])


@pytest.fixture
def training(user: OrdinaryUser, repository: Path, tmp_path: Path) -> Iterator[Started]:
    """A run that trains until something happens to it."""
    folder = user.home / tmp_path.name
    workflow = repository / "experiments/first-light/workflow.yaml"
    source = scenario(folder / "s", workflow, iterations=LONG, shapes=True, hosts=2)
    (folder / "artifacts").mkdir()
    os.chown(folder, UID, UID)
    run = Started(
        "deploy", source, folder / "artifacts", "--archive", folder / "a",
        log=folder / "log", prefix=tuple(user.argv()),
    )  # fmt: skip
    try:
        run.until("iteration 1/")
        yield run
    finally:
        run.process.kill()
        for each in registry.runs(user.state):
            cleanup.destroy(each.id, user.state)


def test_ctrl_c(training: Started, user: OrdinaryUser, tmp_path: Path) -> None:
    training.interrupt()
    assert training.ended() == 130
    assert facts(user.home / tmp_path.name / "a")["outcome"] == "interrupted"
    nothing_left(user, training.run_id)


def test_after_kill_9_destroy_removes_everything(training: Started, user: OrdinaryUser) -> None:
    os.kill(training.process.pid, signal.SIGKILL)
    training.ended()
    assert cleanup.leftovers(training.run_id, user.state) != ()
    told = said_by(user, "destroy")
    assert told.returncode == 0, told.stderr
    assert training.run_id in told.stdout
    nothing_left(user, training.run_id)


def test_hosts_for_tc_without_root(user: OrdinaryUser) -> None:
    """What a kernel with netem would use: veth devices, settings and qdiscs of the hosts' own."""
    argv = [*user.argv(), sys.executable, "-u", "-c", VETH]
    told = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert told.returncode == 0, told.stderr
    limitations, own, rate, through, removed = told.stdout.splitlines()
    assert own == "edge-1 edge-1 edge-1 edge-1"
    assert limitations == "()"
    assert "rate 10Mbit" in rate
    assert through == "1"
    assert "process" in removed
    assert list(user.state.iterdir()) == []


def test_where_user_namespaces_are_forbidden_it_is_said_how_to_allow_them(user: OrdinaryUser, repository: Path) -> None:
    told = said_by(user, "doctor", prefix=FORBIDDEN)
    assert told.returncode == 1
    assert "hosts without root" in told.stdout.splitlines()[-1]
    arguments = ("deploy", str(repository / "experiments/first-light"), str(repository / "artifacts"))
    told = said_by(user, *arguments, prefix=FORBIDDEN)
    assert told.returncode == 2
    assert "sysctl -w user.max_user_namespaces=10000" in told.stderr.splitlines()[-1]
    assert not user.state.exists() or list(user.state.iterdir()) == []
