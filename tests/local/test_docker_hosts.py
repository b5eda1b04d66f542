"""Containers as hosts, without a campaign around them: what they get, who reaches them, and what they leave."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker_daemon
import pytest

from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import catalogue, registry
from e2c_dl.testbeds.docker import interpreter, probes
from e2c_dl.testbeds.docker.cleanup import destroy, find, leftovers
from e2c_dl.testbeds.docker.engine import docker
from e2c_dl.testbeds.docker.hosts import DockerHosts
from e2c_dl.testbeds.docker.image import BASE_REPOSITORY, default_name, images
from e2c_dl.testbeds.programs import enter_network, ssh_argv
from e2c_dl.testbeds.this_machine import addresses
from e2c_dl.testbeds.this_machine.hosts import HostSpec

pytestmark = [pytest.mark.local, pytest.mark.machine_network]

TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
_CONTROLLER = """
import sys
from pathlib import Path
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.docker.engine import meant
from e2c_dl.testbeds.docker.hosts import DockerHosts
from e2c_dl.testbeds.docker.image import default_name
from e2c_dl.emulation.backend import Backend
from e2c_dl.testbeds.this_machine.hosts import HostSpec
from e2c_dl.testbeds.this_machine import addresses

print("ready", flush=True)
run = registry.begin(
    sys.argv[1], scenario="test", testbed="docker", details={"daemon": meant()},
    choose_slot=addresses.free_slot, base=Path(sys.argv[2]),
)
tcp = Tcp(congestion_control="cubic", slow_start_after_idle=False)
specs = [HostSpec(name=f"edge-{i}") for i in range(3)]
DockerHosts(run, specs, backend=Backend.TC, tcp_settings=tcp, image=default_name()).up()
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", autouse=True)
def image() -> Iterator[str]:
    with docker_daemon.running() as name:
        yield name


@pytest.fixture
def brought_up(tmp_path: Path) -> Iterator[Callable[..., DockerHosts]]:
    """Brings hosts up under a run of their own; all that is gone when the test is over."""
    begun: list[registry.RegisteredRun] = []

    def up(*specs: HostSpec, backend: Backend = Backend.TC, **settings: object) -> DockerHosts:
        begun.append(
            registry.begin(
                registry.new_run_id(), scenario="test", testbed="docker", choose_slot=addresses.free_slot, base=tmp_path
            )
        )
        chosen = {"tcp_settings": TCP, "image": default_name()} | settings
        hosts = DockerHosts(begun[-1], specs, backend=backend, **chosen)
        hosts.up()
        return hosts

    yield up
    for run in begun:
        catalogue.destroy(run.id, tmp_path)
        assert leftovers(run.id, tmp_path) == ()


def said(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_the_image_is_current_and_this_python_works_in_it(image: str) -> None:
    assert [each.name for each in images() if not each.stale and not each.name.startswith(BASE_REPOSITORY)] == [image]
    assert interpreter.problem(image) is None
    found = probes.probes(image)
    assert {"docker daemon", "docker API", "image", "containers"} <= {probe.name for probe in found if probe.ok}


def test_an_image_that_lacks_what_a_host_needs_is_refused(image: str) -> None:
    recipe = f"FROM {image}\nRUN rm /usr/sbin/sshd\n"
    argv = ["docker", "build", "--quiet", "--network=none", "--tag=e2c-dl-test:no-sshd", "-"]
    subprocess.run(argv, input=recipe, text=True, capture_output=True, check=True)
    try:
        assert "sshd; `e2c-dl image build` makes one" in (interpreter.problem("e2c-dl-test:no-sshd") or "")
    finally:
        docker("image", "rm", "e2c-dl-test:no-sshd")


def test_hosts_have_names_addresses_limits_and_reach_each_other(brought_up: Callable[..., DockerHosts]) -> None:
    hosts = brought_up(HostSpec(name="edge-1", cores=0.5), HostSpec(name="fog-1"), memory_bytes=512 * 2**20)
    edge, fog = hosts.run.hosts
    assert hosts.limitations == ()
    assert said(ssh_argv(edge, "hostname")) == "edge-1"
    assert said(ssh_argv(edge, "cat", "/proc/sys/net/ipv4/tcp_slow_start_after_idle")) == "0"
    assert said(ssh_argv(edge, edge.python, "-c", "import e2c_dl; print(e2c_dl.__file__)")).endswith("__init__.py")
    assert said(ssh_argv(edge, "sh", "-c", "echo $E2CDL_RUN")) == hosts.run.id
    limit = docker("container", "inspect", "--format={{.HostConfig.Memory}}", f"e2cdl-{hosts.run.id}-edge-1")
    assert int(limit) == 512 * 2**20
    devices = said(enter_network(edge, ["ip", "-brief", "-4", "address"]))
    assert f"{edge.address}/24" in devices and f"{edge.data_address}/24" in devices
    assert any(line.startswith("eth1") and edge.data_address in line for line in devices.splitlines())
    said(ssh_argv(edge, "ping", "-c", "1", "-W", "5", "fog-1"))  # by name, which is its data address
    assert fog.data_address in said(ssh_argv(edge, "grep", "fog-1", "/etc/hosts"))
    said(ssh_argv(edge, "tc", "qdisc", "add", "dev", "eth1", "root", "htb"))


def test_a_congestion_control_that_is_not_for_everybody_is_set_on_the_route(
    brought_up: Callable[..., DockerHosts],
) -> None:
    system = Path("/proc/sys/net/ipv4")
    allowed = (system / "tcp_allowed_congestion_control").read_text().split()
    others = [name for name in (system / "tcp_available_congestion_control").read_text().split() if name not in allowed]
    if not others:
        pytest.skip("everybody on this machine may choose every congestion control that there is")
    settings = Tcp(congestion_control=others[0], slow_start_after_idle=False)
    (host,) = brought_up(HostSpec(name="edge-1"), tcp_settings=settings).run.hosts
    assert f"congctl {others[0]}" in said(ssh_argv(host, "ip", "route", "show", "dev", "eth1"))


def test_two_runs_side_by_side_end_one_by_one(brought_up: Callable[..., DockerHosts], tmp_path: Path) -> None:
    one, other = brought_up(HostSpec(name="edge-1")), brought_up(HostSpec(name="edge-1"))
    removed = destroy(one.run.id, tmp_path)
    assert {line.split()[-1] for line in removed if line.startswith(("container", "docker network"))} == {
        f"e2cdl-{one.run.id}-edge-1", f"e2cdl-{one.run.id}", f"e2cdl-{one.run.id}-data"
    }  # fmt: skip
    assert leftovers(one.run.id, tmp_path) == () == destroy(one.run.id, tmp_path)
    assert len(find(other.run.id).containers) == 1 and len(find(other.run.id).networks) == 2
    assert said(ssh_argv(other.run.hosts[0], "hostname")) == "edge-1"


@pytest.mark.parametrize("moment", range(5))
def test_after_a_kill_at_any_moment(moment: int, tmp_path: Path) -> None:
    """Bringing three hosts up takes about 2 s, on an idle machine: the moments are spread over that."""
    run_id = registry.new_run_id()
    argv = [sys.executable, "-c", _CONTROLLER, run_id, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as controller:
        assert controller.stdout is not None and controller.stdout.readline() == "ready\n"
        time.sleep(random.Random(moment).uniform(0.0, 2.0))  # not to wait for something: the test's input
        controller.kill()
        controller.communicate()
    catalogue.destroy(run_id, tmp_path)
    assert leftovers(run_id, tmp_path) == registry.dead_runs(tmp_path) == ()
