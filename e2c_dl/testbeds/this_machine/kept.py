"""What of a run's directory outlives its release: run directories of hosts whose traces are not in an archive yet.

::

    RUN/state.json              so that the run is known: `e2c-dl collect RUN`, `e2c-dl destroy RUN`
    RUN/secrets.json            what must not stand in that archive
    RUN/hosts/HOST/work         of the hosts to keep
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from e2c_dl.testbeds.registry import SECRETS, STATE, locked

HOSTS, WORK = "hosts", "work"


def alone(directory: Path, keep: Collection[str]) -> bool:
    """Whether nothing else is in ``directory`` any more; not if nothing is to be kept."""
    return bool(keep) and not any(_others(directory, keep))


def strip(directory: Path, keep: Collection[str]) -> None:
    """Remove all else of ``directory``; all of it, if nothing is to be kept.

    State.json last, and at once with the directory: what has none is taken for a run that was killed before it had one.
    """
    for path in _others(directory, keep):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    if not keep:
        with locked(directory.parent):
            shutil.rmtree(directory)


def _others(directory: Path, keep: Collection[str]) -> list[Path]:
    hosts = [path for path in (directory / HOSTS).glob("*") if path.name in keep]
    inside = [path for host in hosts for path in host.iterdir() if path.name != WORK]
    strangers = [path for path in (directory / HOSTS).glob("*") if path.name not in keep]
    return [*inside, *strangers, *(path for path in directory.iterdir() if path.name not in (STATE, SECRETS, HOSTS))]
