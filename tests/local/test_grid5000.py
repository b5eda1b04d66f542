"""A whole run of an experiment as it stands on Grid'5000's nodes: an API on loopback, nodes that are namespaces."""

import json
from pathlib import Path

import pytest
from grid5000_api import WATTS, Platform, serving
from grid5000_controller import Controller, granted, nodes, unused_wheel
from whole_runs import Started, facts, nothing_left

from e2c_dl.archive.verify import verify

pytestmark = [pytest.mark.local, pytest.mark.slow]


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with nodes(6, tmp_path_factory.mktemp("state")) as accesses:
        yield accesses


@pytest.fixture
def api(up):
    with serving(Platform(addresses=[access.address for access in up])) as platform:
        yield platform


def test_first_light_runs_on_reserved_nodes_and_gives_them_back(up, api, tmp_path, repository, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("E2CDL_WHEEL", str(unused_wheel(tmp_path)))
    api.gpus = 2  # that no system of ours sees
    controller = Controller(tmp_path, api, Path(up[0].keyfile))
    run = Started(
        "deploy", repository / "experiments/first-light", "--on", "g5k", "--archive", tmp_path / "a",
        log=tmp_path / "log", prefix=tuple(controller.argv()),
    )  # fmt: skip
    assert run.ended() == 0, run.said
    told = facts(tmp_path / "a")
    assert (told["outcome"], told["testbed"]) == ("finished", "g5k")
    # ranks follow the nodes' numbers, in whatever order OAR has them
    assert [host["node"] for host in told["hosts"]] == [api.node("paradoxe", number) for number in range(1, 7)]
    assert {host["slots"] for host in told["hosts"]} == {1}
    assert "torch" in told["versions"]
    assert any("Grid'5000 describes 2 GPUs, its system sees 0" in sentence for sentence in told["limitations"])
    assert "6 nodes x 0.5 h = 3 node-hours at most" in run.said
    assert told["emulation"]["jobs"] == [{"site": "rennes", "id": 1000}]
    (asked,) = api.asked("POST")
    assert asked["resources"] == "+".join(["{cluster='paradoxe'}/nodes=2"] * 3) + ",walltime=00:30:00"
    assert asked["name"] == f"first-light-{told['run_id']}"
    assert all("ssh-ed25519" in granted(access) or granted(access) == "" for access in up)
    measured = json.loads((tmp_path / "a/logs/energy.json").read_text())["hosts"]
    assert set(measured) == {host["name"] for host in told["hosts"]}
    assert {watts for its in measured.values() for _, watts in its["samples"]} == {WATTS}
    assert verify(tmp_path / "a") == ()
    assert api.up() == [] and api.jobs[1000].deleted
    nothing_left(told["run_id"])
    assert api.password not in json.dumps(told) + run.said
