"""A run of MLflow's for a run of ours: curves as metrics, the training's settings as parameters, the rest as tags.

::

    experiment   the scenario's name                run name   the run's id
    metrics      loss/edge-1, accuracy/edge-1 ...   step: iteration; time: when the run began, and since training began
    parameters   strategy, model, batch_sizes ...
    tags         e2c_dl.run_id, .testbed, .outcome, .version

It is written through MLflow's own client: to a tracking server, a database that this MLflow knows, or a folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2c_dl.archive.dashboards.curves import began_s, points
from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.run import plain
from e2c_dl.errors import ArchiveError, InputError

FOLDERS_ALLOWED = "MLFLOW_ALLOW_FILE_STORE"
"""Newer MLflow wants to be told that a folder is meant."""

RUN_ID = "e2c_dl.run_id"
_AT_ONCE = 1000  # metrics that MLflow takes in one request
_LONGEST = 6000  # characters of a parameter that MLflow keeps
_STATUS = {"finished": "FINISHED", "interrupted": "KILLED"}


def write(archive: ReadArchive, uri: str) -> str:
    """Log ``archive`` to the tracking ``uri`` and give MLflow's id of the run.

    Raises: InputError: it is there already; ArchiveError: nothing was trained, or MLflow refuses;
    ModuleNotFoundError without MLflow.
    """
    if "://" not in uri or uri.startswith("file:"):
        os.environ.setdefault(FOLDERS_ALLOWED, "true")
        uri = uri if uri.startswith("file:") else Path(uri).absolute().as_uri()
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    curves = points(archive)
    try:
        return _logged(MlflowClient(tracking_uri=uri), archive, curves, uri)
    except MlflowException as error:
        raise ArchiveError(f"MLflow at {uri}: {' '.join(str(error).split())}; name another --tracking-uri") from error


def _logged(client: Any, archive: ReadArchive, curves: Any, uri: str) -> str:
    from mlflow.entities import Metric, Param

    run = archive.run
    name = run.scenario or "e2c_dl"
    experiment = client.get_experiment_by_name(name)
    number = experiment.experiment_id if experiment else client.create_experiment(name)
    before = client.search_runs([number], filter_string=f"tags.`{RUN_ID}` = '{run.run_id}'", max_results=1)
    if before:
        raise InputError(f"run {run.run_id} is in MLflow at {uri} already, as {before[0].info.run_id}; delete it there")
    began_ms = int(began_s(archive) * 1000)
    made = client.create_run(number, start_time=began_ms, tags=tags(archive), run_name=run.run_id)
    settings = plain(run.facts.get("training", {}))
    client.log_batch(
        made.info.run_id, params=[Param(key, value) for key, value in parameters(settings).items()],
    )  # fmt: skip
    metrics = [
        Metric(f"{each.tag}/{each.host}", each.value, began_ms + int(each.elapsed_s * 1000), each.iteration)
        for each in curves
    ]
    for first in range(0, len(metrics), _AT_ONCE):
        client.log_batch(made.info.run_id, metrics=metrics[first : first + _AT_ONCE])
    last_ms = max(metric.timestamp for metric in metrics)
    client.set_terminated(made.info.run_id, _STATUS.get(str(plain(run.outcome)), "FAILED"), last_ms)
    return str(made.info.run_id)


def tags(archive: ReadArchive) -> dict[str, str]:
    """What MLflow shows beside a run, and finds it by."""
    run = archive.run
    told = {"testbed": run.testbed, "outcome": plain(run.outcome), "version": run.versions.get("e2c_dl", "")}
    return {RUN_ID: run.run_id, **{f"e2c_dl.{name}": str(value) for name, value in told.items() if value}}


def parameters(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings of the training as MLflow has parameters: text, a setting of a setting behind a dot."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{inner}": each for inner, each in parameters(value).items()}
        elif value is not None:
            found[key] = str(value)[:_LONGEST]
    return found
