"""What traced ranks have left in a folder: their own words, and the traces that their script itself has written.

Asked on the ranks' own host, ``python -m e2c_dl.tracing.left FOLDER``: it alone sees the script's files.

::

    what a rank named     Horovod's timeline, torch.profiler's traces       beside that rank's spans
    reports of nsys       in the directories where ranks began and worked   once each: beside the lowest rank of those
                                                                            whose events its export has; where none
                                                                            tells, of those that worked there

Neither what is older than the rank nor what was written after it: that is another run's.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from e2c_dl import codec
from e2c_dl.archive import layout, nsys
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.script_traces import kept_as
from e2c_dl.atomic_write import whole
from e2c_dl.beneath import Place
from e2c_dl.errors import E2cDlError
from e2c_dl.redaction import of_command, of_environment
from e2c_dl.tracing.folder import FORMAT
from e2c_dl.tracing.launch import wait_for
from e2c_dl.tracing.rendezvous import boot

_COARSE_S = 2.0  # of files' times, which clocks tell finer
_LATE_S = 10.0  # between a rank's last word and the last that libraries write at its exit
_REPORT_S = 600.0  # ... and the report that nsys then makes
_NSYS = "nsys"
_TO_SQLITE = ("export", "--type", "sqlite", "--force-overwrite", "true")
_EXPORT_S = 900.0
_CONTROL = re.compile(rb"[\x00-\x1f]")
_COMMAND, _COMMAND_BYTES = b"nsys profile ", 16 << 10  # as it stands in a report, and how long it may be
_SAID = 300  # characters of what it said in the end


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank says of its tracing: ``tracing.json``."""

    format: int = FORMAT
    rank: int
    world_size: int
    pid: int
    boot: str
    machines: int = 1  # that its ranks ran on, as far as it knew; 0: not all of them were there to be asked
    layer: str = "all"
    begun_s: float = 0.0  # Unix time
    clocks: dict[str, int] = {}  # as they were when it said this
    versions: dict[str, str] = {}
    limitations: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()  # by the script itself
    directory: str = ""
    began_in: str = ""  # the directory of before


def is_trace(folder: Path) -> bool:
    """Whether a traced rank has left its folder there."""
    return any((folder / layout.HOSTS).glob(f"*/{layout.TRACING}"))


def told(folder: Path) -> dict[str, Told]:
    """Host -> what its rank says, of all below ``folder``/hosts. Raises: ArchiveError."""
    hosts = folder / layout.HOSTS
    names = sorted(path.parent.name for path in hosts.glob(f"*/{layout.TRACING}"))
    return {name: codec.read(Place(folder) / layout.HOSTS / name / layout.TRACING, Told, FORMAT) for name in names}


def keep_written(folder: Path, say: Callable[[str], None] = lambda _: None) -> tuple[str, ...]:
    """Copy the traces that the script itself has written beside its ranks'; a sentence for each that could not be.

    Files of one name are numbered. What is there already, and no older, is left. ``say`` is told what takes long before
    it begins. One process at a time may do this. Raises: ArchiveError.
    """
    ranks, problems = told(folder), list[str]()
    for name, each in ranks.items():
        for source, target in zip(map(Path, each.wrote), kept_as(each.wrote), strict=True):
            problem = _kept(source, folder / layout.HOSTS / name, target, each)
            problems += [] if problem is None else [f"{source}: is not in the archive: {problem}"]
    reports = _reports(ranks)
    for number, (report, beside) in enumerate(reports.items()):
        targets = {
            name: folder / layout.HOSTS / name / kept_as([*each.wrote, *map(str, reports)])[len(each.wrote) + number]
            for name, each in ranks.items()
        }
        try:
            for problem in _keep_report(report, beside, folder, ranks, targets, say):
                problems.append(f"{report}: {problem}")
        except OSError as error:
            problems.append(f"{report}: is not in the archive: {error.strerror or error}")
    return tuple(problems)


def _kept(source: Path, own: Path, target: str, each: Told) -> str | None:
    """``target`` in the folder ``own`` is ``source``; else why it is not."""
    kept = own / target
    if each.boot != boot():
        elsewhere = "it was written on another machine than this one, or before it was booted"
        return None if kept.exists() else f"{elsewhere}; copy it to {kept} before `e2c-dl collect`"
    try:
        if _is_fresh(kept, source):
            return None
        if _is_earlier(source, each):
            return "it is older than this training"
        if source.stat().st_mtime > _over_s(own, each) + _LATE_S:
            return None if kept.exists() else "it was written after this training"
        _copy(source, kept)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _reports(ranks: Mapping[str, Told]) -> dict[Path, list[str]]:
    """Reports of nsys where ranks of this machine were -> these, the lowest first, but those who came after it."""
    found: dict[Path, list[str]] = defaultdict(list)
    for name, each in sorted(ranks.items(), key=lambda item: item[1].rank):
        if each.boot == boot():
            places = {Path(place).resolve() for place in (each.directory, each.began_in) if place}
            for report in (path for place in places for path in place.glob(f"*{nsys.REPORT}")):
                if not _is_earlier(report, each):
                    found[report].append(name)
    return dict(sorted(found.items()))


@dataclass(frozen=True, kw_only=True)
class _Export:
    """What nsys exported of a report, as an archive keeps it."""

    path: Path
    processes: Collection[int]
    secrets: Collection[str]  # variables of the environment


def _keep_report(
    report: Path,
    beside: Sequence[str],
    folder: Path,
    ranks: Mapping[str, Told],
    targets: Mapping[str, Path],
    say: Callable[[str], None],
) -> Iterator[str]:
    """Keep ``report`` and its export as one of ``targets``, by rank; ``beside``: those it may be of. What cannot be so.

    Raises: ArchiveError, OSError.
    """
    made, program = report.with_suffix(nsys.EXPORT), shutil.which(_NSYS)
    exports = program is not None or _is_fresh(made, report)
    there = [tuple(_is_fresh(each, report) for each in (to, to.with_suffix(nsys.EXPORT))) for to in targets.values()]
    if any(kept and (exported or not exports) for kept, exported in there):
        return
    if report.stat().st_mtime > max(_over_s(folder / layout.HOSTS / name, ranks[name]) for name in beside) + _REPORT_S:
        yield "is not in the archive: it was written after this training"
        return
    held = set(_holds(report))
    if any(exported and not kept for kept, exported in there):  # withheld: else it had been kept before its export
        yield _withheld(held, "; its events are")
        return
    with TemporaryDirectory() as work:  # not in the archive: whatever ends this process, the environment is in there
        export = None
        try:
            export = _exported(report, program, Path(work), say) if exports else None
        except subprocess.CalledProcessError as error:
            said = (error.stderr or error.stdout).decode(errors="replace").split()
            yield f"its events are not in the archive: `nsys export` failed: {' '.join(said)[-_SAID:]}"
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            yield f"its events are not in the archive: {error}"
        owner, why = _owner(beside, ranks, export)
        if why:
            yield why
        if owner is None:
            return
        held |= set(export.secrets if export is not None else ())
        if held:
            yield _withheld(held, "; its events are" if export is not None else "")
        else:
            _copy(report, targets[owner])
        if export is not None:
            _copy(export.path, targets[owner].with_suffix(nsys.EXPORT))


def _withheld(held: Collection[str], events: str) -> str:
    secrets = ", ".join(sorted(held)) or "in an environment"
    return f"is not in the archive: it holds what looks like a secret ({secrets}){events}"


def _exported(report: Path, program: str | None, work: Path, say: Callable[[str], None]) -> _Export:
    """Raises: CalledProcessError, TimeoutExpired; OSError; ValueError, if it is no export."""
    made = report.with_suffix(nsys.EXPORT)
    if not _is_fresh(made, report):
        assert program is not None, "nor can one be made"
        say(f"nsys exports {report}")
        made = work / "all"
        command = [program, *_TO_SQLITE, "--output", str(made), str(report)]
        subprocess.run(command, check=True, capture_output=True, timeout=_EXPORT_S)
    nsys.write_read(made, work / "read")
    with nsys.opened(made) as export:
        return _Export(path=work / "read", processes=nsys.processes(export), secrets=nsys.secrets(export))


def _owner(beside: Sequence[str], ranks: Mapping[str, Told], export: _Export | None) -> tuple[str | None, str]:
    """(the rank beside whose spans it stands, None for none here; what is to be said of that)."""
    if export is not None and export.processes:
        own = sorted((each.rank, name) for name, each in ranks.items() if each.pid in export.processes)
        if not own:
            return None, "is not in the archive: none of the processes that it has events of is a rank of this training"
        return (own[0][1], "") if ranks[own[0][1]].boot == boot() else (None, "")  # its own machine keeps it
    alone = len(beside) == 1
    return beside[0], "" if alone else f"only its export would tell which rank's it is: it stands beside {beside[0]}'s"


def _holds(report: Path) -> Iterator[str]:
    """Secrets that stand in it, by name: those of this environment, and in its command. Raises: OSError."""
    if not report.stat().st_size:
        return
    with report.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for name, values in of_environment(os.environ).items():
            if any(content.find(os.fsencode(value)) >= 0 for value in values):
                yield name
        at = -1
        while (at := content.find(_COMMAND, at + 1)) >= 0:
            command = _CONTROL.split(content[at : at + _COMMAND_BYTES], 1)[0].decode(errors="replace").split()
            if of_command(command) != tuple(command):
                yield "its command"


def _copy(source: Path, target: Path) -> None:
    with whole(target) as place:
        shutil.copyfile(source, place)


def _is_fresh(kept: Path, source: Path) -> bool:
    """Whether ``kept`` is there, and no older than ``source``. Raises: OSError."""
    return kept.exists() and kept.stat().st_mtime >= source.stat().st_mtime


def _is_earlier(path: Path, each: Told) -> bool:
    """Whether it was there before the rank began."""
    try:
        return path.stat().st_mtime < each.begun_s - _COARSE_S
    except OSError:  # who copies it will tell
        return False


def _over_s(own: Path, each: Told) -> float:
    """Unix time of a rank's last word; of one that was killed, of its last record; infinity while it is there.

    Raises: ArchiveError, OSError.
    """
    outcome = HostRecords(own).outcome()
    if outcome is not None and outcome.ended_s is not None:
        return max(outcome.ended_s, each.clocks.get("unix_ns", 0) / 1e9)  # it may name a trace after its end
    if wait_for((each.pid,), 0.0):
        return math.inf
    return max(path.stat().st_mtime for path in own.iterdir() if path.name in layout.HOST_RECORDS)


def main() -> None:
    """Keep what the script has written; print, as JSON, a sentence for each file that could not be kept."""
    try:
        print(json.dumps(keep_written(Path(sys.argv[1]))))
    except (E2cDlError, OSError) as error:
        print(json.dumps([str(error)]))


if __name__ == "__main__":
    main()
