"""Runs on Grid'5000 that are stopped while they train or collect: no job stays, the archive says what happened.

By Ctrl-C, by a job that reaches its walltime, by an API that is gone for good from the middle of training on. Before
training: ``tests/unit/testbeds/test_testbeds_grid5000_failing.py``.
"""

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from grid5000_api import Platform, serving
from grid5000_controller import Controller, nodes, ran, unused_wheel
from whole_runs import COMMAND, Started, facts, nothing_left, scenario, wait_for_process

from e2c_dl.archive.read import open_archive
from e2c_dl.archive.verify import verify
from e2c_dl.testbeds.programs import enter_network

pytestmark = [pytest.mark.local, pytest.mark.slow]
LONG = 100_000  # iterations: it does not end by itself
FOR_EVER = """\
    - name: It takes for ever
      ansible.builtin.command: {argv: [sleep, "100000"]}
"""


@pytest.fixture
def up(tmp_path):
    """Anew for each: nodes that are given back are not put in order, as Grid'5000 installs them again."""
    with nodes(3, tmp_path / "state") as accesses:
        yield accesses


@pytest.fixture
def api(up):
    with serving(Platform(addresses=[access.address for access in up], states=["running"])) as platform:
        yield platform


@pytest.fixture
def controller(up, api, tmp_path):
    return Controller(tmp_path, api, Path(up[0].keyfile))


@pytest.fixture
def start(controller, tmp_path, repository, monkeypatch):
    """Starts a run of so many iterations; whatever comes of it, it is over when the test is."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("E2CDL_WHEEL", str(unused_wheel(tmp_path)))
    started = []

    def begin(iterations, workflow=lambda text: text, layers=lambda text: text):
        (tmp_path / "workflow.yaml").write_text(
            workflow((repository / "experiments/first-light/workflow.yaml").read_text())
        )
        shutil.copyfile(repository / "experiments/first-light/profile.json", tmp_path / "profile.json")
        source = scenario(tmp_path / "s", tmp_path / "workflow.yaml", iterations=iterations, shapes=True)
        (source / "layers_services.yaml").write_text(layers((source / "layers_services.yaml").read_text()))
        arguments = ("deploy", source, "--on", "g5k", "--archive", tmp_path / "a")
        started.append(Started(*arguments, log=tmp_path / "log", prefix=tuple(controller.argv())))
        return started[-1]

    yield begin
    for run in started:
        run.kill()


def stopped(run, api, archive, said="stopped by SIGINT", jobs=1):
    """The run ended by Ctrl-C, and all that there is of it is its archive; what that says."""
    assert run.ended() == 130, run.said
    assert api.up() == [] and [job.deleted for job in api.jobs.values()] == [True] * jobs
    told = facts(archive)
    assert told["outcome"] == "interrupted" and said in " ".join(told["what_happened"])
    assert verify(archive) == ()
    nothing_left(told["run_id"])
    return told


def test_ctrl_c_in_training_ends_it_and_keeps_what_was_traced(start, api, tmp_path):
    """Over two sites: the host of the cloud is at another than the others."""
    api.first = {"chifflot": 3}
    run = start(LONG, layers=lambda text: text.replace("cluster: paradoxe", "cluster: paradoxe, project: lab").replace(
        "cloud\n  services:\n  - {name: Trainer,", "cloud\n  services:\n  - {name: Trainer, cluster: chifflot,"
    ))  # fmt: skip
    run.until("iteration 1/")
    run.interrupt()
    told = stopped(run, api, tmp_path / "a", jobs=2)
    assert {job["site"] for job in told["emulation"]["jobs"]} == {"lille", "rennes"}
    assert [host["node"].partition(".")[0] for host in told["hosts"]] == ["paradoxe-1", "paradoxe-2", "chifflot-3"]
    assert {body["project"] for body in api.asked("POST")} == {"lab"}
    archive = open_archive(tmp_path / "a")
    assert all(archive.host(host["name"]).outcome() is not None for host in told["hosts"])


@pytest.mark.thorough
def test_ctrl_c_twice_while_traces_are_collected_gives_the_nodes_back(start, api, tmp_path):
    """Once is remembered, as collecting ends by itself; again, what is waited for is given up, traces and all."""
    run = start(2, workflow=lambda text: text.replace("  finalize:\n", f"  finalize:\n{FOR_EVER}"))
    run.until("It takes for ever")
    wait_for_process(["sleep", "100000"])  # Ansible's forks leave the terminal's group as they begin
    run.interrupt()
    run.until("Ctrl-C once more ends what is waited for")
    time.sleep(1.5)  # less is one and the same wish
    run.interrupt()
    told = stopped(run, api, tmp_path / "a", "SIGINT again")
    assert "the rest is lost with its node" in " ".join([*told["what_happened"], run.said])


def test_an_api_that_is_gone_from_the_middle_of_training_on_leaves_a_job_that_destroy_deletes(
    start, api, controller, tmp_path
):
    run = start(100)
    run.until("iteration 1/")
    api.broken = {"": 500}  # of every request
    assert run.ended() == 1, run.said
    told = facts(tmp_path / "a")
    archive = open_archive(tmp_path / "a")
    assert all(archive.host(host["name"]).outcome() is not None for host in told["hosts"])  # it trained to its end
    assert verify(tmp_path / "a") == ()
    assert api.up() == [1000] and f"e2c-dl destroy {told['run_id']}" in run.said
    api.broken = {}
    destroyed = ran(controller, [*COMMAND, "destroy", told["run_id"]])
    assert destroyed.returncode == 0 and "job 1000 of rennes" in destroyed.stdout, destroyed.stderr
    assert api.up() == []
    nothing_left(told["run_id"])


def test_a_job_that_reaches_its_walltime_in_training(start, up, api, tmp_path):
    run = start(LONG)
    run.until("iteration 1/")
    api.end_jobs()
    for node in up:  # Grid'5000 takes its nodes back
        subprocess.run(enter_network(node, ["ip", "link", "set", "eth0", "down"]), check=True)
    assert run.ended() == 1, run.said
    told = facts(tmp_path / "a")
    assert told["outcome"] == "failed"
    happened = " ".join(told["what_happened"])
    assert "its job 1000 at rennes is over (terminated): the walltime of 01:00:00 was" in happened
    assert "e2c-dl collect" not in happened + run.said  # there is nothing left to be fetched
    assert verify(tmp_path / "a") == ()
    nothing_left(told["run_id"])
