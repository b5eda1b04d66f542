"""Runs whose reader, archive or terminal goes away: they end in order, and nothing is left."""

import os
import pty
import signal
import subprocess

import pytest
from thorough import few
from whole_runs import COMMAND, LIMIT_S, UNRELEASED, Started, facts, nothing_left, scenario

from e2c_dl.archive.verify import verify
from e2c_dl.testbeds.namespaces import cleanup

pytestmark = [pytest.mark.local, pytest.mark.slow]
LONG = 100_000  # iterations: it does not end by itself
TRAINING = "iteration 1/"


@pytest.fixture
def arguments(tmp_path, repository):
    """Gives the words of a deploy of so many iterations."""
    (tmp_path / "artifacts").mkdir()

    def of(iterations):
        workflow = repository / "experiments/first-light/workflow.yaml"
        source = scenario(tmp_path / "s", workflow, iterations=iterations, shapes=True, hosts=2)
        return ["deploy", source, tmp_path / "artifacts", "--archive", tmp_path / "a"]

    return of


@pytest.fixture
def training(tmp_path, arguments):
    """Starts a run and waits until it trains."""
    runs = []

    def start(**how):
        runs.append(Started(*arguments(LONG), log=tmp_path / "log", **how))
        runs[-1].until(TRAINING)
        return runs[-1]

    yield start
    for run in runs:
        cleanup.destroy(run.run_id)


def read_until(process, text):
    """What ``process`` said until ``text``; then its reader is gone."""
    said = ""
    for line in process.stderr:
        said += line
        if text in line:
            break
    process.stderr.close()
    return said


@pytest.mark.parametrize("text", few(["archive ", TRAINING, "release   "], TRAINING))
def test_a_reader_that_goes_away_ends_nothing(tmp_path, arguments, text):
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen([*COMMAND, *arguments(3)], stdout=said, stderr=subprocess.PIPE, text=True)
        read_until(process, text)
        assert process.wait(LIMIT_S) == 0
    run = facts(tmp_path / "a")
    assert run["outcome"] == "finished"
    assert "Broken pipe" in " ".join(run["what_happened"])
    assert verify(tmp_path / "a") == ()
    assert (tmp_path / "said").read_text()
    nothing_left(run["run_id"])


@pytest.mark.thorough
def test_ctrl_c_that_takes_the_reader_along(tmp_path, arguments):
    process = subprocess.Popen(
        [*COMMAND, *arguments(LONG)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    read_until(process, TRAINING)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    run = facts(tmp_path / "a")
    assert run["outcome"] == "interrupted"
    assert (tmp_path / "a/traces/edge-1.parquet").is_file()
    nothing_left(run["run_id"])


def test_a_real_terminal_that_is_closed(tmp_path, arguments):
    """What is drawn there has nowhere to go, the kernel hangs up on the program, and a thread of it is drawing."""
    words = [*COMMAND, *map(str, arguments(LONG))]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    said = b""
    while b"iteration " not in said:
        said += os.read(terminal, 4096)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    run = facts(tmp_path / "a")
    assert run["outcome"] == "interrupted"
    assert "SIGHUP" in " ".join(run["what_happened"])
    assert (tmp_path / "a/traces/edge-1.parquet").is_file()
    assert verify(tmp_path / "a") == ()
    nothing_left(run["run_id"])


def test_neither_streams_nor_a_home_are_needed(tmp_path, arguments):
    done = subprocess.run(
        ["bash", "-c", 'env -u HOME "$@" <&- >&- 2>&-', "bash", *COMMAND, *map(str, arguments(3))],
        check=False, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, (tmp_path / "a/logs/console.log").read_text()
    run = facts(tmp_path / "a")
    assert run["outcome"] == "finished"
    assert verify(tmp_path / "a") == ()
    nothing_left(run["run_id"])


def test_under_nohup_a_run_outlives_its_terminal(tmp_path, training):
    run = training(prefix=("nohup",))
    os.killpg(run.process.pid, signal.SIGHUP)
    run.until_again("iteration ")  # it goes on, and is told of
    run.interrupt()
    assert run.ended() == 130
    assert "SIGINT" in " ".join(facts(tmp_path / "a")["what_happened"])
    nothing_left(run.run_id)


def test_what_could_not_be_released_is_named(tmp_path, arguments):
    run = Started(*arguments(3), log=tmp_path / "log", command=UNRELEASED)
    assert run.ended() == 1
    assert f"not all of it was removed: `e2c-dl destroy {run.run_id}` removes the rest" in run.said
    assert run.said.splitlines()[-1] == "e2c-dl: cannot be removed"
    assert verify(tmp_path / "a") == ()
    assert subprocess.run([*COMMAND, "destroy", run.run_id], capture_output=True, check=False).returncode == 0
    nothing_left(run.run_id)
