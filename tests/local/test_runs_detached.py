"""Runs that go on by themselves, and who looks at them."""

import os
import re
import signal
import subprocess

import pytest
from whole_runs import COMMAND, LIMIT_S, Started, broken, facts, nothing_left, scenario

from e2c_dl.archive.verify import verify
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.namespaces import cleanup

pytestmark = [pytest.mark.local, pytest.mark.slow]
LONG = 100_000  # iterations: it does not end by itself


def command(*words, cwd=None):
    return subprocess.run(
        [*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=cwd
    )


@pytest.fixture
def deploy(tmp_path, repository):
    """Gives the words of a deploy; whatever is left of it is removed afterwards."""
    (tmp_path / "artifacts").mkdir()

    def words(iterations):
        workflow = repository / "experiments/first-light/workflow.yaml"
        source = scenario(tmp_path / "s", workflow, iterations=iterations, shapes=True, hosts=2)
        return ["deploy", source, tmp_path / "artifacts"]

    yield words
    for run in registry.runs():
        cleanup.destroy(run.id)


def test_a_detached_run_is_followed_from_its_beginning_to_its_end(tmp_path, deploy):
    begun = command(*deploy(3), "--detach", cwd=tmp_path)
    assert begun.returncode == 0, begun.stderr
    run_id, pid = re.search(r"run (\w+) goes on", begun.stdout)[1], int(re.search(r"kill -INT (\d+)", begun.stdout)[1])
    assert os.getsid(pid) == pid
    attached = command("attach", run_id, cwd=tmp_path)
    assert attached.returncode == 0, attached.stderr
    assert attached.stderr.startswith("check     reading the scenario")
    assert "train     iteration 1/" in attached.stderr
    assert "report    finding" in attached.stderr
    assert attached.stdout
    (archive,) = (tmp_path / "runs").iterdir()
    assert verify(archive) == ()
    nothing_left(run_id)
    again = command("attach", run_id, cwd=tmp_path)  # it is in ./runs
    assert (again.returncode, again.stderr, again.stdout) == (0, attached.stderr, attached.stdout)


def test_wrong_input_is_told_at_once(tmp_path):
    done = command("deploy", tmp_path / "nowhere", tmp_path, "--detach")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("e2c-dl: ")
    assert "is not a folder" in done.stderr
    assert registry.runs() == ()


def test_who_looks_on_may_leave_and_the_run_goes_on(tmp_path, deploy):
    begun = command(*deploy(LONG), "--detach", "--archive", tmp_path / "a")
    run_id = re.search(r"run (\w+) goes on", begun.stdout)[1]
    looking = Started("attach", run_id, log=tmp_path / "log")
    looking.until("iteration 1/")
    looking.interrupt()
    assert looking.ended() == 130
    pid = int(re.search(rf"run {run_id} goes on: kill -INT (\d+) ends it in order", looking.said)[1])
    again = Started("attach", run_id, log=tmp_path / "log2")
    again.until("iteration 1/")
    os.kill(pid, signal.SIGINT)
    assert again.ended() == 130
    assert again.said.splitlines()[-1].startswith("e2c-dl: stopped by SIGINT")
    assert facts(tmp_path / "a")["outcome"] == "interrupted"
    nothing_left(run_id)
    assert command("attach", tmp_path / "a").returncode == 130


def test_a_run_at_a_terminal_is_followed_too_and_its_failure_is_passed_on(tmp_path, deploy):
    run = Started(*deploy(3), "--archive", tmp_path / "a", log=tmp_path / "log", command=broken("train"))
    run.until("deploy    reaching")
    attached = command("attach", run.run_id)
    assert run.ended() == attached.returncode == 1
    assert attached.stderr.splitlines()[-1] == run.said.splitlines()[-1]
    assert "made to fail" in attached.stderr.splitlines()[-1]
    nothing_left(run.run_id)


def test_after_kill_9_of_the_run_it_is_said(tmp_path, deploy):
    begun = command(*deploy(LONG), "--detach", "--archive", tmp_path / "a")
    pid = int(re.search(r"kill -INT (\d+)", begun.stdout)[1])
    looking = Started("attach", tmp_path / "a", log=tmp_path / "log")
    looking.until("provision ")
    os.kill(pid, signal.SIGKILL)
    assert looking.ended() == 1
    assert "ended without sealing it" in looking.said.splitlines()[-1]
