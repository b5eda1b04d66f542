"""Losses and accuracies for dashboards, read back by TensorBoard's reader and by MLflow's own client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import simulated_scenario
from click.testing import CliRunner
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from e2c_dl.archive.dashboards import events
from e2c_dl.archive.dashboards.curves import began_s, points
from e2c_dl.archive.dashboards.tracking import parameters
from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.archive.write import Archive
from e2c_dl.cli.main import cli
from e2c_dl.errors import ArchiveError

STARTED = "2026-01-02T03:04:05+00:00"
STARTED_S = 1_767_323_045
LINES = {
    "edge-1": [(1, 2.5, None, 0.5), (2, 2.25, 0.5, 1.0), (3, None, 0.75, 1.5)],
    "edge-2": [(1, 3.5, None, 0.25)],
}
WITH_MLFLOW = """
import json, os, sys
site, *argv = sys.argv[1:]
sys.path.append(site)  # behind this environment's own, whose importlib-metadata is one that MLflow takes
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
from click.testing import CliRunner
from e2c_dl.cli.main import cli
done = [CliRunner().invoke(cli, ["export", argv[0], "--format", "mlflow", *argv[2:]]) for _ in range(2)]
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=argv[1])
(experiment,) = (each for each in client.search_experiments() if each.name == "mine")
(run,) = client.search_runs([experiment.experiment_id])
history = client.get_metric_history(run.info.run_id, "loss/edge-1")
print(json.dumps({
    "said": done[0].output, "again": f"{done[1].exception}", "params": run.data.params, "tags": run.data.tags,
    "metrics": run.data.metrics, "status": run.info.status, "id": run.info.run_id,
    "history": [(each.step, each.value, each.timestamp) for each in history],
}))
"""


@pytest.fixture
def archive(tmp_path: Path) -> ReadArchive:
    path = tmp_path / "run"
    made = Archive.create(path, "5a3b1e07", started=STARTED, versions={"e2c_dl": "0.2.0"})
    made.record(
        scenario="mine", testbed="virtual", outcome="finished",
        facts={"training": {"strategy": "localsgd", "strategy_settings": {"period": 4}, "updates": None}},
    )  # fmt: skip
    for host, lines in LINES.items():
        folder = path / "hosts" / host
        folder.mkdir(parents=True)
        keys = ("iteration", "loss", "accuracy", "elapsed_s")
        told = [{"iterations": 3, **dict(zip(keys, line, strict=True))} for line in lines]
        (folder / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))
    return open_archive(path)


def test_points_are_what_hosts_reported(archive: ReadArchive) -> None:
    found = [(point.host, point.tag, point.iteration, point.value) for point in points(archive)]
    assert found[:2] == [("edge-1", "loss", 1, 2.5), ("edge-1", "loss", 2, 2.25)]
    assert len(found) == 5
    assert began_s(archive) == STARTED_S


def test_tensorboard_reads_the_events(archive: ReadArchive, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["export", str(archive.path), "--format", "tensorboard"])
    folder = tmp_path / "run.tensorboard"
    assert (done.exit_code, done.output) == (0, f"{folder}\n")
    read = EventAccumulator(str(folder / "edge-1")).Reload()
    assert sorted(read.Tags()["scalars"]) == ["accuracy", "loss"]
    assert [(each.step, each.value, each.wall_time) for each in read.Scalars("loss")] == [
        (1, 2.5, STARTED_S + 0.5), (2, 2.25, STARTED_S + 1.0),
    ]  # fmt: skip
    assert [(each.step, each.value) for each in read.Scalars("accuracy")] == [(2, 0.5), (3, 0.75)]
    before = {path: path.read_bytes() for path in folder.rglob("*tfevents*")}
    events.write(archive, folder)
    assert {path: path.read_bytes() for path in folder.rglob("*tfevents*")} == before


def test_mlflow_reads_the_run(archive: ReadArchive, repository: Path, tmp_path: Path) -> None:
    store = (tmp_path / "store").as_uri()
    site = next(Path(path) for path in sys.path if (Path(path) / "pyarrow").is_dir())
    command = [repository / ".venv-lint/bin/python", "-c", WITH_MLFLOW, site, archive.path, store]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    done = subprocess.run(
        [*command, "--tracking-uri", store], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["said"] == f"{store}: run {told['id']}\n"
    assert told["history"] == [[1, 2.5, STARTED_S * 1000 + 500], [2, 2.25, STARTED_S * 1000 + 1000]]
    assert told["metrics"] == {"loss/edge-1": 2.25, "accuracy/edge-1": 0.75, "loss/edge-2": 3.5}
    assert told["params"] == {"strategy": "localsgd", "strategy_settings.period": "4"}
    assert (told["tags"]["e2c_dl.run_id"], told["status"]) == ("5a3b1e07", "FINISHED")
    assert f"already, as {told['id']}" in told["again"]


@pytest.mark.parametrize(("form", "library"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow")])
def test_a_library_that_is_not_installed_is_named(
    archive: ReadArchive, monkeypatch: pytest.MonkeyPatch, form: str, library: str
) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    done = CliRunner().invoke(cli, ["export", str(archive.path), "--format", form])
    assert f"pip install 'e2c_dl[{form}]'" in str(done.exception)


def test_a_run_of_shapes_has_nothing_to_show(tmp_path: Path) -> None:
    scenario = simulated_scenario.scenario(tmp_path / "scenario")
    request = simulated_scenario.SimulationRequest(scenario=scenario, archive=tmp_path / "a", shapes_only=True)
    simulated_scenario.run(request, simulated_scenario.Quiet())
    with pytest.raises(ArchiveError, match="nothing was trained"):
        events.write(open_archive(tmp_path / "a"), tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_a_setting_of_a_setting_is_a_parameter() -> None:
    assert parameters({"a": {"b": 1}, "c": None, "d": [1, 2]}) == {"a.b": "1", "d": "[1, 2]"}
