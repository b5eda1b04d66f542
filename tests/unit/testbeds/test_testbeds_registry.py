import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2c_dl.errors import InputError, TestbedError
from e2c_dl.testbeds import pids, registry
from e2c_dl.testbeds.base import Access

_BEGIN = """
import sys
from pathlib import Path
from e2c_dl.testbeds import registry
registry.begin(sys.argv[2], scenario="s", base=Path(sys.argv[1]))
print("begun", flush=True)
sys.stdin.read()
"""


def access(name: str) -> Access:
    return Access(
        name=name,
        address="198.18.1.10",
        data_address="198.19.0.10",
        data_device="eth1",
        user="root",
        keyfile="/key",
        port=22,
        python="/usr/bin/python3",
        run_dir="/dir",
        netns_pid=7,
    )


def begin_elsewhere(base: Path, run_id: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", _BEGIN, str(base), run_id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_a_run_reads_back_as_it_was_begun(tmp_path: Path) -> None:
    run = registry.begin("0123abcd", scenario="first", archive="/a", choose_slot=lambda taken: 5, base=tmp_path)
    assert registry.load("0123abcd", tmp_path) == run
    assert (run.slot, run.controller_pid, run.environ) == (5, os.getpid(), {"E2CDL_RUN": "0123abcd"})
    assert run.directory.stat().st_mode & 0o777 == 0o700


def test_hosts_are_kept(tmp_path: Path) -> None:
    run = registry.begin("0123abcd", scenario="first", base=tmp_path)
    with_host = registry.changed(run, hosts=(access("edge-1"),))
    assert registry.runs(tmp_path) == (with_host,)
    assert with_host.hosts[0].netns_pid == 7


def test_slots_of_other_runs_are_shown_to_who_chooses(tmp_path: Path) -> None:
    seen: list[frozenset[int]] = []

    def choose(taken: frozenset[int]) -> int:
        seen.append(taken)
        return len(taken) + 1

    for run_id in ("00000001", "00000002"):
        registry.begin(run_id, scenario="s", choose_slot=choose, base=tmp_path)
    assert seen == [frozenset(), frozenset({1})]


def test_a_run_lives_as_long_as_its_controller(tmp_path: Path) -> None:
    process = begin_elsewhere(tmp_path, "0000000a")
    try:
        run = registry.load("0000000a", tmp_path)
        assert registry.live_controller(run.directory) is not None
        assert registry.dead_runs(tmp_path) == ()
    finally:
        end(process)
    assert registry.live_controller(run.directory) is None
    assert registry.dead_runs(tmp_path) == ("0000000a",)


def test_a_kept_run_is_not_dead(tmp_path: Path) -> None:
    process = begin_elsewhere(tmp_path, "0000000a")
    try:
        assert registry.changed(registry.load("0000000a", tmp_path), kept=True).kept
    finally:
        end(process)
    assert registry.live_controller(registry.load("0000000a", tmp_path).directory) is None
    assert registry.dead_runs(tmp_path) == ()


def test_a_later_process_with_the_same_pid_is_another(tmp_path: Path) -> None:
    run = registry.begin("0000000a", scenario="s", base=tmp_path)
    state = run.directory / "state.json"
    state.write_text(state.read_text().replace(str(run.controller_start), str(run.controller_start - 1)))
    assert registry.live_controller(registry.load("0000000a", tmp_path).directory) is None


def test_a_zombie_does_not_run() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it ended, and nobody has reaped it
    assert pids.start_ticks(process.pid) is None
    process.wait()


def test_a_run_killed_before_it_could_write_is_dead(tmp_path: Path) -> None:
    (tmp_path / "0000000b").mkdir()
    assert registry.dead_runs(tmp_path) == ("0000000b",)
    assert registry.runs(tmp_path) == ()


def test_other_things_in_the_registry_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert registry.dead_runs(tmp_path) == ()
    assert registry.runs(tmp_path) == ()


def test_no_registry_no_runs(tmp_path: Path) -> None:
    assert registry.runs(tmp_path / "none") == ()
    assert registry.dead_runs(tmp_path / "none") == ()


@pytest.mark.parametrize("name", ["../../etc", "", "0123ABCD", "0123abcde", "0123abcd\n"])
def test_what_is_no_id_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run's id"):
        registry.run_directory(name, tmp_path)


def test_unknown_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is none"):
        registry.load("0123abcd", tmp_path)


def test_the_same_id_twice(tmp_path: Path) -> None:
    registry.begin("0123abcd", scenario="s", base=tmp_path)
    with pytest.raises(TestbedError, match="cannot register"):
        registry.begin("0123abcd", scenario="s", base=tmp_path)


def test_ids_differ_and_are_valid() -> None:
    ids = {registry.new_run_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(registry.run_directory(run_id).name == run_id for run_id in ids)


def test_the_environment_moves_the_registry(tmp_path: Path) -> None:
    assert registry.state_base({"E2CDL_STATE": str(tmp_path)}) == tmp_path.resolve()
    assert registry.state_base({}) == Path("/run/e2c-dl").resolve()


def test_what_a_testbed_needs_to_end_a_run_is_kept(tmp_path: Path) -> None:
    run = registry.begin("0123abcd", scenario="s", testbed="static", details={"a": 1}, base=tmp_path)
    registry.changed(run, details={"shaped": True})
    assert registry.load("0123abcd", tmp_path).details == {"a": 1, "shaped": True}
    assert registry.name_of_testbed("0123abcd", tmp_path) == "static"
