"""``e2c-dl whatif`` beside re-runs: of what changes by design later, of links that lose segments, of shared lines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import said
from simulated_scenario import PARAMETERS, scenario, simulated

from e2c_dl import strategies
from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.campaign.predicting.advice.ground import of_archive
from e2c_dl.diagnosis.diagnose import read_report
from e2c_dl.diagnosis.resimulation.world import MeasuredWorld
from e2c_dl.errors import InputError
from e2c_dl.scenario.fewer_ranks import training_without
from e2c_dl.scenario.load import load
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes

PROFILE = ComputeProfile(
    model="cnn", dtype="float32", parameters=PARAMETERS, buckets=((0, PARAMETERS),),
    gradients={16: GradientTimes(data_s=0.001, forward_s=0.02, backward_s=(0.04,))}, step_s=0.0002, evaluate_s=0.01,
)  # fmt: skip
SLEEP = {"compute": {"method": "sleep", "cores": 1.0}}
UPLINK = {"name": "uplink", "links": [{"src": "edge.*", "dst": "cloud.*"}]}
LATER_S = 4  # after the run, and before the end of one with slower hosts
SERVER = {"strategy": "parameterserver", "strategy_settings": {"server": 2}}
LINK = {"src": "cloud-1", "dst": "edge-1", "rate": {"steps": {"0s": "50mbit", f"{LATER_S}s": "2mbit"}}}
HOST = {"host": "cloud-1", "factor": {"steps": {"0s": 1, f"{LATER_S}s": 8}}}
SHARED = {"name": "uplink", "rate": {"steps": {"0s": "40mbit", f"{LATER_S}s": "2mbit"}}}


def ran(path: Path, emulation: dict[str, Any] | None = None, network: dict[str, Any] | None = None, **env: Any) -> Path:
    folder = path / "scenario"
    scenario(folder, emulation=SLEEP | (emulation or {}), profile=PROFILE.to_json(), **{"iterations": 8, **env})
    if network is not None:
        every = {"src": "*.*", "dst": "*.*", "rate": "50mbit", "delay": "5ms"}
        (folder / "network.yaml").write_text(json.dumps({"networks": [every, network]}))
    return simulated(folder, shapes_only=True).path


def answered(path: Path, *argv: str) -> dict[str, Any]:
    told = said("whatif", path, *argv, "--rerun", "--archive", str(path.parent / "again"), "--json")
    assert told.code == 0, told.err
    found: dict[str, Any] = json.loads(told.out)
    return found


@pytest.mark.parametrize(
    ("emulation", "training"),
    [
        ({"schedules": {"links": [LINK]}}, {}),
        pytest.param({"schedules": {"compute": [HOST]}}, {}, marks=pytest.mark.thorough),
        ({"bottlenecks": [{**UPLINK, "rate": "40mbit"}], "schedules": {"bottlenecks": [SHARED]}}, SERVER),
    ],
    ids=["link", "host", "bottleneck"],
)
def test_what_changes_by_design_after_the_run_does_so_in_one_that_takes_longer(
    tmp_path: Path, emulation: dict[str, Any], training: dict[str, Any]
) -> None:
    found = answered(ran(tmp_path, emulation, **training), "--set", "layer:edge.speed=0.1x")
    assert found["measured_s"] < LATER_S < 0.8 * found["rerun"]["run_s"]
    assert found["rerun"]["error"] == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(["--set", "link:edge->cloud.rate=2x"], marks=pytest.mark.thorough),
        ["--set", "link:edge->cloud.delay=40ms"],  # and the way back is as it was
        ["--without", "edge-2"],  # edge-1 -> cloud-1 carried nothing in the run, and loses as many
    ],
)
def test_where_segments_are_lost_by_design_luck_is_simulated_too(tmp_path: Path, change: list[str]) -> None:
    lossy = {"src": "edge.*", "dst": "cloud.*", "rate": "20mbit", "delay": "15ms", "loss": "1%", "symmetric": True}
    found = answered(ran(tmp_path, network=lossy), *change)
    assert found["method"] == "re-simulation"
    assert found["rerun"]["error"] == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize(
    "fault",
    [
        {"cut": [{"src": "edge-1", "dst": "cloud-1"}], "at": "1s", "for": "3s"},
        {"pause": "cloud-1", "at": "1s", "for": "2s"},
    ],
    ids=["cut", "pause"],
)
@pytest.mark.parametrize("change", ["rate=0.3x", "rate=3x"])
def test_a_stall_of_a_link_is_as_long_at_another_rate(tmp_path: Path, fault: dict[str, Any], change: str) -> None:
    archive = ran(tmp_path, {"injected": {"seed": 1, "faults": [fault]}}, iterations=16, **SERVER)
    found = answered(archive, "--set", f"link:edge-1->cloud-1.{change}")
    assert found["rerun"]["error"] == pytest.approx(0.0, abs=0.05)


def test_a_link_that_is_slower_than_its_share_of_a_line_is_known_by_what_it_carried(tmp_path: Path) -> None:
    slow = {"seed": 1, "links": [{"src": "edge-1", "dst": "cloud-1", "rate_factor": 0.1}]}
    path = ran(tmp_path, {"bottlenecks": [{**UPLINK, "rate": "60mbit"}], "injected": slow}, **SERVER)
    report = read_report(open_archive(path))
    (culprit,) = report.culprits
    assert str(culprit.element) == "edge-1 -> cloud-1"
    assert culprit.observed == pytest.approx(5e6, rel=0.02)
    assert report.bottlenecks[0].element == culprit.element  # not the line: it is not full
    found = answered(path, "--set", "link:edge-1->cloud-1.rate=10x")
    assert found["rerun"]["error"] == pytest.approx(0.0, abs=0.03)
    assert culprit.saved_s == pytest.approx(found["measured_s"] - found["rerun"]["run_s"], rel=0.05)


@pytest.mark.parametrize(
    ("injected", "to", "pairs", "training"),
    [
        ({}, "*.*", {(0, 1), (0, 2), (1, 0), (1, 2)}, SERVER),
        ({"links": [{"src": "edge-2", "dst": "cloud-1", "rate_factor": 0.1}]}, "cloud.*", {(0, 2), (1, 2)}, {}),
    ],
    ids=["as designed", "measured"],
)
def test_a_link_that_carried_nothing_passes_its_line_too(
    tmp_path: Path, injected: dict[str, Any], to: str, pairs: set[tuple[int, int]], training: dict[str, Any]
) -> None:
    line = {"name": "uplink", "rate": "10mbit", "links": [{"src": "edge.*", "dst": to}]}
    archive = ran(tmp_path, {"bottlenecks": [line], "injected": {"seed": 1, **injected}}, **training)
    assert answered(archive, "--without", "edge-2")["rerun"]["error"] == pytest.approx(0.0, abs=0.1)
    ground = of_archive(open_archive(archive), real=False).measured
    assert ground is not None
    (shared,) = ground.bottlenecks
    assert {*shared.links} == pairs  # all that a strategy may use of it
    assert len({ground.links[pair].tcp for pair in shared.links}) == 1


@pytest.mark.parametrize(("strategy", "method"), [("fastlinks", "replay"), ("adpsgd", "re-simulation")])
def test_choices_by_rates_are_replayed_where_the_run_is_not_simulated_closely_as_its_report_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, method: str
) -> None:
    archive, change = ran(tmp_path, strategy=strategy), ("--set", "link:edge-1->edge-2.rate=2x")
    assert answered(archive, *change)["method"] == "re-simulation"
    shutil.rmtree(tmp_path / "again")
    monkeypatch.setattr(MeasuredWorld, "error", -0.3)
    assert answered(archive, *change)["method"] == method


def test_a_host_that_would_be_stopped_does_not_train(tmp_path: Path) -> None:
    pause = {"pause": "edge-2", "at": "iteration 3", "for": "1s"}
    archive = ran(tmp_path, {"injected": {"seed": 1, "faults": [pause]}})
    assert answered(archive, "--without", "edge-2")["rerun"]["error"] == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("name", ["{}/outside", "../outside", "..", "a\0b"])
def test_what_an_archive_calls_its_scenario_is_no_place_to_write_to(tmp_path: Path, name: str) -> None:
    archive = ran(tmp_path)
    facts = json.loads((archive / layout.RUN).read_text())
    (archive / layout.RUN).write_text(json.dumps(facts | {"scenario": name.format(tmp_path)}))
    answered(archive, "--set", "host:edge-1.speed=2x")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["again", "scenario", "scenario-archive"]


def test_how_much_was_significant_is_what_a_rerun_without_values_sends(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    designed = scenario(tmp_path / "s", strategy="gaia", strategy_settings={"threshold": 0.05}, evaluate_every=0)
    found = answered(simulated(designed).path, "--set", "host:edge-1.speed=2x")
    assert found["rerun"]["error"] == pytest.approx(0.0, abs=0.05)
    again = load(open_archive(Path(found["rerun"]["archive"])).scenario).training.strategy_settings
    assert again["threshold"] == 0.05
    assert 0 < again["selectivity"] <= 1


def test_the_generator_of_groups_is_the_same_host_without_another(tmp_path: Path) -> None:
    designed = scenario(tmp_path / "s", strategy="prague", strategy_settings={"generator": 2})
    without = training_without(load(designed), ["edge-1"])
    assert without.training.strategy_settings == {"generator": 1}
    assert without.topology.ranks[1].name == "cloud-1"
    with pytest.raises(InputError, match="without cloud-1: it is the generator .generator: 2.; name another generator"):
        training_without(load(designed), ["cloud-1"])


@pytest.mark.parametrize("gone", ["edge-1", "edge-2"])
def test_static_groups_have_no_generator_that_could_not_be_left_out(tmp_path: Path, gone: str) -> None:
    settings = {"groups": "static", "group_size": 2, "generator": 1}
    designed = scenario(tmp_path / "s", strategy="prague", strategy_settings=settings)
    training = training_without(load(designed), [gone]).training
    strategies.load("prague")(**training.strategy_settings).used_links(["edge", "cloud"])
