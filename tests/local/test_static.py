"""Whole runs on machines that are there: what comes out, what is refused beforehand, and that nothing stays behind."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest
from static_hosts import directories, inventory, killed_and_destroyed, known_hosts, machines, seen
from thorough import few
from whole_runs import COMMAND, EMULATION, Started, broken, facts, nothing_left, scenario

from e2c_dl.archive.verify import verify
from e2c_dl.testbeds.machines import cleanup
from e2c_dl.testbeds.programs import enter_network
from e2c_dl.testbeds.this_machine.probes import has_netem

pytestmark = [pytest.mark.local, pytest.mark.slow]
LONG = 100_000  # iterations: it does not end by itself


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with machines(3, tmp_path_factory.mktemp("state")) as up:
        yield up


@pytest.fixture(scope="module")
def untouched(nodes):
    """What the machines are like before anything was done to them."""
    return {node.name: seen(node) for node in nodes}


@pytest.fixture
def listed(nodes, tmp_path):
    return inventory(nodes, tmp_path / "hosts.yaml")


class Site:
    """A scenario and an inventory; starts runs, and ends those that a test leaves."""

    def __init__(self, folder, workflow, listed):
        self.folder, self.workflow, self.listed, self.started = folder, workflow, listed, []
        (folder / "artifacts").mkdir()

    def start(self, name="a", *more, iterations=20, shapes=True, failing=None, command=COMMAND):
        source = scenario(
            self.folder / f"s-{name}", self.workflow, iterations=iterations, emulation=EMULATION + arriving(),
            shapes=shapes,
        )  # fmt: skip
        if failing is not None:
            break_stage(source / "workflow.yaml", failing)
        run = Started(
            "deploy", source, self.folder / "artifacts", "--on", "static", "--inventory", self.listed,
            "--archive", self.folder / name, *more, log=self.folder / f"{name}.log", command=command,
        )  # fmt: skip
        self.started.append(run)
        return run


def arriving():
    """A bottleneck in front of one host, where this kernel can have one: an ingress and a device more on a machine."""
    tried = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "ifb7", "type", "ifb"], stderr=subprocess.DEVNULL, check=False
    )
    links = "[{src: edge.*, dst: fog.*}, {src: cloud.*, dst: fog.*}]"
    return "" if tried.returncode else f"bottlenecks: [{{name: door, rate: 80mbit, links: {links}}}]\n"


def break_stage(workflow, stage):
    """The last task of ``stage`` is followed by one that fails."""
    text = workflow.read_text()
    after = {"prepare": "\n  launch:", "launch": "\n  finalize:", "finalize": None}[stage]
    fails = "\n    - name: It fails\n      ansible.builtin.command: {argv: [sh, -c, 'echo broken >&2; exit 1']}\n"
    at = len(text) if after is None else text.index(after)
    workflow.write_text(text[:at].rstrip("\n") + fails + text[at:])


@pytest.fixture
def site(tmp_path, repository, listed, untouched, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))  # of e2c-dl itself; machines have a /tmp each
    made = Site(tmp_path, repository / "experiments/first-light/workflow.yaml", listed)
    yield made
    for run in made.started:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()
        if ", archive " in run.said:
            cleanup.destroy(run.run_id)
    assert list((tmp_path / "tmp").iterdir()) == []


def nothing_left_anywhere(nodes, untouched, run_id):
    nothing_left(run_id)
    assert directories(nodes, run_id) == []
    assert {node.name: seen(node) for node in nodes} == untouched


def until(run, stage, nodes):
    """Return when ``run`` is in ``stage``; of training, of the first iteration; of the first, when it has a machine."""
    run.until({"train": "iteration 1/"}.get(stage, f"{stage:<9} "))
    while stage == "deploy" and not directories(nodes, run.run_id):
        assert run.process.poll() is None, run.said
        time.sleep(0.01)  # polling another program


def test_a_run_trains_and_says_what_was_not_emulated(site, nodes, untouched):
    run = site.start(shapes=False)
    assert run.ended() == 0, run.said
    told = facts(site.folder / "a")
    assert told["outcome"] == "finished" and told["testbed"] == "static"
    assert told["emulation"]["backend"] == ("tc" if has_netem() else "htb")
    assert any("delay" in sentence for sentence in told["limitations"]) is not has_netem()
    assert [host["address"] for host in told["hosts"]] == [node.address for node in nodes]
    for row in json.loads((site.folder / "a/links.json").read_text())["rows"]:
        if row["measured"]:
            assert row["measured"]["rate_bps"] == pytest.approx(50e6, rel=0.1)
    assert verify(site.folder / "a") == ()
    nothing_left_anywhere(nodes, untouched, told["run_id"])


@pytest.mark.skipif(has_netem(), reason="this kernel does all that is asked")
def test_strict_refuses_beforehand_what_cannot_be_emulated(site, nodes):
    run = site.start("strict", "--strict")
    assert run.ended() == 3
    assert "--strict" in run.said and "delay" in run.said
    assert not (site.folder / "strict").exists()


@pytest.mark.parametrize("stage", few(["prepare", "launch"], "launch"))
def test_a_failure_of_the_workflow_leaves_nothing(site, nodes, untouched, stage):
    run = site.start(iterations=3, failing=stage)
    assert run.ended() == 1
    told = facts(site.folder / "a")
    assert told["outcome"] == "failed" and "broken" in " ".join(told["what_happened"])
    nothing_left_anywhere(nodes, untouched, told["run_id"])


@pytest.mark.parametrize("stage", few(["deploy", "emulate"], "emulate"))  # the others are the workflow's
def test_a_failure_before_the_workflow_leaves_nothing(site, nodes, untouched, stage):
    run = site.start(iterations=3, command=broken(stage))
    assert run.ended() == 1
    assert "made to fail" in run.said.splitlines()[-1]
    assert facts(site.folder / "a")["outcome"] == "failed"
    nothing_left_anywhere(nodes, untouched, run.run_id)


@pytest.mark.parametrize("stage", few(["emulate", "train"], "train"))
def test_ctrl_c_leaves_nothing(site, nodes, untouched, stage):
    run = site.start(iterations=LONG)
    until(run, stage, nodes)
    run.interrupt()
    assert run.ended() == 130, run.said
    assert facts(site.folder / "a")["outcome"] == "interrupted"
    nothing_left_anywhere(nodes, untouched, run.run_id)


@pytest.mark.thorough
def test_after_kill_9_before_training_destroy_leaves_nothing(site, nodes, untouched):
    run = site.start(iterations=LONG)
    until(run, "prepare", nodes)
    assert "edge-1: directory" in killed_and_destroyed(run)
    nothing_left_anywhere(nodes, untouched, run.run_id)


def test_after_kill_9_in_training_destroy_removes_everything_and_nothing_of_others(site, nodes, untouched):
    run = site.start(iterations=LONG)
    until(run, "train", nodes)
    other = site.start("b")  # meanwhile, the machines' data devices belong to the first
    assert other.ended() == 2
    assert f"eth1 is shaped by run {run.run_id}" in other.said
    there = {node.name: seen(node) for node in nodes}
    for what in ("devices", "queueing", "processes", "files"):
        assert any(there[name][what] != untouched[name][what] for name in untouched)  # else nothing would be shown
    assert "edge-1: what shaped eth1" in killed_and_destroyed(run)
    nothing_left_anywhere(nodes, untouched, run.run_id)


def test_a_host_that_is_gone_keeps_the_run_known_until_it_is_back(site, nodes, untouched):
    run = site.start(iterations=LONG)
    until(run, "train", nodes)
    run.process.kill()
    run.ended()
    subprocess.run(enter_network(nodes[1], ["ip", "link", "set", "eth0", "down"]), check=True)
    try:
        refused = subprocess.run([*COMMAND, "destroy", run.run_id], capture_output=True, text=True, check=False)
    finally:
        subprocess.run(enter_network(nodes[1], ["ip", "link", "set", "eth0", "up"]), check=True)
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False), refused.stderr
    *_, line = refused.stderr.splitlines()
    assert line.startswith(f"{run.run_id}: not everything could be removed: fog-1: ")
    assert line.endswith(f"; `e2c-dl destroy {run.run_id}` tries again")
    both = [subprocess.Popen([*COMMAND, "destroy", run.run_id]) for _ in range(2)]  # do not mind each other
    assert [each.wait() for each in both] == [0, 0]
    nothing_left(run.run_id)
    assert directories(nodes, run.run_id) == []
    # processes aside: a host's sshd learns only in time that a connection ended while its device was down
    assert {n.name: seen(n)["devices"] for n in nodes} == {name: its["devices"] for name, its in untouched.items()}


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


def other_key(keys, of, folder):
    """In the file ``keys``, ``of`` has another key than its own."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "other")], check=True)
    key = " ".join((folder / "other.pub").read_text().split()[:2])
    lines = [f"{of.address} {key}" if line.split()[0] == of.address else line for line in keys.read_text().splitlines()]
    keys.write_text("\n".join(lines) + "\n")


def test_a_machine_with_another_key_is_refused(site, nodes, listed, tmp_path):
    keys = listed.with_suffix(".keys")
    other_key(keys, nodes[1], tmp_path)
    run = site.start()
    assert run.ended() == 2
    assert f"hosts[1].address: root@{nodes[1].address} port 22: its host key is not the one in {keys}" in run.said
    assert not (site.folder / "a").exists()
    status, told = doctor(listed)
    assert (status, told["stops_a_run"]) == (1, [nodes[1].address])


def test_a_machine_that_nobody_knows_is_refused_unless_keys_are_not_checked(nodes, listed):
    text = listed.read_text()
    keys = json.dumps({"known_hosts": str(listed.with_suffix(".keys"))}).strip("{}")
    listed.write_text(text.replace(keys, '"host_keys": "known"'))
    status, told = doctor(listed)
    assert (status, len(told["stops_a_run"])) == (1, 3)
    assert f"`ssh-keyscan -p 22 {nodes[0].address} >> ~/.ssh/known_hosts`" in json.dumps(told["probes"])
    listed.write_text(text.replace(keys, '"host_keys": "unchecked"'))
    status, told = doctor(listed)
    assert (status, told["stops_a_run"]) == (0, [])
    assert "host key not checked" in json.dumps(told["probes"])


_ANSIBLE = """
import json, sys
from pathlib import Path

from e2c_dl.testbeds.base import Access, Told
from e2c_dl.testbeds.e2clab import upstream
from e2c_dl.topology import Host, Topology

upstream.check()
from e2c_dl.testbeds.e2clab import hosts
from e2c_dl.testbeds.machines.run import for_ansible

hosts._RETRIES = 1
access = Access(**json.loads(sys.argv[1]))
host = Host(name=access.name, layer="edge", service="Trainer", service_id="1_1_1", role="Trainer", rank=0)
variables = {access.name: for_ansible(access)}
with upstream.patched(directory=Path.cwd(), provider=None, service_dirs=[]):
    hosts.roles_and_networks(Topology(hosts=(host,)), [access], {access.name: Told()}, variables)
"""


@pytest.mark.parametrize("right", [True, False])
def test_ansible_looks_at_the_key_too(nodes, tmp_path, right):
    keys = known_hosts(nodes, tmp_path / "keys")
    if not right:
        other_key(keys, nodes[0], tmp_path)
    access = replace(nodes[0], host_keys=str(keys), through_pid=None)
    argv = [sys.executable, "-c", _ANSIBLE, json.dumps(asdict(access))]
    environ = os.environ | {"ANSIBLE_HOME": str(tmp_path), "ANSIBLE_SSH_ARGS": "-C"}  # no connection that stays
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environ, cwd=tmp_path)
    assert (done.returncode == 0) is right, done.stderr
    assert ("EnosSSHNotReady" in done.stderr) is not right
