"""Finding and ending a run's processes: these are this user's own, so no rights are needed."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2c_dl.testbeds import registry
from e2c_dl.testbeds.namespaces import cleanup
from e2c_dl.testbeds.this_machine import processes


@pytest.fixture
def marked() -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    run_id = registry.new_run_id()
    process = subprocess.Popen(["sleep", "600"], env={"OTHER": "1", registry.RUN_VARIABLE: run_id})
    while not Path(f"/proc/{process.pid}/environ").read_bytes():
        time.sleep(0.001)  # polling the kernel, which has begun the program but not yet shown its environment
    yield run_id, process
    process.kill()
    process.wait()


def test_a_process_is_found_by_its_mark(marked: tuple[str, "subprocess.Popen[bytes]"]) -> None:
    run_id, process = marked
    assert processes.processes_of(run_id) == {process.pid}
    assert processes.processes_of(registry.new_run_id()) == frozenset()


def test_a_longer_value_is_another_run(marked: tuple[str, "subprocess.Popen[bytes]"]) -> None:
    run_id, _ = marked
    assert processes.processes_of(run_id[:-1]) == frozenset()


def test_kill_returns_when_they_are_gone(marked: tuple[str, "subprocess.Popen[bytes]"]) -> None:
    run_id, process = marked
    processes.kill(lambda: processes.processes_of(run_id), timeout_s=10)
    assert processes.processes_of(run_id) == frozenset()
    assert process.wait() == -9


def test_destroy_ends_them_and_says_so(marked: tuple[str, "subprocess.Popen[bytes]"], tmp_path: Path) -> None:
    run_id, process = marked
    registry.begin(run_id, scenario="s", base=tmp_path)
    directory = str(tmp_path / run_id)
    assert cleanup.destroy(run_id, tmp_path) == (f"process {process.pid} (sleep)", f"directory {directory}")
    assert cleanup.leftovers(run_id, tmp_path) == cleanup.destroy(run_id, tmp_path) == ()


def test_destroy_ends_a_controller_that_lives(tmp_path: Path) -> None:
    run_id = registry.new_run_id()
    code = (
        "import sys, pathlib; from e2c_dl.testbeds import registry;"
        "registry.begin(sys.argv[1], scenario='s', base=pathlib.Path(sys.argv[2])); print(flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code, run_id, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as controller:
        assert controller.stdout is not None and controller.stdout.readline()
        assert registry.dead_runs(tmp_path) == ()
        cleanup.destroy(run_id, tmp_path)
        assert controller.wait() == -9
    assert not (tmp_path / run_id).exists()


def test_this_process_and_its_ancestors_are_spared() -> None:
    code = (
        "import os; from e2c_dl.testbeds.this_machine import processes;"
        "print({os.getpid(), os.getppid()} <= processes.lineage(), processes.processes_of('feedbeef'))"
    )
    environ = {registry.RUN_VARIABLE: "feedbeef", "PYTHONPATH": ":".join(sys.path)}
    said = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True).stdout
    assert said == "True frozenset()\n"


def test_more_of_them_than_may_be_held_at_once_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_AT_ONCE", 3)
    run_id = registry.new_run_id()
    begun = [subprocess.Popen(["sleep", "600"], env={registry.RUN_VARIABLE: run_id}) for _ in range(10)]
    try:
        pids = frozenset(process.pid for process in begun)
        processes.kill(lambda: pids, timeout_s=10)
        assert [process.wait(timeout=1) for process in begun] == [-9] * len(begun)
    finally:
        for process in begun:
            process.kill()
            process.wait()
