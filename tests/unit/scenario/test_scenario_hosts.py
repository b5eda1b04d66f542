"""Hosts, ranks, patterns and links, also against what E2Clab itself makes of the same files."""

from collections import Counter

import pytest
import yaml

from e2c_dl.errors import ScenarioError
from e2c_dl.scenario.documents.document import read
from e2c_dl.scenario.documents.field import Field, Findings
from e2c_dl.scenario.documents.patterns import select
from e2c_dl.scenario.layers import read_layers
from e2c_dl.scenario.load import load

LAYERS = """\
environment: {g5k: {cluster: c}}
layers:
- name: edge
  services:
  - {name: Trainer, quantity: 2, repeat: 2, env: &t {strategy: s, batch_size: 8}}
  - {name: Default, quantity: 1, repeat: 1}
- name: fog-x
  services:
  - {name: Default}
  - name: Trainer
    servers: [c-1.lyon.grid5000.fr, c-2.lyon.grid5000.fr, c-3.lyon.grid5000.fr]
    env: {<<: *t, batch_size: 4}
"""
ROLES = {
    "edge.trainer.1.1": 0, "edge.trainer.1.2": 1,
    "edge.default.2.1": None,
    "edge.trainer.3.1": 2, "edge.trainer.3.2": 3,
    "edge.trainer.4.1": 4, "edge.trainer.4.2": 5,
    "edge.default.5.1": None,
    "fog-x.default.1.1": None,
    "fog-x.trainer.2.1": 6, "fog-x.trainer.2.2": 7, "fog-x.trainer.2.3": 8,
}  # fmt: skip


@pytest.fixture
def layers(tmp_path):
    (tmp_path / "layers_services.yaml").write_text(LAYERS)
    found = Findings()
    layers = read_layers(read(tmp_path / "layers_services.yaml"), frozenset({"Trainer", "Default"}), found)
    assert found.errors == []
    return layers


def scenario(tmp_path, network="networks:", emulation=None):
    (tmp_path / "layers_services.yaml").write_text(LAYERS)
    (tmp_path / "network.yaml").write_text(network)
    (tmp_path / "workflow.yaml").write_text("- {hosts: '*'}\n")
    if emulation is not None:
        (tmp_path / "emulation.yaml").write_text(emulation)
    return load(tmp_path, frozenset({"Trainer", "Default"}), strategies=frozenset({"s"}))


def selected(pattern, hosts, tmp_path):
    (tmp_path / "pattern.yaml").write_text("x")
    field = Field(document=read(tmp_path / "pattern.yaml"), value=pattern)
    return {host.role for host in select(field, hosts)}


def test_copies_stand_behind_and_ranks_follow_the_numbers(layers):
    assert {host.role: host.rank for host in layers.hosts} == ROLES
    assert [host.rank for host in layers.hosts] == [*range(9), None, None, None]
    assert {host.name for host in layers.hosts if host.layer == "edge"} == {f"edge-{n}" for n in range(1, 9)}
    assert [host.name for host in layers.hosts if host.rank in (2, 8)] == ["edge-4", "fog-x-4"]


def test_batch_sizes_may_differ_between_services(tmp_path):
    assert scenario(tmp_path).training.batch_sizes == (8,) * 6 + (4,) * 3


def test_ranks_are_in_the_order_of_numbers_not_of_text(tmp_path):
    many = "".join("  - {name: Trainer, quantity: 11, env: {strategy: s}}\n" for _ in range(11))
    (tmp_path / "layers_services.yaml").write_text(
        f"environment: {{g5k: {{cluster: c}}}}\nlayers:\n- name: a\n  services:\n{many}"
    )
    layers = read_layers(read(tmp_path / "layers_services.yaml"), frozenset({"Trainer"}), Findings())
    numbers = [tuple(map(int, host.service_id.split("_"))) for host in layers.hosts]
    assert numbers == sorted(numbers)
    assert len(numbers) == 121


def test_the_numbers_are_those_of_e2clab(layers):
    configuration = pytest.importorskip("e2clab.config").InfrastructureConfig(yaml.safe_load(LAYERS))
    quantities = {s["_id"]: s.get("quantity", len(s.get("servers", [1]))) for s in configuration.iterate_services()}
    assert Counter(host.service_id.rpartition("_")[0] for host in layers.hosts) == quantities


PATTERNS = [
    "edge.*",
    "EDGE.Trainer.*",
    "*.trainer.*",
    "*.default.*:fog-x.*",
    "edge.trainer.1.1,edge.trainer.3.?",
    "*.*:!edge.*",
    "edge.*:&*.default.*",
    "edge.*:fog-x.*:!*.default.*",
    "all",
    "*",
    "&*.default.*",
    "fog-x.trainer.2.3",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_selects_what_e2clab_selects(layers, pattern, tmp_path):
    resolve = pytest.importorskip("e2clab.utils").get_hosts_from_pattern
    en = pytest.importorskip("enoslib")
    roles = en.Roles({})
    for number, host in enumerate(layers.hosts):
        machine = en.Host(f"10.0.0.{number + 1}", alias=host.role)
        # As E2Clab's provider gives them, and then the service.
        for role in (host.service, host.service_id.rpartition("_")[0], host.layer, "g5k", host.role):
            roles[role] = [*roles.get(role, []), machine]
    theirs = {host.alias for host in resolve(roles, pattern)}
    assert selected(pattern, layers.hosts, tmp_path) == theirs
    assert theirs


@pytest.mark.parametrize("pattern", ["edge", "trainer", "*1", "1_1", "all:!edge.*", "!edge.*", "~edge", "", ":", "g5k"])
def test_what_e2clab_would_read_otherwise_is_refused(layers, pattern, tmp_path):
    with pytest.raises(ScenarioError):
        selected(pattern, layers.hosts, tmp_path)


def test_the_last_rule_of_a_pair_holds_as_a_whole(tmp_path):
    links = scenario(
        tmp_path,
        "networks:\n"
        "- {src: '*', dst: '*', delay: 1ms, rate: 1gbit, loss: 1%}\n"
        "- {src: edge.*, dst: fog-x.*, delay: 5ms, rate: 10mbit, symmetric: true}\n"
        "- {src: fog-x.trainer.2.1, dst: edge.trainer.1.1, delay: 7ms, rate: 20mbit}\n",
    ).topology.links
    assert len(links) == 12 * 11
    assert all(src != dst for src, dst in links)
    assert (links["edge-1", "edge-2"].rate_bps, links["edge-1", "edge-2"].loss) == (1e9, 0.01)
    assert (links["edge-1", "fog-x-2"].delay_s, links["edge-1", "fog-x-2"].loss) == (0.005, 0.0)
    assert links["fog-x-2", "edge-1"].rate_bps == 20e6
    assert links["fog-x-2", "edge-2"].rate_bps == 10e6


def test_without_rules_nothing_is_shaped(tmp_path):
    assert scenario(tmp_path).topology.links == {}


def test_of_compute_factors_the_last_that_matches_holds(tmp_path):
    compute = scenario(tmp_path, emulation="compute: {method: sleep, cores: .5, factors: {'*': 2, edge.*: 3}}").compute
    assert (compute.method, compute.cores) == ("sleep", 0.5)
    assert (compute.factor("edge-1"), compute.factor("fog-x-1")) == (3, 2)


def test_without_emulation_nothing_is_slowed(tmp_path):
    plain = scenario(tmp_path)
    assert (plain.compute.factors, plain.injected.compute, plain.injected.links) == ({}, {}, {})
    assert plain.tcp.congestion_control == "cubic"
    assert not plain.tcp.slow_start_after_idle
