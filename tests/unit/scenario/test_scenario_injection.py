"""Injected departures: placed by a seed, never two on one element; and copies of a scenario with others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.scenario.folder.copies import overridden
from e2c_dl.scenario.load import load

LAYERS = """\
environment: {g5k: {cluster: c}}
layers:
- {name: a, services: [{name: Trainer, quantity: 4, env: {strategy: s}}, {name: Default}]}
"""
NETWORK = "networks: [{src: a.trainer.*, dst: a.trainer.*, delay: 1ms, rate: 10mbit}]\n"
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
RING_NAMES = [("a-1", "a-2"), ("a-2", "a-3"), ("a-3", "a-4"), ("a-4", "a-1")]
DRAWN = """\
injected:
  seed: 1
  compute: [{host: random, factor: 3}]
  links: [{src: random, dst: random, rate_factor: 0.2}]
"""


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "scenario"
    path.mkdir()
    (path / "layers_services.yaml").write_text(LAYERS)
    (path / "network.yaml").write_text(NETWORK)
    (path / "workflow.yaml").write_text("- {hosts: a.*}\n")
    (path / "emulation.yaml").write_text(DRAWN)
    return path


def injected(path, links=RING):
    services = frozenset({"Trainer", "Default"})
    return load(path, services, strategies=frozenset({"s"}), used_links=lambda name, size: links).injected


def place(path, text):
    (path / "emulation.yaml").write_text(f"injected: {text}")
    return injected(path)


def test_random_ones_land_on_ranks_and_on_used_links(folder):
    hosts, links = set(), set()
    for seed in range(60):
        placed = place(folder, DRAWN.partition(":")[2].replace("seed: 1", f"seed: {seed}"))
        assert placed.seed == seed
        (host,), (pair,) = placed.compute, placed.links
        hosts.add(host)
        links.add(pair)
    assert hosts == {"a-1", "a-2", "a-3", "a-4"}  # never a-5, which does not train
    assert links == set(RING_NAMES)


def test_no_two_land_on_one_element(folder):
    lines = ", ".join("{host: random, factor: 2}" for _ in range(3))
    for seed in range(20):
        placed = place(folder, f"{{seed: {seed}, compute: [{lines}, {{host: a-2, factor: 5}}]}}")
        assert dict(sorted(placed.compute.items())) == {"a-1": 2, "a-2": 5, "a-3": 2, "a-4": 2}


def test_more_random_ones_than_elements_are_refused(folder):
    lines = ", ".join("{host: random, factor: 2}" for _ in range(5))
    with pytest.raises(ScenarioError, match="nothing is left to draw from"):
        place(folder, f"{{seed: 1, compute: [{lines}]}}")


def test_a_line_behind_does_not_move_those_before(folder):
    one = place(folder, "{seed: 7, compute: [{host: random, factor: 2}]}").compute
    two = place(folder, "{seed: 7, compute: [{host: random, factor: 2}, {host: random, factor: 3}]}").compute
    assert one.items() <= two.items()


def test_a_pattern_slows_every_host_and_link_that_it_selects(folder):
    placed = place(folder, "{seed: 0, compute: [{host: '*.trainer.*', factor: 2}], "
                           "links: [{src: a-1, dst: a.trainer.*, rate_factor: .5}]}")  # fmt: skip
    assert set(placed.compute) == {"a-1", "a-2", "a-3", "a-4"}
    assert set(placed.links) == {("a-1", "a-2"), ("a-1", "a-3"), ("a-1", "a-4")}


def test_links_without_a_designed_rate_are_not_drawn(folder):
    (folder / "network.yaml").write_text(
        "networks: [{src: a.trainer.1.2, dst: a.trainer.1.3, delay: 1ms, rate: 10mbit}]"
    )
    for seed in range(10):
        text = f"{{seed: {seed}, links: [{{src: random, dst: random, rate_factor: .5}}]}}"
        assert set(place(folder, text).links) == {("a-2", "a-3")}


def test_the_draw_is_the_same_whatever_the_hash_seed(folder):
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\n"
        "from e2c_dl.scenario.load import load\n"
        "i = load(Path(sys.argv[1]), frozenset({'Trainer', 'Default'}), strategies=frozenset({'s'}),\n"
        f"         used_links=lambda *_: {RING}).injected\n"
        "print(sorted(i.compute.items()), sorted(i.links.items()))\n"
    )
    root = str(Path(__file__).parents[3])
    said = {
        subprocess.run(
            [sys.executable, "-c", code, str(folder), root],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    placed = injected(folder)
    assert said == {f"{sorted(placed.compute.items())} {sorted(placed.links.items())}\n"}


def test_a_plain_copy_is_the_scenario(folder, tmp_path):
    (folder / "notes.yaml").write_text("a: 1")
    (folder / "README.md").write_text("left behind")
    (folder / "big.yaml").write_text("#" * 300_000)
    (folder / "link.yaml").symlink_to(folder / "notes.yaml")
    (folder / "deep.yaml").mkdir()
    overridden(folder, tmp_path / "new" / "copy")
    copied = {file.name: file.read_text() for file in (tmp_path / "new" / "copy").iterdir()}
    names = ("layers_services.yaml", "network.yaml", "workflow.yaml", "emulation.yaml", "notes.yaml")
    assert copied == {name: (folder / name).read_text() for name in names}


@pytest.mark.parametrize("options", [{}, {"seed": 5}, {"healthy": True}])
def test_who_may_not_read_the_scenario_may_not_read_its_copy(folder, tmp_path, options):
    (folder / "emulation.yaml").write_text(DRAWN)
    (folder / "workflow_env.yaml").write_text("launch: {token: 0123456789abcdef}")
    (folder / "traces").mkdir()
    (folder / "traces" / "lte").write_text("1")
    closed = ("emulation.yaml", "workflow_env.yaml", "traces/lte")
    for name in closed:
        (folder / name).chmod(0o440)
    before = os.umask(0)
    try:
        overridden(folder, tmp_path / "copy", **options)
    finally:
        os.umask(before)
    assert [(tmp_path / "copy" / name).stat().st_mode & 0o777 for name in closed] == [0o640] * 3


def test_a_copy_follows_no_link_out_of_the_scenario(folder, tmp_path):
    (tmp_path / "secret").write_text("launch: {token: 0123456789abcdef}")
    (folder / "workflow_env.yaml").symlink_to(tmp_path / "secret")
    with pytest.raises(ScenarioError, match=r"workflow_env.yaml is a link that leads out of the scenario"):
        overridden(folder, tmp_path / "copy")
    assert not (tmp_path / "copy" / "workflow_env.yaml").exists()


def test_a_seed_replaces_the_injected_one_and_nothing_else(folder, tmp_path):
    (folder / "emulation.yaml").write_text(f"tcp: {{congestion_control: reno}}\n{DRAWN}")
    overridden(folder, tmp_path / "copy", seed=5)
    text = (tmp_path / "copy" / "emulation.yaml").read_text()
    assert text.startswith("# Written by e2c-dl from the scenario's emulation.yaml: seed 5")
    expected = yaml.safe_load((folder / "emulation.yaml").read_text())
    expected["injected"]["seed"] = 5
    assert yaml.safe_load(text) == expected
    assert injected(tmp_path / "copy") == place(folder, DRAWN.partition(":")[2].replace("seed: 1", "seed: 5"))


def test_healthy_takes_out_what_is_injected(folder, tmp_path):
    (folder / "emulation.yaml").write_text(f"tcp: {{congestion_control: reno}}\n{DRAWN}")
    overridden(folder, tmp_path / "copy", healthy=True)
    text = (tmp_path / "copy" / "emulation.yaml").read_text()
    assert yaml.safe_load(text) == {"tcp": {"congestion_control": "reno"}}
    assert not injected(tmp_path / "copy").compute


@pytest.mark.parametrize("text", [DRAWN, "injected: {seed: 1}", "tcp: {}", None])
def test_healthy_copies_are_valid(folder, tmp_path, text):
    (folder / "emulation.yaml").unlink() if text is None else (folder / "emulation.yaml").write_text(text)
    overridden(folder, tmp_path / "copy", healthy=True)
    placed = injected(tmp_path / "copy")
    assert (placed.compute, placed.links) == ({}, {})


@pytest.mark.parametrize("text", ["tcp: {}", "- a", "injected: 3"])
def test_a_seed_with_nothing_to_place_is_refused(folder, tmp_path, text):
    (folder / "emulation.yaml").write_text(text)
    with pytest.raises(ScenarioError, match="emulation"):
        overridden(folder, tmp_path / "copy", seed=5)
    assert not (tmp_path / "copy").exists()


def test_copies_go_to_an_empty_folder_only(folder, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "file").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        overridden(folder, tmp_path / "copy")
    with pytest.raises(InputError, match="cannot be copied"):
        overridden(folder, tmp_path / "copy" / "file" / "under")
    with pytest.raises(InputError, match="one of the two"):
        overridden(folder, tmp_path / "other", seed=1, healthy=True)
