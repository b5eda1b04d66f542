"""What is asked of Grid'5000, by whom, and what is made of its answers; loopback, without any host."""

import os
import shlex
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from grid5000_api import NONSENSE, WATTS, Platform, serving

from e2c_dl.cli.scenarios import check
from e2c_dl.errors import InputError, TestbedError
from e2c_dl.scenario.load import load, problems
from e2c_dl.testbeds import host_keys
from e2c_dl.testbeds.e2clab import reservation
from e2c_dl.testbeds.e2clab.reservation import deployed
from e2c_dl.testbeds.grid5000 import account, energy
from e2c_dl.testbeds.grid5000.api import Api
from e2c_dl.testbeds.grid5000.asked import read_asked
from e2c_dl.testbeds.grid5000.node import Node
from e2c_dl.testbeds.grid5000.watch import JobWatch

LAYERS = """\
environment:
  job_name: many
  walltime: "02:30:00"
  g5k: {cluster: paradoxe, queue: production, project: lab, job_type: [deploy], env_name: debian12-min}
monitoring: {type: tig, provider: g5k, cluster: parasilo}
layers:
- name: edge
  services:
  - {name: Trainer, quantity: 2, repeat: 1, env: &t {strategy: allreduce, iterations: 2}}
- name: cloud
  services:
  - {name: Trainer, servers: [chifflot-7.lille.grid5000.fr, chifflot-8.lille.grid5000.fr], env: *t}
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519").write_text("nobody's")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(account.socket, "getfqdn", lambda *_: "laptop.example")
    return tmp_path


@pytest.fixture
def api(home):
    with serving(Platform()) as platform:
        platform.write_account(home, timeout=30)
        yield platform


@pytest.fixture
def many(tmp_path, repository):
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / "layers_services.yaml").write_text(LAYERS)
    (folder / "network.yaml").write_text("networks: []\n")
    (folder / "workflow.yaml").write_text((repository / "experiments/first-light/workflow.yaml").read_text())
    return folder


def test_what_is_reserved_is_what_e2clab_and_enoslib_ask_for(many):
    assert problems(many) == ()
    asked = read_asked(many)
    assert asked.cost() == "7 nodes x 2.5 h = 17.5 node-hours at most"
    sites = {"paradoxe": "rennes", "parasilo": "rennes", "chifflot": "lille"}
    assert asked.requests(sites) == {
        "rennes": "{cluster='parasilo'}/nodes=1+{cluster='paradoxe'}/nodes=2+{cluster='paradoxe'}/nodes=2"
        ",walltime=02:30:00",
        "lille": "{network_address in ('chifflot-7.lille.grid5000.fr', 'chifflot-8.lille.grid5000.fr')}/nodes=2"
        ",walltime=02:30:00",
    }
    first, *_ = asked.described(sites)
    assert "(job many, queue production, type deploy, project lab, environment debian12-min)" in first


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "not there; write your Grid'5000 account into it"),
        ("[1, 2]", "no mapping"),
        ("username: {", ".python-grid5000.yaml"),
        ("username: me", "password: missing"),
        ("username: 7\npassword: x", "username: missing, or not text"),
        ("{username: me, password: x, timeout: soon}", "timeout: 'soon' is no number"),
    ],
)
def test_an_account_that_cannot_be_read_is_refused_rather_than_nobodys(home, text, said):
    if text is not None:
        (home / account.FILE).write_text(text)
    with pytest.raises(InputError) as caught:
        account.load(home)
    assert said in str(caught.value)


def test_front_ends_need_no_password_and_no_way_through_the_gate(home, monkeypatch):
    monkeypatch.setattr(account.socket, "getfqdn", lambda *_: "fe.rennes.grid5000.fr")
    found = account.load(home)
    assert (found.inside, found.jump, found.password, found.settings["timeout"]) == (True, None, b"", 30.0)


def test_keys_that_are_missing_are_told_beforehand(home, api):
    with pytest.raises(InputError, match=r"id_rsa\.pub: not there, and E2Clab hands it to the nodes"):
        account.load(home, deploys=True)
    (home / ".ssh/id_ed25519").unlink()
    with pytest.raises(InputError, match="no private key"):
        account.load(home)


def test_from_outside_ssh_and_ansible_go_through_the_gate(home, api):
    found = account.load(home)
    assert found.jump == "root@access.grid5000.fr"
    *_, way = host_keys.ssh_options(host_keys.UNCHECKED, found.jump, found.key)
    assert way.startswith("ProxyCommand=ssh ") and way.endswith(" -W [%h]:%p root@access.grid5000.fr")
    assert f"-i {found.key}" in way and "StrictHostKeyChecking=accept-new" in way
    common = host_keys.ansible_variables(host_keys.UNCHECKED, found.jump, found.key)["ansible_ssh_common_args"]
    assert shlex.split(common)[-1] == way
    assert "ProxyCommand" not in " ".join(host_keys.ssh_options(host_keys.UNCHECKED))


def test_check_says_what_would_be_reserved_before_anything_is(api, repository):
    api.addresses = [f"192.0.2.{number}" for number in range(1, 7)]
    api.gpus, group = 2, "{cluster='paradoxe'}/nodes=2"
    told = CliRunner().invoke(check, [str(repository / "experiments/first-light"), "--on", "g5k"])
    assert told.exit_code == 0, told.output
    for line in (
        "g5k: 6 nodes x 0.5 h = 3 node-hours at most (job first-light, queue default)",
        f"g5k: at rennes: {group}+{group}+{group},walltime=00:30:00",
        "g5k: paradoxe: 6 nodes at rennes, 2 GPUs each, power is measured",
    ):
        assert line in told.output.splitlines()
    assert api.asked("POST") == []


def test_check_says_what_it_could_not_look_up(home, repository):
    told = CliRunner().invoke(check, [str(repository / "experiments/first-light"), "--on", "g5k"])
    assert told.exit_code == 0, told.output
    assert "g5k: at a site that is not known: {cluster='paradoxe'}/nodes=2+" in told.output
    assert "g5k: not looked up: at which sites its clusters are" in told.output


def test_more_nodes_than_a_cluster_has_and_clusters_that_are_nowhere_are_told_beforehand(api, many, repository):
    from e2c_dl.testbeds.grid5000.testbed import Grid5000Testbed

    (problem,) = Grid5000Testbed(1).preflight(load(repository / "experiments/first-light"))
    assert problem == "6 nodes of paradoxe are asked for, which has 3; ask for fewer, or another cluster"
    (account.Path.home() / ".ssh/id_rsa").touch()
    (account.Path.home() / ".ssh/id_rsa.pub").touch()
    problem, *_ = Grid5000Testbed(1).preflight(load(many))
    assert problem == "no site of Grid'5000 has a cluster parasilo; correct cluster: or servers:"


def test_nodes_that_were_deployed_are_neither_lost_nor_deployed_again(api, home):
    import grid5000

    client = grid5000.Grid5000(**account.load(home).settings)
    network = SimpleNamespace(vlan_id="DEFAULT")
    hosts = [
        SimpleNamespace(fqdn=api.node("chifflot", n), _where=("lille", "", ""), primary_network=network)
        for n in (1, 2, 3)
    ]
    api.refused, told = [{"chifflot-2"}], []
    assert deployed(hosts, {"environment": "debian12-min", "key": "k"}, client, told.append) == []
    assert told == ["deployment 1 of 3 failed on chifflot-2.lille.grid5000.fr"]
    first, second = api.asked("POST", "/deployments")
    assert (len(first["nodes"]), second["nodes"]) == (3, [hosts[1].fqdn])
    assert "vlan" not in first


def test_a_job_that_is_over_takes_its_hosts_and_an_api_that_is_silent_does_not(api, home):
    api.states = ["running"]
    client = Api(account.load(home))
    asked = {"name": "n", "types": [], "queue": "default", "resources": "{cluster='chifflot'}/nodes=1,walltime=1"}
    api.post(["sites", "lille", "jobs"], asked)
    watch = JobWatch(client, [("lille", 1000)], "01:00:00")
    watch.look()
    assert watch.ended == {}
    api.broken = {"GET /sites/lille/jobs": NONSENSE}
    watch.look()
    assert watch.ended == {}
    api.broken = {}
    api.end_jobs()
    watch.look()
    assert "job 1000 at lille is over (terminated): the walltime of 01:00:00" in watch.ended["lille"].reason


@pytest.mark.parametrize(("left_s", "closing"), [(1700, False), (200, False), (170, True), (-5, True)])
def test_training_ends_while_there_is_time_to_fetch_what_it_traced(api, home, left_s, closing):
    api.states, api.started_at = ["running"], time.time() - 1800 + left_s
    asked = {"name": "n", "types": [], "queue": "default", "resources": "{cluster='chifflot'}/nodes=1,walltime=1"}
    api.post(["sites", "lille", "jobs"], asked)
    watch = JobWatch(Api(account.load(home)), [("lille", 1000)], "00:30:00")
    watch.look()
    assert (watch.closing is not None) is closing
    assert watch.closing is None or "at its walltime: training was stopped while what it traced can" in watch.closing


def test_energy_is_what_wattmetres_measured(api, home):
    client = Api(account.load(home))
    nodes = {"edge-1": Node(address=api.node("chifflot", 2), device="eth0", data_address="192.0.2.2")}
    found = energy.measured(client, nodes, 1_700_000_000.0, 1_700_000_060.0)
    assert found is not None
    assert found["hosts"] == {"edge-1": {"samples": [(1.7e9, WATTS), (1.7e9 + 60, WATTS)], "joules": 60 * WATTS}}
    api.metrics = ()
    assert energy.measured(client, nodes, 0.0, 60.0) is None
    api.metrics, api.broken = (energy.METRIC,), {"GET /sites/lille/metrics": 404}
    with pytest.raises(TestbedError, match="asking what lille measured"):
        energy.measured(client, nodes, 0.0, 60.0)


def test_what_is_asked_beforehand_does_without_e2clab_and_enoslib(home, repository):
    """Neither waits for their imports, nor breaks where they are not installed."""
    (home / account.FILE).write_text("{username: me, password: x}")
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('enoslib', 'grid5000')))\n"  # importing them raises ImportError
        "from e2c_dl.cli.main import main\n"
        "main()\n"
    )
    argv = [sys.executable, "-c", program, "check", str(repository / "experiments/first-light"), "--on", "g5k"]
    told = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert "python-grid5000 is not installed; pip install 'e2c_dl[deploy]'" in told.stdout


def test_what_ansible_leaves_while_nodes_are_reserved_is_the_runs(home, api, many, monkeypatch):
    seen = {}

    def stopped(wish):
        seen.update(os.environ)
        raise TestbedError("enough")

    monkeypatch.setattr(reservation, "_initialized", stopped)
    wish = reservation.Wish(
        scenario=many, job_name="n", project=None, wait_s=1, tell=lambda _: None, reserved=lambda _: None
    )
    with pytest.raises(TestbedError, match="enough"):
        reservation.reserve(wish, account.load(home), load(many).topology, home)
    assert {seen[name] for name in ("ANSIBLE_SSH_CONTROL_PATH_DIR", "ANSIBLE_LOCAL_TEMP")} == {
        f"{home}/ssh", f"{home}/ansible",
    }  # fmt: skip
