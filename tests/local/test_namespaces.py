"""Hosts of this machine, for real: up, reached, told apart, limited, released."""

import os
import pwd
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import TestbedError
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.namespaces.cleanup import destroy, leftovers
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.programs import enter, ssh_argv
from e2c_dl.testbeds.this_machine import addresses, cpu
from e2c_dl.testbeds.this_machine.hosts import HostSpec

pytestmark = pytest.mark.local

_TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
_NAMES = ("edge-1", "fog-1", "cloud-1")


def make(
    backend: Backend = Backend.TC, cores: float | None = None, congestion_control: str = "cubic"
) -> NamespaceHosts:
    run = registry.begin(registry.new_run_id(), scenario="test", choose_slot=addresses.free_slot)
    hosts = [HostSpec(name=name, cores=cores) for name in _NAMES]
    return NamespaceHosts(
        run, hosts, backend=backend, tcp=Tcp(congestion_control=congestion_control, slow_start_after_idle=False)
    )


def answer(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def testbed() -> Iterator[NamespaceHosts]:
    testbed = make(cores=0.5)
    try:
        testbed.up()
        yield testbed
    finally:
        testbed.down()


@pytest.fixture
def hosts(testbed: NamespaceHosts) -> tuple[Access, ...]:
    return testbed.run.hosts


def test_each_host_answers_over_ssh_by_its_own_name(hosts: tuple[Access, ...]) -> None:
    assert [answer(ssh_argv(host, "hostname")) for host in hosts] == list(_NAMES)


def test_names_mean_data_addresses_on_every_host(hosts: tuple[Access, ...]) -> None:
    for host in hosts:
        lines = answer(ssh_argv(host, "getent", "hosts", *_NAMES)).splitlines()
        assert [line.split()[0] for line in lines] == [other.data_address for other in hosts]


def test_data_devices_reach_each_other(hosts: tuple[Access, ...]) -> None:
    server = (
        "import socket; s = socket.create_server(('fog-1', 7000)); print('up', flush=True); s.accept()[0].send(b'hi')"
    )
    client = "import socket; print(socket.create_connection(('fog-1', 7000), timeout=10).makefile().read())"
    with subprocess.Popen(enter(hosts[1], [hosts[1].python, "-c", server]), stdout=subprocess.PIPE) as serving:
        assert serving.stdout is not None and serving.stdout.readline() == b"up\n"
        assert answer(enter(hosts[0], [hosts[0].python, "-c", client])) == "hi"


def test_hardware_addresses_follow_from_addresses(hosts: tuple[Access, ...]) -> None:
    for host in hosts:
        assert answer(enter(host, ["cat", "/sys/class/net/eth1/address"])) == addresses.mac(host.data_address)


def test_what_is_run_over_ssh_carries_the_run_and_nothing_of_the_controller(
    testbed: NamespaceHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = dict(line.split("=", 1) for line in answer(ssh_argv(testbed.run.hosts[0], "env")).splitlines())
    assert environ["E2CDL_RUN"] == testbed.run.id
    assert environ["HOME"] == pwd.getpwuid(os.geteuid()).pw_dir
    assert "/usr/sbin" in environ["PATH"].split(":")
    assert not any(name.startswith("PYTEST") for name in environ)


def test_a_host_sees_only_its_own_processes(hosts: tuple[Access, ...]) -> None:
    assert "init.sh" in answer(ssh_argv(hosts[0], "cat", "/proc/1/cmdline"))
    assert "pytest" not in answer(ssh_argv(hosts[0], "sh", "-c", "cat /proc/[0-9]*/comm"))


def test_run_dirs_start_empty_and_can_be_read_from_outside(hosts: tuple[Access, ...]) -> None:
    assert [answer(ssh_argv(host, "ls", host.run_dir)) for host in hosts] == ["", "", ""]
    answer(ssh_argv(hosts[0], "touch", f"{hosts[0].run_dir}/seen"))
    assert Path(hosts[0].run_dir, "seen").exists()
    Path(hosts[0].run_dir, "seen").unlink()


def test_the_machines_own_run_is_hidden(hosts: tuple[Access, ...]) -> None:
    assert answer(ssh_argv(hosts[0], "ls", "/run")).split() in (["e2c-dl", "sshd"], ["sshd"])


def test_a_terminal_can_be_had(hosts: tuple[Access, ...]) -> None:
    argv = ssh_argv(hosts[0], "tty")
    argv.insert(1, "-tt")
    assert answer(argv) == "/dev/pts/0"


def test_tcp_settings_are_in_force(testbed: NamespaceHosts) -> None:
    assert testbed.limitations == ()
    for host in testbed.run.hosts:
        assert answer(ssh_argv(host, "cat", "/proc/sys/net/ipv4/tcp_slow_start_after_idle")) == "0"
        for buffer in ("tcp_rmem", "tcp_wmem"):
            assert int(answer(ssh_argv(host, "cat", f"/proc/sys/net/ipv4/{buffer}")).split()[2]) >= 16 * 2**20


def test_connections_between_hosts_use_the_congestion_control_asked_for(hosts: tuple[Access, ...]) -> None:
    client = (
        "s = socket.create_connection(('cloud-1', 7000), timeout=10); print(s.getsockopt(6, socket.TCP_CONGESTION, 16))"
    )
    server = (
        "s = socket.create_server(('cloud-1', 7000)); print(flush=True); print(s.accept()[0].getsockopt(6, 13, 16))"
    )
    argv = enter(hosts[2], [hosts[2].python, "-c", f"import socket; {server}"])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None and serving.stdout.readline() == "\n"
        said = answer(enter(hosts[0], [hosts[0].python, "-c", f"import socket; {client}"]))
        assert said == serving.stdout.readline().strip() == str(b"cubic".ljust(16, b"\0"))


def test_cpu_quota_is_in_force(testbed: NamespaceHosts) -> None:
    hierarchy = cpu.controller()
    if hierarchy is None:
        pytest.skip("this machine has no cgroup cpu controller")
    for host in testbed.run.hosts:
        assert cpu.read_quota(testbed.run.id, host.name) == cpu.Quota(quota_us=2500, period_us=5000)
        group = f"/e2cdl-{testbed.run.id}/{host.name}"
        assert group in answer(ssh_argv(host, "cat", "/proc/self/cgroup"))


def test_cpu_quota_can_be_changed_while_a_host_runs(testbed: NamespaceHosts) -> None:
    if cpu.controller() is None:
        pytest.skip("this machine has no cgroup cpu controller")
    limitations = cpu.set_cores(testbed.run.id, "edge-1", 0.1)
    assert cpu.read_quota(testbed.run.id, "edge-1") == cpu.Quota(quota_us=1000, period_us=10_000)
    assert "period of 10 ms" in limitations[0]
    assert cpu.set_cores(testbed.run.id, "edge-1", 0.5) == ()


def test_two_runs_side_by_side(testbed: NamespaceHosts) -> None:
    other = make(Backend.RELAY)
    try:
        reached = other.up()
        assert other.run.slot != testbed.run.slot
        assert answer(ssh_argv(reached[0], "hostname")) == "edge-1"
        assert answer(ssh_argv(reached[0], "env")).count(f"E2CDL_RUN={other.run.id}") == 1
        other.down()
        assert leftovers(other.run.id) == ()
        assert answer(ssh_argv(testbed.run.hosts[0], "hostname")) == "edge-1"
    finally:
        other.down()


def test_with_tap_the_data_device_comes_later() -> None:
    testbed = make(Backend.RELAY)
    try:
        reached = testbed.up()
        assert answer(enter(reached[0], ["ls", "/sys/class/net"])).split() == ["eth0", "lo"]
        for host in reached:  # in place of a relay
            for command in (
                "link add eth1 type veth peer name far",
                "link set far up",
                f"addr add {host.data_address}/16 dev eth1",
                "link set eth1 up",
            ):
                answer(enter(host, ["ip", *command.split()]))
        testbed.settle()
        assert testbed.limitations == ()
    finally:
        testbed.down()


def test_an_unknown_congestion_control_is_a_limitation() -> None:
    testbed = make(congestion_control="warp")
    try:
        testbed.up()
        assert len(testbed.limitations) == 3
        assert "tcp_congestion_control was requested to be warp" in testbed.limitations[0]
    finally:
        testbed.down()


def test_blanks_in_the_registrys_path(tmp_path: Path) -> None:
    base = tmp_path / "state of runs"
    run = registry.begin(registry.new_run_id(), scenario="test", choose_slot=addresses.free_slot, base=base)
    testbed = NamespaceHosts(run, [HostSpec(name="edge-1")], backend=Backend.TC, tcp=_TCP)
    try:
        assert answer(ssh_argv(testbed.up()[0], "hostname")) == "edge-1"
    finally:
        testbed.down()
    assert leftovers(run.id, base) == ()


def test_down_leaves_nothing_and_can_be_said_twice() -> None:
    testbed = make(cores=0.5)
    devices = {name for _, name in socket.if_nameindex()}
    try:
        testbed.up()
    finally:
        removed = testbed.down()
    assert any(line.startswith("network device e2c-") for line in removed)
    assert testbed.down() == leftovers(testbed.run.id) == ()
    assert {name for _, name in socket.if_nameindex()} == devices


def test_hosts_that_cannot_come_up_leave_nothing() -> None:
    if cpu.controller() is None:
        pytest.skip("this machine has no cgroup cpu controller")
    testbed = make(cores=0.0001)
    with pytest.raises(TestbedError, match=r"no less than 0\.001"):
        testbed.up()
    assert leftovers(testbed.run.id) == destroy(testbed.run.id) == ()
