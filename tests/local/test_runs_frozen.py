"""Hosts whose processes are all stopped, as by a frozen machine: told, waited for, and in the end given up."""

import time

import pytest
from whole_runs import COMMAND, IMPATIENT, Started, facts, freeze, nothing_left, scenario, thaw

from e2c_dl.testbeds.namespaces import cleanup

pytestmark = [pytest.mark.local, pytest.mark.slow]
LONG = 100_000  # iterations: it does not end by itself
TRAINING = "iteration 1/"
SILENT = "edge-1: no sign of life for 6 s: its processes are stopped, or its management network is gone"


@pytest.fixture
def training(tmp_path, repository):
    """Starts a run and waits until it trains."""
    runs = []

    def start(command=COMMAND):
        source = scenario(tmp_path / "s", repository / "experiments/first-light/workflow.yaml", iterations=LONG)
        (tmp_path / "artifacts").mkdir()
        arguments = ("deploy", source, tmp_path / "artifacts", "--archive", tmp_path / "a")
        runs.append(Started(*arguments, log=tmp_path / "log", command=command))
        runs[-1].until(TRAINING)
        return runs[-1]

    yield start
    for run in runs:
        cleanup.destroy(run.run_id)


def test_a_host_that_answers_again_is_told_and_training_goes_on(tmp_path, training):
    run = training()
    begun = time.monotonic()
    freeze(run.run_id, "edge-1")
    run.until(SILENT)
    assert time.monotonic() - begun < 10
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
    run = training()
    freeze(run.run_id, "edge-1")
    run.interrupt()
    time.sleep(1.5)  # less is one and the same wish
    begun = time.monotonic()
    run.interrupt()  # while workers are told to stop
    run.until("collect  ")
    assert time.monotonic() - begun < 10
    time.sleep(1.5)
    begun = time.monotonic()
    run.interrupt()
    assert run.ended() == 130
    assert time.monotonic() - begun < 20
    nothing_left(run.run_id)
