"""Whatever happens to the process that brings hosts up, ``destroy`` leaves nothing, and only of that run."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from thorough import few

from e2c_dl.testbeds import registry
from e2c_dl.testbeds.namespaces.cleanup import destroy, leftovers
from e2c_dl.testbeds.this_machine import cpu

pytestmark = pytest.mark.local

_CONTROLLER = """
import sys
from pathlib import Path
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.emulation.backend import Backend
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.this_machine.hosts import HostSpec
from e2c_dl.testbeds.this_machine import addresses, cpu

print("ready", flush=True)
base = Path(sys.argv[2])
run = registry.begin(sys.argv[1], scenario="test", choose_slot=addresses.free_slot, base=base)
cores = 0.5 if cpu.controller() else None
hosts = [HostSpec(name=f"edge-{i}", cores=cores) for i in range(4)]
tcp = Tcp(congestion_control="cubic", slow_start_after_idle=False)
testbed = NamespaceHosts(run, hosts, backend=Backend.TC, tcp=tcp)
testbed.up()
print("up", flush=True)
sys.stdin.read()
"""


class Controller:
    """A process that brings up four hosts and then waits to be killed."""

    def __init__(self, base: Path) -> None:
        self.run_id = registry.new_run_id()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CONTROLLER, self.run_id, str(base)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self, word: str) -> bool:
        return self.process.stdout is not None and self.process.stdout.readline() == f"{word}\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Controller]]:
    """Starts a controller; what it started is gone when the test is over, even if the test failed."""
    started: list[Controller] = []

    def begin() -> Controller:
        started.append(Controller(tmp_path))
        assert started[-1].says("ready")
        return started[-1]

    yield begin
    for controller in started:
        controller.kill()
        destroy(controller.run_id, tmp_path)


def network_namespaces() -> set[int]:
    """Inodes of the network namespaces that some process is in."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            found.add(os.stat(entry / "ns/net").st_ino)
        except OSError:
            continue
    return found


def test_after_a_kill_when_all_is_up(start: Callable[[], Controller], tmp_path: Path) -> None:
    controller = start()
    assert controller.says("up")
    run = registry.load(controller.run_id, tmp_path)
    inside = {os.stat(f"/proc/{host.netns_pid}/ns/net").st_ino for host in run.hosts}
    assert len(inside) == 4 and inside <= network_namespaces()
    controller.kill()
    assert registry.dead_runs(tmp_path) == (controller.run_id,)
    assert sum(line.endswith("(sshd)") for line in leftovers(controller.run_id, tmp_path)) >= 4
    assert destroy(controller.run_id, tmp_path)
    assert leftovers(controller.run_id, tmp_path) == ()
    assert not inside & network_namespaces()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("things", few(range(1, 21), *range(1, 21, 3)))
def test_after_a_kill_when_so_many_things_were_there(
    things: int, start: Callable[[], Controller], tmp_path: Path
) -> None:
    """Four hosts that are up are some twenty processes, devices, cgroups and directories, made in steps."""
    controller = start()
    while len(leftovers(controller.run_id, tmp_path)) < things and not any(
        run.hosts for run in registry.runs(tmp_path)
    ):
        assert controller.process.poll() is None  # killed as soon as they are there, however busy the machine is
    controller.kill()
    destroy(controller.run_id, tmp_path)
    assert leftovers(controller.run_id, tmp_path) == registry.dead_runs(tmp_path) == ()
    assert destroy(controller.run_id, tmp_path) == ()


@pytest.mark.parametrize("moment", range(8))
def test_after_a_kill_at_any_moment(moment: int, start: Callable[[], Controller], tmp_path: Path) -> None:
    """Bringing four hosts up takes 0.1 s on an idle machine: so the moments are spread over a little more than that."""
    controller = start()
    time.sleep(random.Random(moment).uniform(0.0, 0.2))  # not to wait for something: the moment is the test's input
    controller.kill()
    destroy(controller.run_id, tmp_path)
    assert leftovers(controller.run_id, tmp_path) == registry.dead_runs(tmp_path) == ()


def test_a_live_run_ends_only_when_it_is_named(start: Callable[[], Controller], tmp_path: Path) -> None:
    controller = start()
    assert controller.says("up")
    assert registry.dead_runs(tmp_path) == ()
    assert controller.process.poll() is None
    destroy(controller.run_id, tmp_path)
    assert leftovers(controller.run_id, tmp_path) == ()
    assert controller.process.wait() == -9


def test_only_the_run_that_was_named_ends(start: Callable[[], Controller], tmp_path: Path) -> None:
    one, other = start(), start()
    assert one.says("up") and other.says("up")
    assert len({run.slot for run in registry.runs(tmp_path)}) == 2
    one.kill()
    destroy(one.run_id, tmp_path)
    assert other.process.poll() is None
    assert sum(line.endswith("(sshd)") for line in leftovers(other.run_id, tmp_path)) >= 4


def test_what_carries_the_runs_id_ends_wherever_it_was_started(tmp_path: Path) -> None:
    run_id = registry.new_run_id()
    with subprocess.Popen(["setsid", "sleep", "600"], env={"PATH": os.environ["PATH"], "E2CDL_RUN": run_id}) as sleeper:
        while not Path(f"/proc/{sleeper.pid}/environ").read_bytes():
            time.sleep(0.001)  # polling the kernel, which has begun the program but not yet shown its environment
        assert destroy(run_id, tmp_path) != ()
        assert sleeper.wait() == -9


@pytest.mark.parametrize("path", ["", "/usr/bin", "/nowhere"])
def test_its_programs_are_found_whatever_the_path_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    run_id = registry.new_run_id()
    place = tmp_path / run_id / "tmp"
    place.mkdir(parents=True)
    subprocess.run(["ip", "link", "add", f"e2c-{run_id}", "type", "veth", "peer", "name", "other"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", f"e2cdl-{run_id}", str(place)], check=True)
    monkeypatch.setenv("PATH", path)
    assert destroy(run_id, tmp_path) == (
        f"network device e2c-{run_id}",
        f"mount {place}",
        f"directory {place.parent}",
    )
    assert leftovers(run_id, tmp_path) == ()


@pytest.mark.skipif(not cpu.can_limit(), reason="no cgroups can be made here")
def test_a_group_that_a_host_made_below_its_own_goes_too_with_what_is_in_it(tmp_path: Path) -> None:
    run_id = registry.new_run_id()
    busy = subprocess.Popen(["sleep", "600"])
    try:
        cpu.make_group(run_id, "edge-1", 0.5, busy.pid)
        hierarchy = cpu.controller()
        assert hierarchy is not None
        inner = hierarchy.group(run_id, "edge-1") / "a" / "b"
        inner.mkdir(parents=True)
        (inner / "cgroup.procs").write_text(str(busy.pid))
        assert [line for line in destroy(run_id, tmp_path) if "cgroup" in line] == [
            f"cgroup {group}" for group in (inner, *list(inner.parents)[:3])
        ]
        assert busy.wait(60) == -9
    finally:
        busy.kill()
        busy.wait()
    assert leftovers(run_id, tmp_path) == ()


def test_two_that_destroy_one_run_at_once_do_not_mind(tmp_path: Path) -> None:
    run_id = registry.new_run_id()
    for race in range(20):
        for number in range(200):
            place = tmp_path / run_id / f"{number % 10}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{race}-{number}").touch()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: destroy(run_id, tmp_path), range(4)))
        assert leftovers(run_id, tmp_path) == ()
