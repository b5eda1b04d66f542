"""A file replaced in one step, with a little disk kept back so that it can be replaced even when the disk is full.

::

    run.json        the file; another process sees the old content or the new, never a part
    .run.json.new   the next content, until it is renamed over run.json
    .reserve        blocks already allocated: on a full disk the next content is written *into* them, then renamed;
                    who made this file has the place, others are told so

Writing in place needs no new block on ext4, XFS and tmpfs; where blocks are copied on write (btrfs, ZFS) a full disk
may refuse all the same, and the error says so.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from e2c_dl.errors import ArchiveError

RESERVE_BYTES = 1 << 20
SMALLEST_RESERVE_BYTES = 1 << 15
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})  # a quota that is used up is a full disk to its user


class ReservedFile:
    """``path``, and beside it the reserve that guarantees its next replacement."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reserve_path = path.with_name(".reserve")
        self._next = path.with_name(f".{path.name}.new")

    def replace(self, content: bytes) -> None:
        """``path`` holds ``content``, on the disk. Raises: ArchiveError if not even the reserve could take it."""
        try:
            _write(self._next, content)
            os.replace(self._next, self.path)
        except OSError as error:
            if error.errno not in FULL:
                raise ArchiveError(f"{self.path}: cannot be written: {error.strerror}") from error
            self._next.unlink(missing_ok=True)
            self._replace_from_reserve(content)
        _sync_directory(self.path.parent)

    def _replace_from_reserve(self, content: bytes) -> None:
        try:
            if not self.reserve_path.stat().st_size:  # given back, or used up
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            descriptor = os.open(self.reserve_path, os.O_WRONLY)  # not O_TRUNC: it would give the blocks back
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.truncate()  # the rest of the reserve's zeros
                file.flush()
                os.fsync(file.fileno())
            os.replace(self.reserve_path, self.path)
        except OSError as error:
            raise ArchiveError(f"{self.path}: the disk is full; make room, or name another --archive") from error
        self.keep()  # the old reserve is the file now

    def claim(self) -> bool:
        """Whether the directory of ``path``, empty until now, is this process's to fill. Raises: OSError."""
        if os.listdir(self.path.parent):  # first: what is somebody else's is not touched, not even for a moment
            return False
        try:
            os.close(os.open(self.reserve_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            return False
        if os.listdir(self.path.parent) == [self.reserve_path.name]:
            return True
        self.release()  # filled, and sealed, since the first look
        return False

    def keep(self) -> int:
        """Bytes held in reserve from now on: as many as the disk still gives, halving from 1 MiB; 0 on a full disk."""
        size = RESERVE_BYTES
        while size >= SMALLEST_RESERVE_BYTES:
            try:
                _write(self.reserve_path, b"\0" * size)  # bytes, not a size: a sparse file holds no blocks
            except OSError as error:
                self._give_back()
                if error.errno not in FULL:
                    raise ArchiveError(f"{self.reserve_path}: cannot be written: {error.strerror}") from error
                size //= 2
            else:
                return size
        return 0

    def release(self) -> None:
        """The reserve is gone, and what an interrupted replacement left: their space is free for the last files."""
        self._next.unlink(missing_ok=True)
        self.reserve_path.unlink(missing_ok=True)  # last: without it, another may claim the place

    def _give_back(self) -> None:
        """The reserve holds no blocks, and stays: it is what claims the place."""
        with suppress(FileNotFoundError):
            os.truncate(self.reserve_path, 0)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    """The rename itself is on the disk, not only in memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
