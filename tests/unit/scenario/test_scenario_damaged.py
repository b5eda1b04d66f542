"""What is wrong with the other files, or with a file as such, is said in one line as well; nothing else is raised."""

import os
import sys
import types

import pytest
import yaml
from small_scenario import LAYERS, NETWORK, found, only, replaced, writer

from e2c_dl.errors import InputError
from e2c_dl.scenario.load import links_of_strategy, load, local_problems
from e2c_dl.scenario.training import default_training


@pytest.fixture
def write(tmp_path):
    return writer(tmp_path)


WORKFLOW_CASES = [
    ("{hosts: edge, launch: []}", "workflow.yaml:1: [0].hosts: 'edge' selects one single host"),
    ("{hosts: fgo.*, launch: []}", "'fgo.*' matches no host"),
    ("{hosts: edge.*, lauch: []}", "[0].lauch: unknown key; did you mean 'launch'?"),
    ("{hosts: edge.*, tasks: []}", "tasks of a play are replaced"),
    ("{hosts: edge.*, launch: {}}", "[0].launch: expected a list, not a mapping"),
    ("{hosts: edge.*, launch: [ls]}", "[0].launch[0]: expected a mapping, not 'ls'"),
    ("{launch: []}", "[0]: key 'hosts' is missing"),
    ("{hosts: [edge.*]}", "[0].hosts: expected text, not a list"),
    ("{hosts: edge.*, depends_on: {prefix: a}}", "depends_on: expected a list, not a mapping"),
    (
        "{hosts: edge.*, depends_on: [{service_selector: cloud.*, prefix: a, grouping: round}]}",
        "depends_on[0].grouping: 'round' is not known; did you mean 'round_robin'?",
    ),
    (
        "{hosts: edge.*, depends_on: [{service_selector: clod.*, prefix: a, grouping: asarray}]}",
        "service_selector: 'clod.*' matches no host; did you mean cloud.*?",
    ),
    ("~", "[0]: expected a mapping, not nothing"),
]


@pytest.mark.parametrize(("play", "says"), WORKFLOW_CASES)
def test_workflow(write, play, says):
    assert says in found(write(workflow=f"- {play}\n"))[0]


def test_plays_may_hold_what_ansible_knows(write):
    play = "- {hosts: edge.*, gather_facts: false, become: true, vars: {a: 1}, environment: {A: b}, launch: []}\n"
    assert found(write(workflow=play)) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1", "workflow_env.yaml:1: a: expected a mapping, not 1"),
        ("a: {b: [1]}", "a.b: expected text, a number or true or false, not a list"),
        ("- a", "expected a mapping, not a list"),
        ("a: {1: b}", "key 1 is not text"),
    ],
)
def test_workflow_env(write, text, says):
    assert says in only(write(workflow_env=text))


EMULATION_CASES = [
    ("compte: {}", "emulation.yaml:1: compte: unknown key; did you mean 'compute'?"),
    ("compute: {method: qouta}", "compute.method: 'qouta' is not known; did you mean 'quota'?"),
    ("compute: {cores: 0}", "compute.cores: 0 is out of range"),
    ("compute: {factors: {edge.*: 0.5}}", "compute.factors.'edge.*': 0.5 is out of range; write a number from 1 to"),
    ("compute: {factors: {egde.*: 2}}", "'egde.*' matches no host; did you mean edge.*?"),
    ("compute: {factors: [2]}", "compute.factors: expected a mapping, not a list"),
    ("tcp: {congestion_control: 'a b'}", "tcp.congestion_control: 'a b' is no name"),
    ("tcp: {slow_start_after_idle: 0}", "expected true or false, not 0"),
    ("injected: {compute: []}", "injected: key 'seed' is missing"),
    ("injected: {seed: -1}", "injected.seed: -1 is out of range"),
    ("injected: {seed: 1, compute: [{host: edge-9, factor: 2}]}", "'edge-9' matches no host"),
    ("injected: {seed: 1, compute: [{host: edge-1, factor: 1}]}", "above 1, at most 1000"),
    ("injected: {seed: 1, compute: [{host: edge-1, facter: 2}]}", "facter: unknown key; did you mean 'factor'?"),
    ("injected: {seed: 1, compute: [{host: edge-1, factor: 2}, {host: edge.*, factor: 3}]}", "earlier one did"),
    ("injected: {seed: 1, links: [{src: edge-1, dst: edge-2, rate_factor: .5}]}", "edge-1 -> edge-2 has no rate"),
    ("injected: {seed: 1, links: [{src: edge-1, dst: edge-1, rate_factor: .5}]}", "one and the same host"),
    ("injected: {seed: 1, links: [{src: edge-1, dst: cloud-1, rate_factor: 1}]}", "above 0 and below 1"),
    ("injected: {seed: 1, links: [{src: edge-1, dst: cloud-1, rate_factor: 1.0e-5}]}", "leaves 100bit; leave at least"),
    ("injected: {seed: 1, links: [{src: random, dst: cloud-1, rate_factor: .5}]}", "a link with one random end"),
    ("injected: {seed: 1, links: [{src: random, dst: random, rate_factor: .5}]}", "nothing is left to draw from"),
    ("- compute", "expected a mapping, not a list"),
]


@pytest.mark.parametrize(("text", "says"), EMULATION_CASES)
def test_emulation(write, text, says):
    assert says in found(write(emulation=text))[0]


FILES_CASES = [
    (b"", "the file is empty"),
    (b"# nothing\n", "the file is empty"),
    (b"networks: [", "network.yaml:1: YAML syntax error"),
    (b"networks:\n- {src: a\n- b", "YAML syntax error"),
    (b"networks: []\n---\nnetworks: []", "YAML syntax error: but found another document"),
    (b"networks: []\nnetworks: []", "network.yaml:2: key 'networks' stands twice"),
    (b"networks: &a [*a]", "an anchor contains an alias of itself"),
    (b"networks: " + b"[" * 60 + b"]" * 60, "nested more than 40 levels"),
    (b"networks: " + b"[" * 20000 + b"]" * 20000, "nested more than 40 levels"),
    (b"networks: 2001-99-99", "a value cannot be read"),
    (b"networks: 2001-01-01", "expected a list, not a date"),
    (b"networks: !!binary aGVsbG8=", "expected a list, not binary data"),
    (b"networks: !!python/object:os.system x", "YAML syntax error"),
    (b"networks: !!int ''", "a value cannot be read"),
    (b"networks: \xff\xfe", "network.yaml:1: not UTF-8 text"),
    (b"networks: \x00", "is not allowed"),
    (b"[1, 2]: 3", "a key is a list or a mapping"),
    (b"3: 4", "key 3 is not text"),
    (b"null", "expected a mapping, not nothing"),
    (b"#" * 300_000, "larger than 256 KiB"),
    (b"networks: {a: &x {<<: *x}}", "an anchor contains an alias of itself"),
]


@pytest.mark.parametrize(("raw", "says"), FILES_CASES, ids=[says for _, says in FILES_CASES])
def test_a_file_that_is_no_sound_yaml(write, raw, says):
    assert says in found(write(network=raw))[0]


def test_a_folder_without_files_names_each_that_is_missing(tmp_path):
    assert [error.split(":")[0] for error in found(tmp_path)] == [
        "layers_services.yaml", "network.yaml", "workflow.yaml",
    ]  # fmt: skip


def test_what_is_no_folder(tmp_path):
    assert "is not a folder" in only(tmp_path / "absent")


def test_a_directory_or_a_pipe_in_place_of_a_file(write):
    path = write()
    (path / "network.yaml").unlink()
    (path / "network.yaml").mkdir()
    assert "is a directory" in only(path)
    (path / "network.yaml").rmdir()
    os.mkfifo(path / "network.yaml")
    assert "is not a regular file" in only(path)


def test_a_dangling_link_is_no_missing_optional_file(write):
    path = write()
    (path / "emulation.yaml").symlink_to("nowhere")
    assert "does not exist" in only(path)


@pytest.mark.parametrize("name", ["layers_services", "network", "workflow", "workflow_env", "emulation"])
def test_a_link_out_of_the_scenario_is_not_followed(tmp_path, name):
    secret = tmp_path / "elsewhere" / "secret.yaml"
    secret.parent.mkdir()
    secret.write_text("launch: {token: 0123456789abcdef}")
    (tmp_path / "s").mkdir()
    path = writer(tmp_path / "s")()
    (path / f"{name}.yaml").unlink(missing_ok=True)
    (path / f"{name}.yaml").symlink_to("../elsewhere/secret.yaml")
    error = only(path)
    assert error.startswith(
        f"{name}.yaml: {path}/{name}.yaml is a link that leads out of the scenario, to {secret}; put"
    )


def test_links_inside_of_the_scenario_and_to_the_one_beside_it_are(tmp_path):
    for name in ("s", "beside"):
        (tmp_path / name / "fast").mkdir(parents=True)
        writer(tmp_path / name)()
    for file, target in (("network.yaml", "fast/network.yaml"), ("workflow.yaml", "../beside/workflow.yaml")):
        own = tmp_path / "s" / file
        (tmp_path / "s" / "fast" / file).write_bytes(own.read_bytes())
        own.unlink()
        own.symlink_to(target)
    assert found(tmp_path / "s") == []
    linked = tmp_path / "linked"  # the folder itself may be one
    linked.symlink_to("s")
    assert found(linked) == []


def test_all_problems_are_told_at_once(write):
    path = write(
        layers=replaced(LAYERS, "{strategy: allreduce}", "{strategy: allreduce, momentum: 2, sed: 3}"),
        network=replaced(NETWORK, "10ms, rate: 10mbit", "10, rate: 10mbps"),
        emulation="tcp: {congestion_control: 1}\ncompute: {method: x}",
    )
    assert [error.partition(": ")[0] for error in found(path)] == [
        "layers_services.yaml:6", "layers_services.yaml:6",
        "network.yaml:2", "network.yaml:2",
        "emulation.yaml:2", "emulation.yaml:1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "manager",
    [
        "monitoring: {type: dstat}",
        "monitoring: {type: tig, provider: g5k, cluster: paravance, network: private, ipv: 4}",
        "provenance: {provider: g5k, cluster: paravance, dataflow_spec: f.py}",
        "kwollect: {metrics: [all], step: launch}",
        "monitoring_iotlab: {profiles: [{name: p, archi: m3, power: true, period: 1100}]}",
    ],
)
def test_what_only_e2clab_honours_is_valid_but_not_locally(write, manager):
    path = write(layers=f"{manager}\n{LAYERS}")
    assert found(path) == []
    (problem,) = local_problems(load(path), elsewhere=False)
    name = manager.partition(":")[0]
    assert str(problem).startswith(f"layers_services.yaml:1: {name}: cannot be honoured here")
    assert problem.remedy == f"remove '{name}:', or use plain 'e2clab deploy'"


def test_a_strategy_file_must_hold_one_strategy(monkeypatch):
    monkeypatch.setitem(sys.modules, "e2c_dl.strategies.empty", types.ModuleType("e2c_dl.strategies.empty"))
    monkeypatch.setattr("e2c_dl.strategies.names", lambda: ("empty",))
    with pytest.raises(InputError, match=r"empty\.py has no Strategy whose name is 'empty'; set its class attribute"):
        links_of_strategy(default_training("empty"), ["edge", "edge"])


@pytest.mark.parametrize("play", [play for play, _ in WORKFLOW_CASES])
def test_a_workflow_that_e2clab_refuses_is_refused(write, play):
    is_valid_conf = pytest.importorskip("e2clab.schemas").is_valid_conf
    assert is_valid_conf(yaml.safe_load(f"- {play}"), "workflow") or found(write(workflow=f"- {play}"))
