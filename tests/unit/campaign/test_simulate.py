"""``e2c-dl simulate``: from a scenario's folder to an archive that every later tool reads."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from simulated_scenario import PARAMETERS, PROFILE, Quiet, scenario, simulated

from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.archive.records import Progress
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.verify import verify
from e2c_dl.campaign.predicting.measured import MeasuredRun
from e2c_dl.campaign.request import Request, checked
from e2c_dl.campaign.simulated import SimulationRequest, run
from e2c_dl.cli.main import cli
from e2c_dl.diagnosis import diagnose
from e2c_dl.errors import InputError, Interrupted
from e2c_dl.trace.model import Phase

BLOCKED = """
import sys
for name in ("torch", "e2clab", "enoslib", "ansible", "sklearn"):
    sys.modules[name] = None
from e2c_dl.cli.main import main
sys.argv[0] = "e2c-dl"
main()
"""


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> ReadArchive:
    return simulated(scenario(tmp_path_factory.mktemp("shapes") / "small"), shapes_only=True)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> ReadArchive:
    return simulated(scenario(tmp_path_factory.mktemp("real") / "small"))


def test_a_run_is_analysed_once_and_its_trace_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(name: str, what: Any) -> Any:
        return lambda *given: calls.append(name) or what(*given)

    monkeypatch.setattr(ReadArchive, "trace", counted("load", ReadArchive.trace))
    for name in ("analyse", "from_trace"):
        monkeypatch.setattr(diagnose, name, counted(name, getattr(diagnose, name)))
    shared = {"bottlenecks": [{"name": "line", "rate": "50mbit", "links": [{"src": "edge.*", "dst": "*.*"}]}]}
    folder = scenario(tmp_path / "small", emulation={"compute": {"method": "sleep", "cores": 0.1}, **shared})
    asked = ["simulate", str(folder), "--shapes-only", "--archive", str(tmp_path / "archive")]
    said = CliRunner().invoke(cli, asked)
    assert said.exit_code == 0, said.output
    assert "Where the time went" in said.output
    assert "bottleneck line: carried" in (tmp_path / "archive" / "report.html").read_text()
    assert sorted(calls) == ["analyse", "from_trace", "load"]


def test_the_archive_is_whole_and_says_that_it_is_virtual(shapes: ReadArchive) -> None:
    assert verify(shapes.path) == ()
    assert (shapes.run.outcome, shapes.run.testbed) == (Outcome.FINISHED, "virtual")
    assert shapes.run.emulation["backend"] == "virtual"
    assert shapes.run.emulation["compute"]["speed"] == {"edge-1": 0.1, "edge-2": 0.1, "cloud-1": 0.1}
    assert [host["name"] for host in shapes.run.hosts] == ["edge-1", "edge-2", "cloud-1"]
    assert {row["src"] for row in shapes.links()} == set(shapes.hosts)
    assert all(row["measured"] is None and row["designed"]["rate_bps"] == 50e6 for row in shapes.links())
    assert (shapes.path / "report.html").is_file()
    assert (shapes.scenario / "profile.json").read_text() == PROFILE.to_json()


def test_every_host_leaves_what_a_live_one_does(shapes: ReadArchive) -> None:
    trace = shapes.trace()
    assert [rank.host for rank in trace.ranks] == ["edge-1", "edge-2", "cloud-1"]
    assert all(rank.complete for rank in trace.ranks)
    for rank in trace.ranks:
        assert np.sum(rank.spans["phase"] == Phase.ITERATION) == 6
        outcome = shapes.host(rank.host).outcome()
        assert outcome is not None
        assert (outcome.status, outcome.iterations_done) == ("finished", 6)
        progress = shapes.host(rank.host).progress()
        assert [line.iteration for line in progress] == [1, 2, 3, 4, 5, 6]
        assert progress[-1].elapsed_s == pytest.approx(outcome.seconds)
        assert shapes.host_facts[rank.host].mathematics == "shapes"


def test_a_gradient_lasts_as_long_as_the_profile_at_the_hosts_speed(shapes: ReadArchive) -> None:
    spans = shapes.trace().ranks[0].spans
    computed = spans[(spans["task"] == -1) & (spans["iteration"] == 0)]
    assert (computed["end_ns"].max() - computed["start_ns"].min()) / 1e9 == pytest.approx(0.0031 / 0.1)


def test_real_mathematics_trains_and_takes_the_same_time(shapes: ReadArchive, real: ReadArchive) -> None:
    for one, other in zip(shapes.trace().ranks, real.trace().ranks, strict=True):
        assert one.spans.tobytes() == other.spans.tobytes()
    assert np.load(real.path / "model.npz")["parameters"].shape == (PARAMETERS,)
    assert not (shapes.path / "model.npz").exists()
    progress = real.host("edge-1").progress()
    assert progress[5].loss < progress[0].loss
    assert [line.iteration for line in progress if line.accuracy is not None] == [3, 6]
    outcome = real.host("edge-1").outcome()
    assert outcome is not None and outcome.accuracy == progress[-1].accuracy


def test_the_strategys_model_is_evaluated_and_saved_and_the_archive_says_whose_it_is(tmp_path: Path) -> None:
    def trained(server: int) -> tuple[ReadArchive, np.ndarray]:
        chosen = {"strategy": "asyncparameterserver", "strategy_settings": {"server": server}}
        folder = scenario(tmp_path / f"served-by-{server}", iterations=None, updates=9, evaluate_every=1, **chosen)
        archive = simulated(folder, shapes_only=False)
        return archive, np.load(archive.path / "model.npz")["parameters"]

    for server in (0, 2):
        archive, saved = trained(server)
        facts, lines = archive.run.facts, archive.host("edge-1").progress()
        assert facts["model"] == {"trained": f"rank {server}'s parameters", "curve": "rank 0's parameters"}
        assert facts["training"]["budget"] == {"updates": 9}
        assert {line.model for line in lines[:-1] if line.accuracy is not None} == {"rank 0's parameters"}
        assert lines[-1].model == f"rank {server}'s parameters"
        assert np.isfinite(saved).all()
        assert sum(len(archive.host(host).progress()) for host in archive.hosts) == 9 + 1
        page = (archive.path / "report.html").read_text()
        end = f" while training, and of rank {server}&#x27;s parameters at the end" if server else ""
        assert f"Accuracy is of rank 0&#x27;s parameters{end}." in page


def test_injected_departures_slow_hosts_and_links_and_can_be_left_out(tmp_path: Path) -> None:
    emulation = {
        "compute": {"method": "sleep", "cores": 0.1},
        "injected": {
            "seed": 1,
            "compute": [{"host": "cloud-1", "factor": 4}],
            "links": [{"src": "edge-1", "dst": "edge-2", "rate_factor": 0.2}],
        },
    }
    ill = simulated(scenario(tmp_path / "ill", emulation=emulation), shapes_only=True)
    assert ill.run.emulation["compute"]["speed"]["cloud-1"] == pytest.approx(0.025)
    asked = {(row["src"], row["dst"]): row["requested"]["rate_bps"] for row in ill.links()}
    assert asked["edge-1", "edge-2"] == pytest.approx(10e6)
    culprits = json.loads((ill.path / "report.json").read_text())["culprits"]
    assert {culprit["element"]["src"] for culprit in culprits} >= {"edge-1"}
    healthy = simulated(scenario(tmp_path / "well", emulation=emulation), shapes_only=True, healthy=True)
    assert healthy.run.emulation["compute"]["speed"]["cloud-1"] == pytest.approx(0.1)
    assert healthy.run.injected == {"compute": {}, "links": {}, "faults": []}


def test_the_same_seed_gives_the_same_trace_in_any_process_without_torch(tmp_path: Path) -> None:
    folder = scenario(tmp_path / "small")
    traces = []
    for number in range(2):
        archive = tmp_path / f"archive-{number}"
        command = [sys.executable, "-c", BLOCKED, "simulate", str(folder), "--shapes-only", "--archive", str(archive)]
        environ = {**os.environ, "PYTHONHASHSEED": str(number), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([*command, "--json"], env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["archive"] == str(archive)
        traces.append(b"".join(rank.spans.tobytes() for rank in open_archive(archive).trace().ranks))
    assert traces[0] == traces[1]


def test_ctrl_c_leaves_a_sealed_archive_of_what_was_traced(tmp_path: Path) -> None:
    console = Quiet(interrupt_at=2)
    with pytest.raises(Interrupted):
        run(SimulationRequest(scenario=scenario(tmp_path / "s"), archive=tmp_path / "a", shapes_only=True), console)
    archive = open_archive(tmp_path / "a")
    assert verify(archive.path) == ()
    assert archive.run.outcome is Outcome.INTERRUPTED
    assert [step.outcome for step in archive.run.steps] == ["done", "interrupted"]
    outcome = archive.host("edge-1").outcome()
    assert outcome is not None and outcome.status == "failed"
    assert np.sum(archive.trace().ranks[0].spans["phase"] == Phase.ITERATION) == 2


def test_ctrl_c_that_somebody_swallows_is_an_interruption_all_the_same(tmp_path: Path) -> None:
    class Swallowing(Quiet):
        def progress(self, progress: Progress) -> None:
            with contextlib.suppress(Interrupted):
                os.kill(os.getpid(), signal.SIGINT)

    console = Swallowing()
    with pytest.raises(Interrupted, match="stopped by SIGINT"):
        run(SimulationRequest(scenario=scenario(tmp_path / "s"), archive=tmp_path / "a", shapes_only=True), console)
    assert console.failures == ["simulate: stopped by SIGINT; what was traced until then is in the archive"]
    assert open_archive(tmp_path / "a").run.outcome is Outcome.INTERRUPTED


def test_ctrl_c_ends_the_command_at_once(tmp_path: Path) -> None:
    folder, archive = scenario(tmp_path / "s", iterations=1_000_000), tmp_path / "a"
    command = [sys.executable, "-c", BLOCKED, "simulate", str(folder), "--shapes-only", "--archive", str(archive)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, env=environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as started:
        assert started.stderr is not None
        assert any("iteration 1/" in line for line in started.stderr)
        started.send_signal(signal.SIGINT)
        said = started.communicate(timeout=60)[1].splitlines()
    assert started.returncode == Interrupted.exit_code
    assert said[-1] == "e2c-dl: stopped by SIGINT; what was traced until then is in the archive"
    assert verify(archive) == ()
    stopped = open_archive(archive)
    assert stopped.run.outcome is Outcome.INTERRUPTED
    # Of a rank that had not finished an iteration by then a second sentence says that there is nothing to analyse.
    assert stopped.run.what_happened[0] == f"simulate: {said[-1].removeprefix('e2c-dl: ')}"


@pytest.mark.parametrize(
    ("profile", "env", "said"),
    [
        (None, {"batch_size": 24}, "knows batches of 16 only"),
        (None, {"batching": "dynamic"}, "knows batches of 16 only, not of 17"),
        (None, {"model": "mlp"}, "measured for cnn in float32, but the scenario trains mlp in float32"),
        ("{}", {}, "is missing; calibrate again"),
        ("", {}, "it is no JSON"),
    ],
)
def test_a_profile_that_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, profile: str | None, env: dict[str, Any], said: str
) -> None:
    folder = scenario(tmp_path / "s", profile=profile, **env)
    with pytest.raises(InputError, match=said):
        run(SimulationRequest(scenario=folder, archive=tmp_path / "a", shapes_only=True), Quiet())
    assert not (tmp_path / "a").exists()


def test_a_seed_that_places_nothing_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder, nothing = scenario(tmp_path / "s"), "injected: is missing, so a seed has nothing to place"
    with pytest.raises(InputError, match=nothing):
        run(SimulationRequest(scenario=folder, archive=tmp_path / "a", shapes_only=True, seed=1), Quiet())
    assert not (tmp_path / "a").exists()
    with pytest.raises(InputError, match=nothing):
        checked(Request(scenario=folder, artifacts=None, testbed="local", seed=1))


def test_without_a_profile_the_command_says_how_to_get_one(tmp_path: Path) -> None:
    folder = scenario(tmp_path / "s")
    (folder / "profile.json").unlink()
    done = CliRunner().invoke(cli, ["simulate", str(folder), "--shapes-only"])
    assert isinstance(done.exception, InputError)
    assert "e2c-dl calibrate" in str(done.exception)
    assert done.exception.exit_code == 2


def test_what_depends_on_values_is_refused_before_a_run_of_shapes_alone_begins(tmp_path: Path) -> None:
    folder = scenario(tmp_path / "real", strategy="gaia")
    with pytest.raises(InputError, match=r"strategy 'gaia': how much is significant .* such as selectivity: 0\.05"):
        run(SimulationRequest(scenario=folder, archive=tmp_path / "a", shapes_only=True), Quiet())
    assert not (tmp_path / "a").exists()
    sound = CliRunner().invoke(cli, ["check", str(folder)])  # real mathematics tell
    assert sound.exit_code == 0
    assert "how much each carries is not known: strategy 'gaia'" in sound.output
    shapes = scenario(tmp_path / "shapes", strategy="gaia", mathematics="shapes")
    refused = CliRunner().invoke(cli, ["check", str(shapes)])
    assert refused.exit_code == 2
    said = refused.output.splitlines()
    assert len(said) == 2  # one for each service
    assert all("env.strategy_settings: how much is significant depends on values" in line for line in said)


@pytest.mark.parametrize("slack", [0, 1])
def test_a_filter_of_values_is_simulated_again_by_what_it_let_through(tmp_path: Path, slack: int) -> None:
    folder = scenario(tmp_path / "s", strategy="gaia", strategy_settings={"slack": slack})
    archive = open_archive(run(SimulationRequest(scenario=folder, archive=tmp_path / "a"), Quiet()))
    measured = MeasuredRun.of(archive)
    assert 0 < float(measured.recorded["selectivity"]) < 1
    assert abs(measured.observed.world(measured.retraining).error) < 0.15  # the part varies over the run
    stated = scenario(tmp_path / "t", strategy="gaia", strategy_settings={"slack": slack, "selectivity": 0.5})
    again = open_archive(run(SimulationRequest(scenario=stated, archive=tmp_path / "b"), Quiet()))
    assert MeasuredRun.of(again).recorded == {}
