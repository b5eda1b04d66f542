"""Runs that end badly: a killed rank or relay, Ctrl-C, a full disk. The archive says so; nothing is left."""

import os
import signal

import pytest
from whole_runs import Started, facts, nothing_left, nothing_left_but_traces, relay_pid, scenario, worker_pid

from e2c_dl.archive.verify import verify
from e2c_dl.testbeds.namespaces import cleanup

pytestmark = [pytest.mark.local, pytest.mark.slow]
LONG = 100_000  # iterations: it does not end by itself
TRAINING = "iteration 1/"


@pytest.fixture
def started(request, tmp_path, repository):
    """A run that trains until something happens to it; by Ctrl-C, one whose workers have torch."""
    workflow, shapes = repository / "experiments/first-light/workflow.yaml", request.node.name != "test_ctrl_c"
    source = scenario(tmp_path / "s", workflow, iterations=LONG, shapes=shapes)
    (tmp_path / "artifacts").mkdir()
    run = Started("deploy", source, tmp_path / "artifacts", "--archive", tmp_path / "a", log=tmp_path / "log")
    run.until(TRAINING)
    yield run
    cleanup.destroy(run.run_id)


def test_ctrl_c(started, tmp_path):
    started.interrupt()
    assert started.ended() == 130
    run = facts(tmp_path / "a")
    assert run["outcome"] == "interrupted"
    assert "SIGINT" in " ".join(run["what_happened"])
    assert (tmp_path / "a/traces/edge-1.parquet").is_file()
    assert verify(tmp_path / "a") == ()
    nothing_left(started.run_id)


def test_a_killed_rank_is_named(started, tmp_path):
    os.kill(worker_pid(started.run_id, "fog-1"), signal.SIGKILL)
    assert started.ended() == 1
    run = facts(tmp_path / "a")
    assert run["outcome"] == "failed"
    assert run["what_happened"][0].startswith("worker fog-1 exited without an outcome")
    assert "fog-1 exited without an outcome" in started.said.splitlines()[-1]
    assert verify(tmp_path / "a") == ()
    nothing_left(started.run_id)


def test_a_killed_relay_is_named(started, tmp_path):
    os.kill(relay_pid(started.run_id), signal.SIGKILL)
    assert started.ended() == 1
    run = facts(tmp_path / "a")
    assert run["outcome"] == "failed"
    assert run["what_happened"][0].startswith("the relay was killed by signal 9")
    assert "the relay was killed by signal 9" in started.said.splitlines()[-1]
    nothing_left(started.run_id)


def test_of_a_worker_that_does_not_come_the_others_end_and_it_is_told_why(tmp_path, repository):
    source = scenario(tmp_path / "s", repository / "experiments/first-light/workflow.yaml", shapes=True, hosts=2)
    workflow = source / "workflow.yaml"
    own = "(_self._id == '2_1_1') | ternary('9_9_9', _self._id)"  # fog-1, told that it is somebody else
    text = workflow.read_text().replace(
        '"begin", "{{ _self.run_dir }}", "{{ _self._id', f'"begin", "{{{{ _self.run_dir }}}}", "{{{{ {own}'
    )
    assert own in text
    workflow.write_text(text)
    run = Started("deploy", source, "--archive", tmp_path / "a", log=tmp_path / "log")
    try:
        assert run.ended() == 1
    finally:
        cleanup.destroy(run.run_id)
    assert "fog-1: failed: host 9_9_9 does not train" in run.said.partition("FAILED")[0]  # at once
    assert "worker fog-1 failed: host 9_9_9 does not train" in run.said.splitlines()[-1]
    told = facts(tmp_path / "a")["what_happened"]
    assert told[0].startswith("worker fog-1 failed: host 9_9_9")
    assert any("it was asked to stop" in sentence for sentence in told[1:]), told  # nobody waited for it to come
    nothing_left(run.run_id)


def test_a_full_disk_is_told_in_the_archive(tmp_path, repository):
    source = scenario(tmp_path / "s", repository / "experiments/first-light/workflow.yaml", iterations=40, shapes=True)
    (tmp_path / "artifacts").mkdir()
    small, outside = tmp_path / "small", tmp_path / "outside"
    small.mkdir()
    outside.mkdir()
    # In a mount namespace of its own: the small disk goes with it.
    script = (
        'mount -t tmpfs -o size=1400k tmpfs "$1" && shift && "$@"; status=$?; '
        f'cp "{small}/a/run.json" "{outside}/run.json"; exit $status'
    )
    run = Started(
        "deploy", source, tmp_path / "artifacts", "--archive", small / "a",
        log=tmp_path / "log", prefix=("unshare", "--mount", "sh", "-c", script, "sh", str(small)),
    )  # fmt: skip
    assert run.ended() == 1, run.said
    assert "disk is full" in run.said or "No space left" in run.said
    told = facts(outside)
    assert told["outcome"] == "failed"
    assert "full" in " ".join(told["what_happened"]) or "No space left" in " ".join(told["what_happened"])
    assert f"`e2c-dl collect {told['run_id']}`" in run.said
    nothing_left_but_traces(told["run_id"])
