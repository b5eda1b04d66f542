"""Collection of what hosts left: from what finalize fetched to an archive's ``hosts/``, also of plain `e2clab deploy`.

Finalize leaves one packed file per host, named by E2Clab's service id. What became of the workers is explained from it:
causes first, consequences after them.
"""

from __future__ import annotations

import secrets
import shutil
import tarfile
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.records import Cause, HostFacts, WorkerOutcome
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.write import Archive
from e2c_dl.campaign.requested_links import write_links
from e2c_dl.diagnosis.diagnose import diagnose
from e2c_dl.diagnosis.model import Report
from e2c_dl.errors import ArchiveError, E2cDlError, FidelityError, InputError, TrainingError
from e2c_dl.report.page.html import write_report
from e2c_dl.scenario import copies
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario

KEPT = (
    *(layout.SPANS_RAW, layout.METRICS, layout.FACTS, layout.CLOCK, layout.HOST_LINKS, layout.PROGRESS),
    *(layout.CHANGES, layout.WORKER_CHANGES, layout.HEAT, layout.OUTCOME, layout.WORKER_LOG),
)
NO_OUTCOME = "exited without an outcome (killed, or its host is gone)"
E2CLAB_LOGS = ("e2clab.log", "e2clab.err", "layers_services-validate.yaml", "workflow-validate.out")


def unpack(output_dir: Path, scenario: Scenario, archive: Path) -> tuple[str, ...]:
    """Names of the hosts that left nothing. The files of the others stand in ``archive``/hosts/HOST afterwards.

    Raises: ArchiveError if a packed file is damaged.
    """
    missing = []
    for host in scenario.topology.ranks:
        packed = output_dir / layout.HOSTS / f"{host.service_id}.tar.gz"
        if not packed.is_file():
            missing.append(host.name)
            continue
        into = archive / layout.HOSTS / host.name
        into.mkdir(parents=True, exist_ok=True)
        _extract(packed, into)
        if host.rank == 0 and (into / layout.MODEL).is_file():
            (into / layout.MODEL).replace(archive / layout.MODEL)
        packed.unlink()
    return tuple(missing)


def keep_logs(output_dir: Path, others: Mapping[str, Path], archive: Path) -> None:
    """Copy E2Clab's own logs, and ``others`` under their names, into ``archive``/logs."""
    logs = archive / layout.LOGS
    logs.mkdir(exist_ok=True)
    found = {name: output_dir / name for name in E2CLAB_LOGS} | dict(others)
    for name, path in found.items():
        if path.is_file():
            shutil.copyfile(path, logs / name)


def _extract(packed: Path, into: Path) -> None:
    """Only the files an archive knows, only plain ones, only at the top level."""
    wanted = {*KEPT, layout.MODEL}
    try:
        with tarfile.open(packed) as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                # a host may send anything: links and paths of its own are not followed
                source = tar.extractfile(member) if member.isfile() and name in wanted else None
                if source is not None:
                    with source, (into / name).open("wb") as target:
                        shutil.copyfileobj(source, target)
    except (tarfile.TarError, EOFError) as error:  # EOFError: cut off, as by a full disk
        raise ArchiveError(f"{packed.name}: what {into.name} left is damaged: {error}") from error


AS_APPLIED = (
    "network as E2Clab applied it: its rules overwrite each other, so believe the measured links, not the requests"
)


def collect_plain(output_dir: Path, scenario_dir: Path, target: Path) -> Report:
    """Make the archive ``target`` of E2Clab's ``output_dir`` (the scenario's folder named by date and time).

    Raises: InputError if there is nothing of ours in ``output_dir``; ScenarioError, ArchiveError, AnalysisError.
    """
    scenario = load(scenario_dir)
    packed = output_dir / layout.HOSTS
    if not packed.is_dir():
        raise InputError(f"{packed}: no such folder; name the folder that E2Clab made, and see the workflow's finalize")
    begun = datetime.fromtimestamp(output_dir.stat().st_mtime, timezone.utc).astimezone()  # it records no times
    archive = Archive.create(target, secrets.token_hex(4), started=begun.isoformat(timespec="seconds"))
    copies.overridden(scenario_dir, target / layout.SCENARIO)
    archive.record(
        scenario=scenario.name,
        testbed="as E2Clab reserved it",
        seeds={"training": scenario.training.seed, "injected": scenario.injected.seed},
        emulation={"backend": "e2clab", "compute": {"method": "sleep"}},  # a quota would need the hosts' cgroups
    )
    archive.limited(AS_APPLIED)
    missing = unpack(output_dir, scenario, target)
    if len(missing) == len(scenario.topology.ranks):  # some may be missing: a killed worker leaves nothing
        raise ArchiveError(f"{packed}: nothing of any host of {scenario_dir}; is that the scenario that was deployed?")
    keep_logs(output_dir, {}, target)
    left = open_archive(target)
    sentences, cause = explained(left.outcomes(host.name for host in scenario.topology.ranks))
    for sentence in [*sentences, *write_links(left, scenario)]:
        archive.happened(sentence)
    ended = datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
    archive.end(Outcome.FAILED if cause else Outcome.FINISHED, ended)
    left = open_archive(target)
    diagnosis = diagnose(left)
    write_report(left, diagnosis)
    archive.seal()
    return diagnosis.report


def explained(outcomes: Mapping[str, WorkerOutcome | None]) -> tuple[tuple[str, ...], E2cDlError | None]:
    """What happened to the workers, in sentences, causes first, and the error that says it best.

    ``outcomes``: host -> how its worker ended, None if it left no outcome: then that is the cause, and that others
    lost it the consequence. Nothing and None, if all of them finished.

    >>> explained({"edge-1": None})[0]
    ('worker edge-1 exited without an outcome (killed, or its host is gone)',)
    """
    said: dict[tuple[bool, str], list[str]] = {}  # (is a consequence, what happened) -> the hosts it happened to
    reasons: dict[tuple[bool, str], WorkerOutcome | None] = {}
    for host, outcome in outcomes.items():
        if outcome is not None and outcome.status == Cause.FINISHED.value:
            continue
        what = NO_OUTCOME if outcome is None else f"{outcome.status}: {outcome.reason}"
        key = (outcome is not None and outcome.is_consequence, what)
        said.setdefault(key, []).append(host)
        reasons.setdefault(key, outcome)
    if not said:
        return (), None
    order = sorted(said)  # False before True: causes, then what they caused
    sentences = tuple(f"worker {', '.join(said[key])} {key[1]}" for key in order)
    first = reasons[order[0]]
    if first is not None and first.cause is Cause.NOT_AS_REQUESTED:
        return sentences, FidelityError(first.reason)  # exit code 3
    return sentences, TrainingError(f"{sentences[0]}; see hosts/ in the archive")


def not_slowed(facts: Mapping[str, HostFacts | None]) -> tuple[str, ...]:
    """A sentence if hosts could not be made slow: where a gradient measures 0 s there is nothing to pace by."""
    known = {host: each.compute for host, each in facts.items() if each is not None}
    found = [host for host, it in known.items() if it.speed is not None and it.agreed_s and not any(it.agreed_s)]
    if not found:
        return ()
    return (f"{', '.join(found)}: the clock of CPU time is too coarse for so short a gradient: computed at full speed",)
