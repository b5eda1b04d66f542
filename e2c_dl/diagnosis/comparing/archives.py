"""Runs to compare, from the archives that they left: the one module here that opens them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgspec

from e2c_dl import formatting
from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.run import Outcome
from e2c_dl.codec import DAMAGED, convert
from e2c_dl.diagnosis.comparing.figures import Run, accuracies_of, culprits_of, iterations_of, run_s, states_of
from e2c_dl.diagnosis.detection.clocks import mistimed_s
from e2c_dl.diagnosis.diagnose import diagnose, read_report
from e2c_dl.diagnosis.model import Report, some
from e2c_dl.diagnosis.prefix import common_prefix, most_iterations
from e2c_dl.errors import AnalysisError, ArchiveError
from e2c_dl.scenario.budget import Unit
from e2c_dl.scenario.training import MAX_ITERATIONS
from e2c_dl.topology import Link
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import Trace


def run_of(archive: ReadArchive) -> Run:
    """What a comparison needs of ``archive``; of a run that broke off, what all ranks finished.

    Raises: ArchiveError, ScenarioError; AnalysisError, which names the archive: nothing of it can be analysed.
    """
    trace = archive.trace()
    try:
        prefix, report = common_prefix(trace), _report(archive)
    except AnalysisError as error:
        raise AnalysisError(f"{archive.path}: {error}") from error
    seconds, sent = iterations_of(prefix)
    progress = [line for host in archive.hosts for line in archive.host(host).progress()]
    return Run(
        name=archive.path.name,
        seeds=tuple(sorted(archive.run.seeds.items())),
        settings={**_settings(archive), **_hosts(archive), **_links(archive, report)},
        damage=damage(archive, trace),
        most_iterations=most_iterations(trace),
        mistimed_s=mistimed_s(prefix, join(prefix)),
        world=archive.run.testbed,
        finished=archive.run.outcome is Outcome.FINISHED,
        run_s=run_s(prefix),
        iteration_s=seconds,
        iteration_bytes=sent,
        accuracies=accuracies_of(progress),
        states_s=states_of(report),
        culprits=culprits_of(report),
        undecided=report.undecided,
    )


class _Training(msgspec.Struct, frozen=True):
    """What is asked of the recorded training by name; it may hold more."""

    batch_sizes: list[int] = []


def _settings(archive: ReadArchive) -> dict[str, Any]:
    """Of its training; its mathematics as they were, which --shapes-only may have changed. Raises: ArchiveError."""
    facts, where = archive.run.facts, f"{archive.path}: run.json: facts.training"
    training = convert(facts.get("training", {}), dict[str, Any], where, remedy=DAMAGED)
    convert(training, _Training, where, remedy=DAMAGED)
    budget = training.get("budget")
    has_other_unit = isinstance(budget, dict) and Unit.ITERATIONS.value not in budget
    if has_other_unit or training.get("iterations", 0) >= MAX_ITERATIONS:  # as many as that would be, and no more
        training.pop("iterations", None)
    return {**training, **{key: facts[key] for key in ("mathematics",) if key in facts}}


class _Computing(msgspec.Struct, frozen=True):
    """What is asked of the recorded emulation of computing."""

    speed: dict[str, float] = {}


class _LinkRow(msgspec.Struct, frozen=True):
    """What is asked of a row of links.json."""

    src: str
    dst: str
    requested: Link


def _hosts(archive: ReadArchive) -> dict[str, str]:
    """How fast each host was asked to compute, injected slow-downs included. Raises: ArchiveError."""
    where = f"{archive.path}: run.json: emulation.compute"
    computing = convert(archive.run.emulation.get("compute", {}), _Computing, where, remedy=DAMAGED)
    return {f"host {host}": f"{speed:.3g} of a core" for host, speed in computing.speed.items()}


def _links(archive: ReadArchive, report: Report) -> dict[str, str]:
    """What each link that training used was asked to be, injected slow-downs included. Raises: ArchiveError."""
    rows = convert(list(archive.links()), list[_LinkRow], f"{archive.path}: links.json", remedy=DAMAGED)
    used = {(link.src, link.dst) for link in report.links}
    return {f"link {row.src} -> {row.dst}": _worded(row.requested) for row in rows if (row.src, row.dst) in used}


def _worded(link: Link) -> str:
    """``40.0 Mbit/s, 15.0 ms``, and all else in which it is no plain link."""
    rest = [field for field in fields(link) if field.name not in ("rate_bps", "delay_s")]
    told = [f"{field.name} {getattr(link, field.name)}" for field in rest if getattr(link, field.name) != field.default]
    return ", ".join([formatting.limit(link.rate_bps), formatting.seconds(link.delay_s), *told])


def damage(archive: ReadArchive, trace: Trace) -> tuple[str, ...]:
    """Hosts whose traces are not whole, with what is the matter: ``("edge-1 (none)", "fog-1, fog-2 (broken off)")``."""
    ranked = [str(host.get("name")) for host in archive.run.hosts if host.get("rank") is not None]
    gone = [f"{host} (none)" for host in ranked if host not in trace.hosts]
    damaged = [f"{rank.host} (damaged)" for rank in trace.ranks if rank.lost.spans or rank.lost.damaged_bytes]
    broken = [rank.host for rank in trace.ranks if not rank.complete]  # often all of them, as one was killed
    return (*gone, *damaged, *([f"{some('host', broken)} (broken off)"] if broken else []))


def _report(archive: ReadArchive) -> Report:
    """The stored one, or where there is none that this program reads, a new one."""
    try:
        return read_report(archive)
    except ArchiveError:
        return diagnose(archive).report
