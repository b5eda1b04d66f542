"""What traced ranks have left in a folder: their own words, and the traces that their script itself has written.

Asked on the ranks' own host, ``python -m e2c_dl.tracing.left FOLDER``: it alone sees the script's files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from e2c_dl import codec
from e2c_dl.archive import layout, nsys
from e2c_dl.archive.script_traces import kept_as
from e2c_dl.atomic_write import whole
from e2c_dl.beneath import Place
from e2c_dl.errors import E2cDlError
from e2c_dl.tracing.folder import FORMAT
from e2c_dl.tracing.rendezvous import boot

_COARSE_S = 2.0
_NSYS = "nsys"
_TO_SQLITE = ("export", "--type", "sqlite", "--force-overwrite", "true")
_EXPORT_S = 900.0
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
    versions: dict[str, str] = {}
    limitations: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()  # by the script itself
    directory: str = ""


def is_trace(folder: Path) -> bool:
    """Whether a traced rank has left its folder there."""
    return any((folder / layout.HOSTS).glob(f"*/{layout.TRACING}"))


def told(folder: Path) -> dict[str, Told]:
    """Host -> what its rank says, of all below ``folder``/hosts. Raises: ArchiveError."""
    hosts = folder / layout.HOSTS
    names = sorted(path.parent.name for path in hosts.glob(f"*/{layout.TRACING}"))
    return {name: codec.read(Place(folder) / layout.HOSTS / name / layout.TRACING, Told, FORMAT) for name in names}


def keep_written(folder: Path) -> tuple[str, ...]:
    """Copy the traces that the script itself has written beside its ranks'; a sentence for each that could not be.

    Those that a rank named (Horovod's timeline, torch.profiler's), and nsys reports in its working directory, each with
    its export. Files of one name are numbered. What is there already, and no older, is left. Raises: ArchiveError.
    """
    problems = []
    for name, each in told(folder).items():
        here = each.boot == boot()
        reports = sorted(Path(each.directory).glob(f"*{nsys.REPORT}")) if here and each.directory else []
        sources = [*map(Path, each.wrote), *(path for path in reports if not _is_earlier(path, each))]
        for source, target in zip(sources, kept_as(map(str, sources)), strict=True):
            kept = folder / layout.HOSTS / name / target
            problem = _kept(source, kept, each, here)
            problems += [] if problem is None else [f"{source}: is not in the archive: {problem}"]
            if source in reports and problem is None:
                problem = _exported(source, kept, each)
                problems += [] if problem is None else [f"{source}: its events are not in the archive: {problem}"]
    return tuple(problems)


def _exported(report: Path, kept: Path, each: Told) -> str | None:
    """Have what nsys exports of ``report`` beside the ``kept`` one; else why it is not, where nsys could have told."""
    made, target = (path.with_suffix(nsys.EXPORT) for path in (report, kept))
    program = shutil.which(_NSYS)
    if made.exists():
        return _kept(made, target, each, here=True)
    if program is None or (target.exists() and target.stat().st_mtime >= report.stat().st_mtime):
        return None  # without nsys, the export says what is to be done
    try:
        with whole(target) as place:
            command = [program, *_TO_SQLITE, "--output", str(place), str(report)]
            subprocess.run(command, check=True, capture_output=True, timeout=_EXPORT_S)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).decode(errors="replace").split()
        return f"`nsys export` failed: {' '.join(said)[-_SAID:]}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"`nsys export` failed: {error}"
    return None


def _kept(source: Path, target: Path, each: Told, here: bool) -> str | None:
    """``target`` is ``source``; else why it is not."""
    if not here:
        told = "it was written on another machine than this one, or before it was booted"
        return None if target.exists() else f"{told}; copy it to {target} before `e2c-dl collect`"
    try:
        if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
            return None
        if _is_earlier(source, each):
            return "it is older than this training"
        with whole(target) as place:
            shutil.copyfile(source, place)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _is_earlier(path: Path, each: Told) -> bool:
    """Whether it was there before the rank began. Files have coarser times than clocks tell."""
    try:
        return path.stat().st_mtime < each.begun_s - _COARSE_S
    except OSError:  # who copies it will tell
        return False


def main() -> None:
    """Keep what the script has written; print, as JSON, a sentence for each file that could not be kept."""
    try:
        print(json.dumps(keep_written(Path(sys.argv[1]))))
    except (E2cDlError, OSError) as error:
        print(json.dumps([str(error)]))


if __name__ == "__main__":
    main()
