"""Whole runs on machines that are there: what comes out, what is refused beforehand, and that nothing stays behind."""

import json
import os
import signal
import subprocess

import pytest
from static_hosts import inventory, left_on, machines
from whole_runs import COMMAND, Started, facts, nothing_left, scenario

from e2c_dl.archive.verify import verify
from e2c_dl.testbeds.machine import has_netem
from e2c_dl.testbeds.static import remains

pytestmark = [pytest.mark.local, pytest.mark.slow]
LONG = 100_000  # iterations: it does not end by itself


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with machines(3, tmp_path_factory.mktemp("state")) as up:
        yield up


@pytest.fixture
def listed(nodes, tmp_path):
    return inventory(nodes, tmp_path / "hosts.yaml")


class Site:
    """A scenario and an inventory; starts runs, and ends those that a test leaves."""

    def __init__(self, folder, workflow, listed):
        self.folder, self.workflow, self.listed, self.started = folder, workflow, listed, []
        (folder / "artifacts").mkdir()

    def start(self, name="a", *more, iterations=20, broken=None):
        source = scenario(self.folder / f"s-{name}", self.workflow, iterations=iterations)
        if broken is not None:
            break_stage(source / "workflow.yaml", broken)
        run = Started(
            "deploy", source, self.folder / "artifacts", "--on", "static", "--inventory", self.listed,
            "--archive", self.folder / name, *more, log=self.folder / f"{name}.log",
        )  # fmt: skip
        self.started.append(run)
        return run


def break_stage(workflow, stage):
    """The last task of ``stage`` is followed by one that fails."""
    text = workflow.read_text()
    after = {"prepare": "\n  launch:", "launch": "\n  finalize:", "finalize": None}[stage]
    fails = "\n    - name: It fails\n      ansible.builtin.command: {argv: [sh, -c, 'echo broken >&2; exit 1']}\n"
    at = len(text) if after is None else text.index(after)
    workflow.write_text(text[:at].rstrip("\n") + fails + text[at:])


@pytest.fixture
def site(tmp_path, repository, listed):
    made = Site(tmp_path, repository / "experiments/first-light/workflow.yaml", listed)
    yield made
    for run in made.started:
        if ", archive " in run.said:
            remains.destroy(run.run_id)


def nothing_left_anywhere(nodes, run_id):
    nothing_left(run_id)
    assert {node.name: left_on(node, run_id) for node in nodes} == {node.name: () for node in nodes}


def test_a_run_trains_and_says_what_was_not_emulated(site, nodes):
    run = site.start()
    assert run.ended() == 0, run.said
    told = facts(site.folder / "a")
    assert told["outcome"] == "finished" and told["testbed"] == "static"
    assert told["emulation"]["backend"] == ("tc" if has_netem() else "htb")
    assert any("delay" in sentence for sentence in told["could_not_honour"]) is not has_netem()
    assert [host["address"] for host in told["hosts"]] == [node.address for node in nodes]
    for row in json.loads((site.folder / "a/links.json").read_text()):
        if row["measured"]:
            assert row["measured"]["rate_bps"] == pytest.approx(50e6, rel=0.1)
    assert verify(site.folder / "a") == ()
    nothing_left_anywhere(nodes, told["run_id"])


@pytest.mark.skipif(has_netem(), reason="this kernel does all that is asked")
def test_strict_refuses_beforehand_what_cannot_be_emulated(site, nodes):
    run = site.start("strict", "--strict")
    assert run.ended() == 3
    assert "--strict" in run.said and "delay" in run.said
    assert not (site.folder / "strict").exists()


@pytest.mark.parametrize("stage", ["prepare", "launch", "finalize"])
def test_a_failure_leaves_nothing(site, nodes, stage):
    run = site.start(iterations=3, broken=stage)
    assert run.ended() == 1
    told = facts(site.folder / "a")
    assert told["outcome"] == "failed" and "broken" in " ".join(told["what_happened"])
    nothing_left_anywhere(nodes, told["run_id"])


STAGES = {"deploy": "deploy    bringing", "prepare": "prepare   sending", "train": "iteration 1/"}


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_leaves_nothing(site, nodes, stage):
    run = site.start(iterations=LONG)
    run.until(STAGES[stage])
    run.interrupt()
    assert run.ended() == 130, run.said
    assert facts(site.folder / "a")["outcome"] == "interrupted"
    nothing_left_anywhere(nodes, run.run_id)


def test_after_kill_9_destroy_removes_everything_and_nothing_of_others(site, nodes):
    run = site.start(iterations=LONG)
    run.until(STAGES["train"])
    other = site.start("b")  # meanwhile, the machines' data devices belong to the first
    assert other.ended() == 2
    assert f"eth1 is shaped by run {run.run_id}" in other.said
    os.kill(run.process.pid, signal.SIGKILL)
    run.ended()
    assert all(left_on(node, run.run_id) for node in nodes)
    destroyed = subprocess.run([*COMMAND, "destroy"], capture_output=True, text=True, check=False)
    assert destroyed.returncode == 0, destroyed.stderr
    assert run.run_id in destroyed.stdout and "node" not in destroyed.stderr
    nothing_left_anywhere(nodes, run.run_id)


def doctor(listed):
    argv = [*COMMAND, "doctor", "--on", "static", "--inventory", str(listed), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def test_the_doctor_says_of_every_machine_whether_it_will_do(nodes, listed, tmp_path):
    status, told = doctor(listed)
    assert (status, told["stops_a_run"]) == (0, [])
    assert {probe["name"] for probe in told["probes"]} >= {node.address for node in nodes}
    text = listed.read_text().replace(nodes[1].address, nodes[1].address.rpartition(".")[0] + ".99")
    (tmp_path / "other.yaml").write_text(text.replace('"eth1"', '"eth7"', 1))
    status, told = doctor(tmp_path / "other.yaml")
    assert (status, len(told["stops_a_run"])) == (1, 2)
    said = " ".join(probe["remedy"] for probe in told["probes"])
    assert "hosts[0].data_device: there is no eth7" in said and "No route to host" in said


def test_what_would_be_done_is_printed(site, nodes):
    run = site.start("plan", "--dry-run")
    assert run.ended() == 0, run.said
    assert f"root@{nodes[0].address} port 22, training on {nodes[0].data_address} (eth1)" in run.said
    assert "edge-1: tc class add dev eth1" in run.said
