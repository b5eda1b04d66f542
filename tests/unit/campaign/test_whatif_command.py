"""``e2c-dl whatif``: predictions of changes, beside re-runs of the same changes; and what is refused, in one line."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from commands import said
from simulated_scenario import PARAMETERS, scenario, simulated

from e2c_dl.campaign.predicting.asked import asked
from e2c_dl.diagnosis.resimulation.hosts import MeasuredHost
from e2c_dl.errors import InputError
from e2c_dl.scenario.what_if import Changed, LinkChange
from e2c_dl.topology import Host
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes
from e2c_dl.worlds.virtual.pace import Segment

HOSTS = [
    Host(name=name, layer=name[:-2], service="Trainer", service_id=f"1_1_{rank}", role="", rank=rank)
    for rank, name in enumerate(("edge-1", "edge-2", "cloud-1"))
]
USED = {("edge-1", "edge-2"), ("edge-2", "cloud-1"), ("cloud-1", "edge-1")}
PROFILE = ComputeProfile(
    model="cnn", dtype="float32", parameters=PARAMETERS, buckets=((0, PARAMETERS),),
    gradients={16: GradientTimes(data_s=0.001, forward_s=0.02, backward_s=(0.04,))}, step_s=0.0002, evaluate_s=0.01,
)  # fmt: skip
INJECTED = {
    "compute": {"method": "sleep", "cores": 1.0},
    "injected": {
        "seed": 1,
        "compute": [{"host": "edge-2", "factor": 3}],
        "links": [{"src": "cloud-1", "dst": edge, "rate_factor": 0.1} for edge in ("edge-1", "edge-2")],
    },
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory):
    """A simulated run of the strategy that it is asked for, with a slow host and a slow link."""

    @cache
    def made(strategy: str) -> Path:
        folder = tmp_path_factory.mktemp(strategy) / "scenario"
        scenario(folder, emulation=INJECTED, profile=PROFILE.to_json(), strategy=strategy, iterations=8)
        return simulated(folder, shapes_only=True).path

    return made


def answered(path: Path, *argv: str):
    told = said("whatif", path, *argv, "--json")
    assert told.code == 0, told.err
    return json.loads(told.out)


SLOW_HOST = ["--set", "host:edge-2.speed=3x"]
SLOW_LINK = ["--set", "link:cloud-1->edge-1.rate=50mbit"]
LAYERS = ["--set", "link:cloud->edge.rate=10x", "--set", "layer:edge.speed=1.5x"]
DELAYS = ["--set", "link:edge->edge.delay=30ms", "--set", "link:cloud->edge.delay=0.5x"]


@pytest.mark.parametrize(
    ("strategy", "change", "method"),
    [
        ("allreduce", SLOW_HOST, "replay"),
        pytest.param("allreduce", DELAYS, "replay", marks=pytest.mark.thorough),
        ("allreduce", ["--without", "host:edge-2"], "re-simulation"),
        pytest.param("asyncparameterserver", SLOW_LINK, "re-simulation", marks=pytest.mark.thorough),
        ("asyncparameterserver", LAYERS, "re-simulation"),
        ("adpsgd", SLOW_HOST, "re-simulation"),
        ("fedat", SLOW_HOST, "re-simulation"),
        pytest.param("fedat", SLOW_LINK, "re-simulation", marks=pytest.mark.thorough),
        pytest.param("adpsgd", ["--without", "cloud-1"], "re-simulation", marks=pytest.mark.thorough),
    ],
)
def test_the_prediction_is_what_the_rerun_takes(
    archive, tmp_path: Path, strategy: str, change: list[str], method: str
) -> None:
    again = answered(archive(strategy), *change, "--rerun", "--archive", str(tmp_path / "again"))
    assert again["rerun"]["error"] == pytest.approx(0.0, abs=0.02)
    assert again["interval_s"][0] <= again["predicted_s"] <= again["interval_s"][1]
    assert again["method"] == method


LINE = {"name": "uplink", "rate": "4mbit", "links": [{"src": "edge.*", "dst": "cloud.*"}]}


@pytest.mark.parametrize(
    ("change", "at_most"),
    [
        (SLOW_HOST, 0.01),  # a replay has the run gain 27 %, though the line is full
        pytest.param(["--set", "link:edge-1->cloud-1.rate=1mbit"], 0.02, marks=pytest.mark.thorough),
        pytest.param(["--set", "link:edge->cloud.delay=50ms"], 0.02, marks=pytest.mark.thorough),
    ],
)
def test_what_hosts_and_links_before_a_shared_line_bring_is_what_the_rerun_takes(
    tmp_path: Path, change: list[str], at_most: float
) -> None:
    folder = tmp_path / "scenario"
    emulation = {
        **INJECTED,
        "injected": {"seed": 1, "compute": [{"host": "edge-2", "factor": 10}]},
        "bottlenecks": [LINE],
    }
    shared = {"strategy": "parameterserver", "strategy_settings": {"server": 2}, "bucket_bytes": "64KiB"}
    scenario(folder, emulation=emulation, profile=PROFILE.to_json(), iterations=8, **shared)
    path = simulated(folder, shapes_only=True).path
    again = answered(path, *change, "--rerun", "--archive", str(tmp_path / "again"))
    assert again["rerun"]["error"] == pytest.approx(0.0, abs=at_most)
    assert again["method"] == "re-simulation"


def test_a_rerun_can_be_asked_about_again(archive, tmp_path: Path) -> None:
    first = answered(archive("allreduce"), *SLOW_HOST, "--rerun", "--archive", str(tmp_path / "first"))
    second = answered(tmp_path / "first", *SLOW_LINK, "--rerun", "--archive", str(tmp_path / "second"))
    both = answered(archive("allreduce"), *SLOW_HOST, *SLOW_LINK)
    assert second["measured_s"] == pytest.approx(first["rerun"]["run_s"])
    least_s, most_s = both["interval_s"]
    assert 0.99 * least_s <= second["rerun"]["run_s"] <= 1.01 * most_s


def test_the_answer_is_said_in_a_few_lines(archive) -> None:
    told = said("whatif", archive("allreduce"), "--without", "edge-2")
    lines = told.out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["changed", "measured", "predicted", "An"]
    assert "by re-simulation" in lines[2]
    assert lines[3] == "An iteration then has 32 samples instead of 48."
    assert lines[4] == "edge-1 -> cloud-1: carried nothing in this run, so taken as designed."
    assert "simulating the run again: 1 of 5" in told.err


def test_what_is_no_different_is_not_told_as_above_or_below(archive, tmp_path: Path) -> None:
    told = said("whatif", archive("allreduce"), "--set", "host:edge-2.speed=1.00001x", "--rerun",
                "--archive", str(tmp_path / "again")).out.splitlines()  # fmt: skip
    assert told[2].startswith("predicted") and ", as long;" in told[2]
    assert told[3].startswith("re-run") and "; as predicted; " in told[3]


def test_a_run_that_takes_many_times_as_long_is_not_told_in_percent(archive) -> None:
    told = said("whatif", archive("allreduce"), "--set", "link:edge-1->edge-2.rate=1kbit").out.splitlines()
    assert re.search(r", [\d.]+ × as long;", told[2])


def test_what_comes_of_all_that_is_asked_is_told(archive) -> None:
    link = "link:edge-1->edge-2"
    asked = ("host:edge-1.speed=2x", "layer:edge.speed=1.5x", f"{link}.rate=8mbit", f"{link}.rate=2x")
    told = said("whatif", archive("allreduce"), *(word for each in asked for word in ("--set", each)))
    assert told.out.splitlines()[:3] == [
        "changed     edge-1: 3 x as fast", "changed     edge-2: 1.5 x as fast",
        "changed     edge-1 -> edge-2: rate 16mbit",
    ]  # fmt: skip
    assert " to " not in told.out or not re.search(r"from (\S+ \S+) to \1,", told.out)


def test_where_time_ends_training_it_is_said_how_much_is_trained(tmp_path: Path) -> None:
    folder = scenario(
        tmp_path / "s", emulation=INJECTED, profile=PROFILE.to_json(), strategy="adpsgd", seconds=2, iterations=None
    )
    told = said("whatif", simulated(folder, shapes_only=True).path, *SLOW_HOST)
    assert told.code == 0, told.err
    found = re.search(r"in it, there are (\d+) iterations of all ranks together instead of (\d+)", told.out)
    assert found is not None
    assert int(found[1]) > int(found[2])


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "nothing is changed; name what with --set or --without"),
        (["--set", "host:edge-3.speed=2x"], "there is no host 'edge-3'; did you mean 'edge-2'?"),
        (["--set", "layer:egde.speed=2x"], "there is no layer 'egde'; did you mean 'edge'?"),
        (["--set", "hots:edge-1.speed=2x"], "there is no kind of element 'hots'; did you mean 'host'?"),
        (["--set", "host:edge-1.sped=2x"], "there is no property of a host 'sped'; did you mean 'speed'?"),
        (["--set", "host:edge-1.speed=2"], "'2' is no factor; write e.g. 2x"),
        (["--set", "host:edge-1.speed=0x"], "'0x' is no factor"),
        (["--set", "link:edge-1->edge-2.rate=50mbps"], "means bytes per second to tc; write 50mbit"),
        (["--set", "link:edge-1->edge-2.delay=5"], "has no unit; write e.g. 10ms"),
        (["--set", "link:edge-1.rate=2x"], "'edge-1' is no link"),
        (["--set", "link:edge-2->edge-2.rate=2x"], "no link leads from a host to itself"),
        (["--set", "link:edge-2->edge-1.rate=2x"], "nothing was sent there; links that carried something from edge-2"),
        ([*SLOW_LINK, "--set", "link:cloud->edge.rate=9mbit"], "is given a rate twice; leave one of both"),
        (["--set", "edge-1 faster"], "is not WHICH.WHAT=VALUE; write e.g. host:fog-2.speed=2x"),
        (["--without", "edge-1", "--set", "host:edge-1.speed=2x"], "nothing of it is left without edge-1; leave one"),
        (["--without", "edge-9"], "there is no host 'edge-9'; did you mean 'edge-"),
        (["--without", "edge"], "--without edge: is a layer; leave out all of its hosts with --without layer:edge"),
        (["--without", "layer:fog"], "there is no layer 'fog'; "),
        (["--without", "edge-1", "--without", "edge-2"], "1 host would train; leave at least two"),
        (["--without", "layer:edge"], "1 host would train; leave at least two"),
        ([*SLOW_HOST, "--rerun", "--artifacts", "/usr"], "are of a testbed; name it with --on"),
        ([*SLOW_HOST, "--rerun", "--profile", "/none.json"], "/none.json"),
        ([*SLOW_HOST, "--rerun", "--profile", "/none.json", "--on", "local"], "--profile is of a simulated re-run"),
        ([*SLOW_HOST, "--rerun", "--archive", "/usr"], "/usr: is not empty; name a new directory with --archive"),
        (["--set", "host:edge-1.speed=2x", "--archive", "x"], "are of a re-run; add --rerun"),
        (["--without", "edge-1", "--rerun", "--on", "local"], "hosts that do not train are for simulated re-runs"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_that_says_what_to_write(archive, argv: list[str], says: str) -> None:
    told = said("whatif", archive("allreduce"), *argv)
    assert told.code == 2
    assert says in told.err.splitlines()[-1]


def test_of_a_host_without_a_trace_nothing_is_predicted(archive, tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    shutil.copytree(archive("allreduce"), torn)
    (torn / "traces" / "edge-2.parquet").write_bytes(b"PAR1")
    told = said("whatif", torn, *SLOW_HOST)
    why = "its trace holds 2 of 3 ranks; what edge-2 did is not in it: ask of another host or link, or of a whole run"
    assert (told.code, told.err.splitlines()[-1]) == (1, f"e2c-dl: {torn}: {why}")


def test_where_a_lost_trace_held_most_of_the_time_nothing_is_predicted(archive, tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    shutil.copytree(archive("allreduce"), torn)
    (torn / "traces" / "cloud-1.parquet").unlink()
    told = said("whatif", torn, *SLOW_HOST)
    assert told.code == 1
    assert "of the run's longest path has no known cause in it: ask of a whole run" in told.err.splitlines()[-1]


def test_who_evaluates_where_the_first_rank_is_left_out_takes_time_for_it() -> None:
    times = {"edge-1": (10, 4), "edge-2": (30, None)}
    hosts = {name: _host(name, *taken) for name, taken in times.items()}
    assert hosts["edge-2"].evaluating_as(hosts["edge-1"]).evaluations_ns == (12,)
    assert hosts["edge-1"].evaluating_as(hosts["edge-2"]) is hosts["edge-1"]


def _host(name: str, gradient_ns: int, evaluation_ns: int | None) -> MeasuredHost:
    piece = Segment(Phase.BACKWARD, 0, 0, gradient_ns)
    return MeasuredHost(
        name=name, layer="edge", samples=16, gradients=((16, (piece,)),), steps_ns=(),
        evaluations_ns=() if evaluation_ns is None else (evaluation_ns,),
    )  # fmt: skip


def test_a_server_is_not_left_out(archive) -> None:
    told = said("whatif", archive("asyncparameterserver"), "--without", "edge-1")
    assert told.code == 2
    assert "e2c-dl: without edge-1: it is the server (server: 0); name another server first" in told.err


def test_what_is_asked_of_one_thing_twice_comes_one_on_top_of_the_other() -> None:
    changed = asked(
        ["layer:edge.speed=2x", "host:edge-1.speed=3x", "link:edge-1->edge-2.rate=10mbit", "link:edge->edge.rate=2x",
         "link:edge->edge.delay=0x"], ["cloud-1"], HOSTS, USED,
    )  # fmt: skip
    assert changed == Changed(
        speeds={"edge-1": 6.0, "edge-2": 2.0},
        links={
            ("edge-1", "edge-2"): LinkChange(rate_bps=20e6, rate_factor=2.0, delay_factor=0.0),
        },
        without=("cloud-1",),
    )
    assert changed.of_those_left.links.keys() == {("edge-1", "edge-2")}
    with pytest.raises(InputError, match="is no factor"):
        asked(["link:edge->edge.rate=0x"], [], HOSTS, USED)
