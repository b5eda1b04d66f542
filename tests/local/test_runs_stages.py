"""Hosts as namespaces, and a run that fails, is interrupted or is killed in each of its stages: nothing is left."""

import os
import signal
import subprocess

import pytest
from thorough import few
from whole_runs import COMMAND, STAGES, broken, facts, nothing_left, starting

from e2c_dl.archive.verify import verify
from e2c_dl.campaign.last_steps import LATE
from e2c_dl.testbeds.namespaces import cleanup

pytestmark = [pytest.mark.local, pytest.mark.slow]
LONG = 100_000  # iterations: it does not end by itself
BEFORE_TRAINING = STAGES[: STAGES.index("train")]  # test_runs_broken.py interrupts and kills runs that train


@pytest.fixture
def start(tmp_path, repository):
    """Starts a run in namespaces; what it leaves is removed when the test is over."""
    workflow = repository / "experiments/first-light/workflow.yaml"
    yield from starting(tmp_path, workflow, testbed="local", destroy=cleanup.destroy)


def until(run, stage):
    """Return when ``run`` is in ``stage``, of the first one when there is something to be left."""
    run.until(f"{stage:<9} ")
    while stage == STAGES[0] and len(cleanup.find(run.run_id).processes) < 2:  # its controller, and what that made
        assert run.process.poll() is None, run.said


@pytest.mark.parametrize("stage", few(STAGES, "emulate", "collect"))
def test_a_failure_in_each_stage_leaves_nothing(start, tmp_path, stage):
    run = start(command=broken(stage))
    assert run.ended() == 1
    assert "made to fail" in run.said.splitlines()[-1]
    assert facts(tmp_path / "a")["outcome"] == "failed"
    assert verify(tmp_path / "a") == ()
    nothing_left(run.run_id)


@pytest.mark.parametrize("stage", few(BEFORE_TRAINING, "prepare"))
def test_ctrl_c_in_each_stage_leaves_nothing(start, tmp_path, stage):
    run = start(iterations=LONG)
    until(run, stage)
    run.interrupt()
    assert run.ended() == 130, run.said
    assert facts(tmp_path / "a")["outcome"] == "interrupted"
    nothing_left(run.run_id)


def test_ctrl_c_when_training_is_over_leaves_a_whole_run_and_begins_no_other(start, tmp_path):
    run = start(iterations=2, options=("--repeat", "2"))
    until(run, "collect")
    run.interrupt()
    assert run.ended() == 130, run.said
    told = facts(tmp_path / "a/repeat-1")
    assert (told["outcome"], told["facts"]["ended_with"]["exit_code"]) == ("finished", 130)
    assert told["what_happened"] == [f"SIGINT {LATE}"]
    assert verify(tmp_path / "a/repeat-1") == () and (tmp_path / "a/repeat-1/report.json").is_file()
    assert not (tmp_path / "a/repeat-2").exists()
    nothing_left(run.run_id)


@pytest.mark.parametrize("stage", few(BEFORE_TRAINING, "emulate"))
def test_after_kill_9_in_each_stage_destroy_leaves_nothing(start, stage):
    run = start(iterations=LONG)
    until(run, stage)
    os.kill(run.process.pid, signal.SIGKILL)
    run.ended()
    destroyed = subprocess.run([*COMMAND, "destroy", run.run_id], capture_output=True, text=True, check=False)
    assert destroyed.returncode == 0, destroyed.stderr
    assert run.run_id in destroyed.stdout
    nothing_left(run.run_id)
