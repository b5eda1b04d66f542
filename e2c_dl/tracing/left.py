"""What traced ranks have left in a folder: their own words, and the traces that their script itself has written.

Asked on the ranks' own host, ``python -m e2c_dl.tracing.left FOLDER``: it alone sees the script's files.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import msgspec

from e2c_dl import codec
from e2c_dl.archive import layout
from e2c_dl.beneath import Place
from e2c_dl.errors import E2cDlError
from e2c_dl.tracing.folder import FORMAT


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank says of its tracing: ``tracing.json``."""

    format: int = FORMAT
    rank: int
    world_size: int
    pid: int
    boot: str
    machines: int = 1  # that its ranks ran on, as far as it knew; 0: not all of them were there to be asked
    layer: str = "all"
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


def keep_written(folder: Path, since_s: float) -> tuple[str, ...]:
    """Copy the traces that the script itself has written since then (Unix time) beside its ranks'; what could not be.

    Those that a rank named (Horovod's timeline, torch.profiler's), and nsys reports in the working directory.
    """
    problems = []
    for name, each in told(folder).items():
        reports = Path(each.directory).glob("*.nsys-rep") if each.directory else ()
        for path in [*map(Path, each.wrote), *reports]:
            target = folder / layout.HOSTS / name / path.name
            try:
                if path.stat().st_mtime < since_s or target.exists():
                    continue
                shutil.copyfile(path, target)
            except OSError as error:
                problems.append(f"{path}: is not in the archive: {error.strerror}")
    return tuple(problems)


def main() -> None:
    """Keep what the script has written; print, as JSON, a sentence for each file that could not be kept."""
    folder = Path(sys.argv[1])
    try:
        since_s = folder.stat().st_mtime if folder.is_dir() else 0.0  # when its first rank met the others
        print(json.dumps(keep_written(folder, since_s)))
    except (E2cDlError, OSError) as error:
        print(json.dumps([str(error)]))


if __name__ == "__main__":
    main()
