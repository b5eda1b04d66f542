"""What a scenario may ask of Grid'5000: its forms, what is refused with what to write instead, what is not there."""

import json
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from grid5000_api import Platform, serving
from small_scenario import LAYERS, only, writer

from e2c_dl.cli.scenarios import check
from e2c_dl.scenario.load import load, problems
from e2c_dl.testbeds.grid5000 import account
from e2c_dl.testbeds.grid5000.asked import PARIS, read_asked
from e2c_dl.testbeds.grid5000.node import Node
from e2c_dl.testbeds.grid5000.testbed import Grid5000Testbed
from e2c_dl.testbeds.machines.run import MachinesRun


@pytest.fixture
def scenario(tmp_path):
    """Writes one whose `g5k:` says so, and whose service trains on what ``places`` says."""
    (tmp_path / "s").mkdir()
    write = writer(tmp_path / "s")

    def written(g5k="cluster: paradoxe", services=None):
        layers = LAYERS.replace("cluster: paradoxe", g5k)
        return write(layers=layers if services is None else services(layers))

    return written


@pytest.fixture
def api(tmp_path, monkeypatch):
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/id_ed25519").write_text("nobody's")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("E2CDL_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(account.socket, "getfqdn", lambda *_: "laptop.example")
    with serving(Platform()) as platform:
        platform.write_account(tmp_path / "home")
        yield platform


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("1:30:00", 'write "01:30:00", in quotes'),  # 5400 to YAML
        ("5400", 'write "01:30:00", in quotes'),
        ("'1:30:00'", 'write "01:30:00", in quotes'),
        ("90 min", 'write "01:30:00", in quotes'),
        ("1.5h", 'write "01:30:00", in quotes'),
        ("'1:30'", 'write "01:30:00", in quotes'),  # as OAR reads it
        ("1-00:00:00", "share the work among several runs"),
        ("25:00:00", "share the work among several runs"),
        ("'25:00'", "share the work among several runs"),
        ("'24:00:00'", "share the work among several runs"),
        ("200h", "share the work among several runs"),
        ("0", 'write it as "hh:mm:ss"'),
        ("'00:00:00'", 'write it as "hh:mm:ss"'),
        ("-5", 'write it as "hh:mm:ss"'),
        ("'-01:00:00'", 'write it as "hh:mm:ss"'),
        ("'01:60:00'", 'write it as "hh:mm:ss"'),
        ("soon", 'write it as "hh:mm:ss"'),
    ],
)
def test_a_walltime_in_another_form_is_refused_with_what_to_write(scenario, said, instead):
    problem = only(scenario(f"cluster: paradoxe, walltime: {said}"))
    assert "g5k.walltime: " in problem and instead in problem


@pytest.mark.parametrize("said", ["02:30:00", "'23:59:59'", "'00:00:01'"])
def test_a_walltime_that_e2clab_can_ask_for(scenario, said):
    assert problems(scenario(f"cluster: paradoxe, walltime: {said}")) == ()


@pytest.mark.parametrize(
    ("g5k", "instead"),
    [
        ("cluster: a, reservation: 2031-01-01 10:00:00", 'write it as "YYYY-mm-dd HH:MM:SS", in quotes'),
        ("cluster: a, reservation: '2031-02-30 10:00:00'", 'write it as "YYYY-mm-dd HH:MM:SS", in quotes'),
        ("cluster: a, reservation: '2031-1-1 10:00:00'", 'write it as "YYYY-mm-dd HH:MM:SS", in quotes'),
        ("cluster: a, reservation: tomorrow", 'write it as "YYYY-mm-dd HH:MM:SS", in quotes'),
        ("cluster: a, env_name: debian12-min", "write job_type: [deploy]"),
        ("cluster: a, job_type: deploy", "write '- ' lines under it"),
        ("cluster: a, queue: admin", "write one of default, production, besteffort, testing"),
        ("clustr: a", "did you mean 'cluster'?"),
    ],
)
def test_what_e2clab_or_enoslib_would_stumble_over_is_refused_beforehand(scenario, g5k, instead):
    assert instead in only(scenario(g5k))


@pytest.mark.parametrize("name", ["paradoxe-3", "paradoxe-3.rennes", "paradoxe.rennes.grid5000.fr"])
def test_a_server_needs_its_whole_name(scenario, name):
    problem = only(scenario(services=lambda text: text.replace("quantity: 2", f"servers: [{name}]", 1)))
    assert "is no node's whole name" in problem and "paradoxe-3.rennes.grid5000.fr" in problem


@pytest.mark.parametrize(
    ("g5k", "services", "said"),
    [
        ("cluster: nowhere", None, "no site of Grid'5000 has a cluster nowhere; correct cluster: or servers:"),
        (
            "cluster: paradoxe", lambda text: text.replace("quantity: 2", "quantity: 20"),
            "22 nodes of paradoxe are asked for, which has 3; ask for fewer, or another cluster",
        ),
        (
            "cluster: paradoxe",
            lambda text: text.replace("quantity: 2", "servers: [chifflot-9.lille.grid5000.fr]", 1),
            "chifflot-9.lille.grid5000.fr: chifflot has no such node; correct servers:",
        ),
        ("cluster: paradoxe, job_type: [deploy]", None, "add env_name, such as debian12-min, or write job_type: []"),
        ("cluster: paradoxe, reservation: '2020-01-01 10:00:00'", None, "is past (time of Paris)"),
    ],
)  # fmt: skip
def test_check_refuses_what_grid5000_will_not_give_and_prints_it_all_the_same(api, scenario, g5k, services, said):
    folder = scenario(g5k, services)
    told = CliRunner().invoke(check, [str(folder), "--on", "g5k"])
    assert told.exit_code == 2 and said in told.output, told.output
    assert "node-hours at most" in told.output and ",walltime=" in told.output
    as_json = json.loads(CliRunner().invoke(check, [str(folder), "--on", "g5k", "--json"]).output)
    assert as_json["valid"] is False and said in " ".join(as_json["problems"])
    assert said in " ".join(Grid5000Testbed(1).preflight(load(folder)))  # deploy refuses it by the same words
    assert api.asked("POST") == []


def test_nodes_reserved_for_later_are_waited_for_from_then_on(api, scenario):
    later = datetime.fromtimestamp(time.time() + 7200, ZoneInfo(PARIS))
    folder = scenario(f"cluster: paradoxe, reservation: '{later:%Y-%m-%d %H:%M:%S}'")
    assert f"from {later:%Y-%m-%d %H:%M:%S} on, time of Paris" in read_asked(folder).described({})[0]
    run = Grid5000Testbed(600).claim(load(folder))
    try:
        assert 7200 < run.waits_s <= 7800
    finally:
        run.release()


@pytest.mark.parametrize(("cards", "slots"), [(0, 1), (1, 1), (4, 4)])
def test_a_host_has_a_slot_for_each_gpu_and_at_least_one(api, scenario, monkeypatch, cards, slots):
    run = Grid5000Testbed(1).claim(load(scenario()))
    try:
        run._nodes = {"edge-1": Node(address="chifflot-1.lille.grid5000.fr", device="eth0", data_address="192.0.2.1")}
        monkeypatch.setattr(MachinesRun, "host_facts", lambda _: ({"name": "edge-1", "gpus": [{}] * cards},))
        (row,) = run.host_facts()
        assert (row["slots"], row["node"]) == (slots, "chifflot-1.lille.grid5000.fr")
    finally:
        run.release()
