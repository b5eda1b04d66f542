"""Runs to compare, from the archives that they left: the one module here that opens them."""

from __future__ import annotations

from typing import Any

import msgspec

from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.run import Outcome
from e2c_dl.codec import DAMAGED, convert
from e2c_dl.diagnosis.comparing.figures import Run, accuracies_of, culprits_of, iterations_of, run_s, states_of
from e2c_dl.diagnosis.diagnose import diagnose, read_report
from e2c_dl.diagnosis.model import Report
from e2c_dl.errors import ArchiveError


def run_of(archive: ReadArchive) -> Run:
    """What a comparison needs of ``archive``. Raises: ArchiveError, AnalysisError, ScenarioError."""
    trace, report = archive.trace(), _report(archive)
    seconds, sent = iterations_of(trace)
    progress = [line for host in archive.hosts for line in archive.host(host).progress()]
    return Run(
        name=archive.path.name,
        seeds=tuple(sorted(archive.run.seeds.items())),
        settings=_settings(archive),
        world=archive.run.testbed,
        finished=archive.run.outcome is Outcome.FINISHED,
        run_s=run_s(trace),
        iteration_s=seconds,
        iteration_bytes=sent,
        accuracies=accuracies_of(progress),
        states_s=states_of(report),
        culprits=culprits_of(report),
    )


class _Training(msgspec.Struct, frozen=True):
    """What is asked of the recorded training by name; it may hold more."""

    batch_sizes: list[int] = []


def _settings(archive: ReadArchive) -> dict[str, Any]:
    """Of its training; its mathematics as they were, which --shapes-only may have changed. Raises: ArchiveError."""
    facts, where = archive.run.facts, f"{archive.path}: run.json: facts.training"
    training = convert(facts.get("training", {}), dict[str, Any], where, remedy=DAMAGED)
    convert(training, _Training, where, remedy=DAMAGED)
    return {**training, **{key: facts[key] for key in ("mathematics",) if key in facts}}


def _report(archive: ReadArchive) -> Report:
    """The stored one, or where there is none that this program reads, a new one."""
    try:
        return read_report(archive)
    except ArchiveError:
        return diagnose(archive).report
