"""Traces of a script, made one archive: what its ranks left below hosts/, on this machine or on several.

::

    e2c-dl trace -- torchrun ...     DIR/hosts/NAME/ per rank ──── all ranks here? ──> DIR is the archive
                                                            └── no: e2c-dl collect DIR DIR ... --archive NEW
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import host_records, open_archive
from e2c_dl.archive.redact import redact
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.write import Archive
from e2c_dl.beneath import Place
from e2c_dl.diagnosis.diagnose import diagnose, read_report
from e2c_dl.diagnosis.prefix import TRACED
from e2c_dl.diagnosis.scripts import WORLD_SIZE
from e2c_dl.errors import E2cDlError, InputError
from e2c_dl.formatting import percent
from e2c_dl.redaction import Redactor, without_found
from e2c_dl.report.page.html import write_report
from e2c_dl.report.verdict import verdict_of
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.load import load
from e2c_dl.testbeds import described
from e2c_dl.trace.model import MOST_NS
from e2c_dl.trace.places import recorded
from e2c_dl.tracing.left import Told, keep_written, told

NO_REPORT = "there is no report"
CROWDED = 0.1  # of the time in which a rank could have run: from here on it is told how long it waited for a processor
NO_DESIGN = "no scenario: links and hosts are compared with each other and with their own past, not with a design"


@dataclass(frozen=True, kw_only=True)
class Ran:
    """The command that was traced."""

    command: tuple[str, ...] = ()
    exit_code: int = 0


def collected(
    folders: Sequence[Path],
    target: Path,
    scenario: Path | None = None,
    ran: Ran | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """The archive ``target`` of the traces that stand in ``folders``, reported and sealed.

    It may be the only one of ``folders`` itself. ``say`` is told what is waited for and, as the archive is, which of
    the script's own traces are not in it. Until these are there it is no archive: where this breaks off, it can be
    done again. Raises: InputError if there is no trace, or two folders have the same rank; ArchiveError, ScenarioError.
    """
    found = _checked(folders)
    if scenario is not None:
        load(scenario)
    if [folder.resolve() for folder in folders] != [target.resolve()]:
        _copied(folders, target)
    started, ended = _times(target, found)
    problems: list[str] = []

    def first() -> None:
        problems.extend(keep_written(target, lambda line: say(without_found(line))))
        problems.extend(redact(target, Redactor()))

    archive = Archive.around(target, secrets.token_hex(4), started=started, first=first)
    try:
        for sentence in map(without_found, problems):
            archive.limited(sentence)
            say(sentence)
        redacted = told(target)
        _recorded(archive, {name: redacted[name] for name in found}, scenario, ran or Ran(), ended)
        _reported(archive)
        archive.seal()
    finally:
        archive.let_go()
    return target


def _times(target: Path, hosts: Iterable[str]) -> tuple[str, str]:
    """When the first of ``hosts`` was looked at first, and the last one last, by their times of day; else now."""
    facts = (host_records(target, host).facts() for host in hosts)
    told_ns = (unix_ns for each in facts if each is not None for _, unix_ns in each.wall_clock)
    seen_ns = [unix_ns for unix_ns in told_ns if abs(unix_ns) <= MOST_NS]
    now_ns = time.time_ns()
    ends_ns = min(seen_ns, default=now_ns), max(seen_ns, default=now_ns)
    first, last = (datetime.fromtimestamp(ns / 1e9, timezone.utc).astimezone() for ns in ends_ns)
    return first.isoformat(timespec="seconds"), last.isoformat(timespec="seconds")


def missing(found: Mapping[str, Told]) -> tuple[int, ...]:
    """Ranks of the run that left nothing in these."""
    ranks = {each.rank for each in found.values()}
    return tuple(rank for rank in range(max(each.world_size for each in found.values())) if rank not in ranks)


def _checked(folders: Sequence[Path]) -> dict[str, Told]:
    found: dict[str, Told] = {}
    ranks: dict[int, str] = {}
    for folder in folders:
        here = told(folder)
        if not here:
            raise InputError(f"{folder}: no rank has left a trace there; name what `e2c-dl trace --archive` was given")
        for name, each in here.items():
            if each.rank in ranks or name in found:
                other = ranks.get(each.rank, name)
                raise InputError(f"{folder}: rank {each.rank} of {name} is there twice, as {other}; name each run once")
            found[name], ranks[each.rank] = each, name
    return found


def _copied(folders: Iterable[Path], target: Path) -> None:
    if target.exists() and any(target.iterdir()):
        raise InputError(f"{target}: is not empty; name a new directory with --archive")
    for folder in folders:
        for name in told(folder):
            shutil.copytree(folder / layout.HOSTS / name, target / layout.HOSTS / name)
            own = recorded(folder, name)
            for table in (own.table, own.connections):  # of one that was collected before
                if table.exists():
                    (target / table.name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(table.path, target / table.name)
        if (folder / layout.ATTEMPTS).is_dir():
            shutil.copytree(folder / layout.ATTEMPTS, target / layout.ATTEMPTS, dirs_exist_ok=True)


def _recorded(archive: Archive, found: Mapping[str, Told], scenario: Path | None, ran: Ran, ended: str) -> None:
    name = ""
    if scenario is not None:
        copies.overridden(scenario, archive.path / layout.SCENARIO)
        name = load(archive.path / layout.SCENARIO).name
    archive.record(
        scenario=name, testbed="traced", command=ran.command,
        hosts=[{"name": host, "layer": each.layer, "rank": each.rank} for host, each in found.items()],
        facts={TRACED: {"exit_code": ran.exit_code}},
    )  # fmt: skip
    if scenario is None:
        archive.limited(NO_DESIGN)
    happened = [f"the command exited with {ran.exit_code}"] if ran.exit_code else []
    happened += noted(archive, found)
    archive.end(Outcome.FAILED if happened else Outcome.FINISHED, ended, *happened)


def noted(archive: Archive, found: Mapping[str, Told]) -> list[str]:
    """What the ranks that left ``found`` in ``archive`` say of themselves is in its run.json; what happened to them."""
    versions = described.versions(each.versions for each in found.values())
    size = max(each.world_size for each in found.values())
    archive.record(versions={**versions, **archive.run.versions}, facts={TRACED: {WORLD_SIZE: size}})
    about = (*_limitations(found), *_unlike(found), *_crowded(archive.path, found), *_begun_anew(archive.path))
    for sentence in about:
        archive.limited(sentence)
    return _happened(archive.path, found)


def _limitations(found: Mapping[str, Told]) -> list[str]:
    said: dict[str, list[str]] = {}
    for host, each in found.items():
        for sentence in each.limitations:
            said.setdefault(sentence, []).append(host)
    return [
        sentence if len(hosts) == len(found) else f"{', '.join(hosts)}: {sentence}" for sentence, hosts in said.items()
    ]


def _unlike(found: Mapping[str, Told]) -> list[str]:
    """That ranks do not agree how many they are, as where some left an elastic run, or are of another run."""
    of: dict[int, list[str]] = {}
    for host, each in found.items():
        of.setdefault(each.world_size, []).append(host)
    said = "; ".join(f"{', '.join(hosts)}: {size}" for size, hosts in sorted(of.items()))
    return [f"ranks do not agree how many they are ({said}): not all may have trained together"] if len(of) > 1 else []


def _crowded(path: Path, found: Iterable[str]) -> list[str]:
    """That ranks waited for processors, if one of them did for more than :data:`CROWDED` of its time."""
    read = open_archive(path)
    facts = {host: read.host(host).facts() for host in found}
    shares = {host: each.processor.waited_share for host, each in facts.items() if each and each.processor}
    most = max(shares, key=shares.__getitem__, default="")
    if shares.get(most, 0.0) < CROWDED:
        return []
    share = f"{most} for {percent(shares[most])} of the time in which it could have run"
    apart = "what their computing waited is judged by itself; what other threads and links waited is not told"
    return [f"ranks waited for processors that others had, {share}: {apart}"]


def _begun_anew(path: Path) -> list[str]:
    attempts = Place(path) / layout.ATTEMPTS
    times = len(attempts.folders())
    kept = f"what ranks recorded before is kept in {layout.ATTEMPTS}/, and counted nowhere"
    often = "once" if times == 1 else f"{times} times"
    return [f"torchrun began all ranks anew {often}: {kept}"] if times else []


def _happened(path: Path, found: Mapping[str, Told]) -> list[str]:
    gone = missing(found)
    happened = [f"ranks {', '.join(map(str, gone))} left no trace"] if gone else []
    read = open_archive(path)
    for host in found:
        outcome = read.host(host).outcome()
        if outcome is None:
            why = "killed, os._exit, or a full disk"
            happened.append(f"{host}: its process ended without a word ({why}): its trace ends there")
        elif outcome.reason:
            happened.append(f"{host}: {outcome.reason}")
    return happened


def _reported(archive: Archive) -> None:
    """Write the report, or say why there is none."""
    try:
        left = open_archive(archive.path)
        write_report(left, diagnose(left))
    except E2cDlError as error:
        archive.limited(f"{NO_REPORT}: {error}")


def headline(archive: Path) -> tuple[str, ...]:
    """What to say of the archive, a line each."""
    read = open_archive(archive)
    lines = [*read.run.what_happened]
    if (archive / layout.REPORT_JSON).is_file():
        lines.append(verdict_of(read_report(read)).headline)
    else:
        lines += [sentence for sentence in read.run.limitations if sentence.startswith(NO_REPORT)]
    return (*lines, f"archive {archive}; `e2c-dl report {archive}` says more")
