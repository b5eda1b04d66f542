"""The lock of an archive: of several processes, one writes it. The kernel lets go of it, however that process ends.

Commands that fill the folder first, side by side, share it: who is last has it alone.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from e2c_dl.errors import ArchiveBusy

_held: dict[int, tuple[int, int]] = {}  # descriptors by which this process has archives -> device and number of each


def _leave_to_parent() -> None:
    while _held:  # a fork of the child has none of them: the numbers are others' by then
        os.close(_held.popitem()[0])


os.register_at_fork(after_in_child=_leave_to_parent)  # Ansible's forks may outlive it


@contextmanager
def held(path: Path, *, shared: bool = False, waits: bool = False) -> Iterator[None]:
    """The folder ``path`` is this process's alone, or ``shared`` by all who ask for that.

    Whoever comes second is refused, or ``waits``, but not for this process: what it has, it has. On a file system
    without locks it is so without. Raises: ArchiveBusy, OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)  # no lock file, which would be part of it
    identity = _identity(descriptor)
    is_own = waits and identity in tuple(_held.values())  # for itself it would wait for ever
    _held[descriptor] = identity
    try:
        with suppress(OSError):
            if not is_own:
                _lock(descriptor, path, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if waits else fcntl.LOCK_NB))
        yield
    finally:
        if descriptor in _held:  # else this is a child, which has left it
            del _held[descriptor]  # before it is closed
            os.close(descriptor)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _lock(descriptor: int, path: Path, kind: int) -> None:
    try:
        fcntl.flock(descriptor, kind)
    except BlockingIOError as error:
        raise ArchiveBusy(f"{path}: another process is writing it; try again when that has ended") from error
