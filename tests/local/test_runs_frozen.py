"""Hosts whose processes are all stopped, as by a frozen machine: told, waited for, and in the end given up."""

import signal
import time

import pytest
from whole_runs import COMMAND, IMPATIENT, PATIENT, facts, freeze, nothing_left, starting, thaw

from e2c_dl.testbeds.namespaces import cleanup

pytestmark = [pytest.mark.local, pytest.mark.slow]
LONG = 100_000  # iterations: it does not end by itself
TRAINING = "iteration 1/"
SILENT = "edge-1: no sign of life for 6 s: its processes are stopped, or its management network is gone"


@pytest.fixture
def start(tmp_path, repository):
    workflow = repository / "experiments/first-light/workflow.yaml"
    yield from starting(tmp_path, workflow, testbed="local", destroy=cleanup.destroy)


@pytest.fixture
def training(start):
    """Starts a run and waits until it trains."""

    def training(command=COMMAND):
        run = start(iterations=LONG, command=command)
        run.until(TRAINING)
        return run

    return training


def test_a_host_that_answers_again_is_told_and_training_goes_on(tmp_path, training):
    run = training(PATIENT)
    freeze(run.run_id, "edge-1")
    run.until(SILENT)
    thaw(run.run_id, "edge-1")
    run.until("edge-1 answers again")
    run.until_again("iteration ")
    run.interrupt()
    assert run.ended() == 130
    assert "edge-1: no sign of life from" in " ".join(facts(tmp_path / "a")["what_happened"])
    nothing_left(run.run_id)


def test_a_host_that_stays_silent_ends_the_run(tmp_path, training):
    run = training(IMPATIENT)
    freeze(run.run_id, "edge-1")
    run.until("collect  ")
    assert run.ended() == 1
    assert "edge-1: no sign of life" in run.said.splitlines()[-1]
    left = facts(tmp_path / "a")
    assert left["outcome"] == "failed"
    assert "edge-1: no sign of life" in " ".join(left["what_happened"])
    nothing_left(run.run_id)


def test_ctrl_c_again_ends_each_wait_for_a_silent_host(training):
    run = training(PATIENT)  # nothing else ends them
    freeze(run.run_id, "edge-1")
    run.interrupt()
    time.sleep(1.5)  # less is one and the same wish
    run.interrupt()  # while workers are told to stop
    run.until("collect  ")
    time.sleep(1.5)
    run.interrupt()
    assert run.ended() in (130, -signal.SIGINT)  # by the last one itself, if it comes when all is done
    nothing_left(run.run_id)
