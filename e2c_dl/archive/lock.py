"""The lock of an archive: of several processes, one writes it. The kernel lets go of it, however that process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from e2c_dl.errors import ArchiveBusy

_held: set[int] = set()  # descriptors by which this process has archives to itself


def _leave_to_parent() -> None:
    for descriptor in _held:
        os.close(descriptor)


os.register_at_fork(after_in_child=_leave_to_parent)  # Ansible's forks may outlive it


@contextmanager
def held(path: Path) -> Iterator[None]:
    """The folder ``path`` is this process's alone, but on a file system without locks. Raises: ArchiveBusy, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)  # no lock file, which would be part of it
    _held.add(descriptor)
    try:
        with suppress(OSError):
            _lock(descriptor, path)
        yield
    finally:
        _held.discard(descriptor)  # before it is closed
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ArchiveBusy(f"{path}: another process is writing it; try again when that has ended") from error
