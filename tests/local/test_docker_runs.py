"""Whole runs in containers: what comes out, and that nothing stays on this machine, however they end."""

import json
import os
import signal
import subprocess
import time

import docker_daemon
import pytest
from thorough import few
from whole_runs import COMMAND, STAGES, broken, facts, scenario, starting

from e2c_dl.archive.read import open_archive
from e2c_dl.archive.verify import verify
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.docker import cleanup
from e2c_dl.trace.messages import conservation

pytestmark = [pytest.mark.local, pytest.mark.machine_network, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def image():
    with docker_daemon.running() as name:
        yield name


@pytest.fixture
def start(tmp_path, repository):
    """Starts a run in containers; what it leaves is removed when the test is over."""
    workflow = repository / "experiments/first-light/workflow.yaml"
    yield from starting(tmp_path, workflow, testbed="docker", destroy=cleanup.destroy)


def nothing_left(run_id):
    assert cleanup.leftovers(run_id) == ()
    assert run_id not in {run.id for run in registry.runs()}


def until(run, stage):
    """Return when ``run`` is in ``stage``, of the first one when there is a container."""
    run.until(f"{stage:<9} ")
    while stage == STAGES[0] and not cleanup.find(run.run_id).containers:
        assert run.process.poll() is None, run.said
        time.sleep(0.02)  # polling another program


def test_three_hosts_train_to_the_end(start, tmp_path, repository):
    workflow = repository / "experiments/first-light/workflow.yaml"
    run = start(source=scenario(tmp_path / "first-light", workflow, iterations=10))
    assert run.ended() == 0, run.said
    told = facts(tmp_path / "a")
    assert told["outcome"] == "finished" and told["testbed"] == "docker"
    assert told["what_happened"] == []
    assert len(told["hosts"]) == 3
    assert verify(tmp_path / "a") == ()
    rows = json.loads((tmp_path / "a/links.json").read_text())["rows"]
    assert sum(row["measured"] is not None for row in rows) == 3
    for row in conservation(open_archive(tmp_path / "a").trace()):
        assert row.sent_bytes == row.received_bytes > 0
    nothing_left(told["run_id"])


# test_runs_stages.py has each way to end in each stage, with hosts as namespaces; here each stage ends in some way.
@pytest.mark.parametrize("stage", few(["provision", "emulate", "collect"], "emulate"))
def test_a_failure_leaves_nothing(start, tmp_path, stage):
    run = start(command=broken(stage))
    assert run.ended() == 1
    assert "made to fail" in run.said.splitlines()[-1]
    assert facts(tmp_path / "a")["outcome"] == "failed"
    nothing_left(run.run_id)


@pytest.mark.parametrize("stage", few(["deploy", "prepare", "train"], "train"))
def test_ctrl_c_leaves_nothing(start, tmp_path, stage):
    run = start(iterations=100_000)
    until(run, stage)
    run.interrupt()
    assert run.ended() == 130, run.said
    assert facts(tmp_path / "a")["outcome"] == "interrupted"
    nothing_left(run.run_id)


@pytest.mark.parametrize("stage", few(["provision", "emulate", "train"], "train"))
def test_after_kill_9_destroy_leaves_nothing(start, stage):
    run = start(iterations=100_000)
    until(run, stage)
    os.kill(run.process.pid, signal.SIGKILL)
    run.ended()
    destroyed = subprocess.run([*COMMAND, "destroy", run.run_id], capture_output=True, text=True, check=False)
    assert destroyed.returncode == 0, destroyed.stderr
    assert "container e2cdl-" in destroyed.stdout
    nothing_left(run.run_id)
