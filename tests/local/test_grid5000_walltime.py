"""A job that reaches its walltime while it trains: the run ends, says so, and keeps what it has; nothing stays."""

import subprocess
from pathlib import Path

import pytest
from grid5000_api import Platform, serving
from grid5000_controller import Controller, nodes
from whole_runs import Started, facts, nothing_left, scenario

from e2c_dl.archive.verify import verify
from e2c_dl.testbeds.programs import enter_network

pytestmark = [pytest.mark.local, pytest.mark.slow]


def test_a_job_that_reaches_its_walltime_in_training(tmp_path, repository, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "unused.whl").touch()
    monkeypatch.setenv("E2CDL_WHEEL", str(tmp_path / "unused.whl"))  # nodes have it already: none need be built
    source = scenario(tmp_path / "s", repository / "experiments/first-light/workflow.yaml", iterations=100_000)
    with nodes(3, tmp_path / "state") as up, serving(Platform(addresses=[a.address for a in up])) as api:
        api.states = ["running"]
        controller = Controller(tmp_path, api, Path(up[0].keyfile))
        run = Started(
            "deploy", source, "--on", "g5k", "--archive", tmp_path / "a",
            log=tmp_path / "log", prefix=tuple(controller.argv()),
        )  # fmt: skip
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
