"""Files that are written whole or not at all: after a full disk or Ctrl-C the earlier file is as it was.

::

    .NAME.PID-THREAD.new   written by whoever asked, side by side with others   ---in one step--->   NAME

What can only be written in place is, and may be left half written:

* directly: a link, a device or a pipe (/dev/stdout is one of these), a file in a directory where none can be made;
* once all of it is there: a file that no other can take the place of, such as one that is mounted by itself.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from e2c_dl.errors import ArchiveError

ELSEWHERE = "name another file with --output"
_NONE_CAN_BE_MADE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)  # ENOENT: the writer fails, naming ``path``
_NOT_REPLACED = (errno.EBUSY, errno.EPERM)  # mounted; in a directory such as /tmp, and somebody else's


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Place to write what ``path`` shall hold: it takes ``path``'s place at the end, in one step, unless that failed.

    It is ``path`` itself where nothing can be made beside that. Raises: OSError.
    """
    fresh = _beside(path)
    if fresh is None:
        yield path
        return
    try:
        yield fresh
        _put(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)  # gone already where it took the place


@contextmanager
def written(
    path: Path, remedy: str = "make room there", *, how: Callable[[Path], AbstractContextManager[Path]] = whole
) -> Iterator[Path]:
    """The same, or ``how`` else, for who tells a user.

    Raises: ArchiveError, which ends with what to do: ``remedy``, or to make the folder that is missing.
    """
    try:
        with how(path) as place:
            yield place
    except OSError as error:
        instead = "make its folder first" if error.errno == errno.ENOENT else remedy
        raise ArchiveError(f"{path}: cannot be written: {error.strerror or error}; {instead}") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Place to write what ``path`` shall hold, whatever stands there: nothing is written through a link or into a pipe.

    For directories that others may have filled, such as an archive from elsewhere. Raises: OSError.
    """
    fresh = _fresh(path)
    fresh.unlink(missing_ok=True)  # a link of that name is not followed either
    try:
        fresh.touch(exist_ok=False)
        yield fresh
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _fresh(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}.new")


def _beside(path: Path) -> Path | None:
    """A new file beside ``path``, nobody else's; None: ``path`` is written directly, or fails under its own name."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return None
    fresh = _fresh(path)
    try:
        fresh.touch()  # now, not when it is written: whether one can be made decides where to write
    except OSError as error:
        if error.errno not in _NONE_CAN_BE_MADE:
            raise
        return None
    return fresh


def _put(fresh: Path, path: Path) -> None:
    try:
        fresh.replace(path)
    except OSError as error:
        if error.errno not in _NOT_REPLACED:
            raise
        shutil.copyfile(fresh, path)
