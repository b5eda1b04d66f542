"""Files of a directory that anybody may have made, such as an archive from elsewhere: nothing in it is followed.

::

    Place(archive) / "hosts" / "edge-1" / "run.json"
          root       every component below it is opened beneath the one before, without following links;
                     what is opened must be a plain file, and is never waited for (a pipe), nor endless (a device)

The root itself is the user's to name, and may be a link. For reading and for writing alike.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from e2c_dl.errors import ArchiveError

SMALL_BYTES = 64 << 20
"""What a record may hold: one that holds more was not written by a run."""

LARGE_BYTES = 1 << 30
"""What a trace, a table or a log may hold: they are read as a whole."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLLOWED = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)  # a link; one on the way, or a file there; a socket
ODD = "is a link or no plain file, or lies behind one, and nothing in an archive is followed; remove it"


@dataclass(frozen=True)
class Place:
    """The file or folder ``name`` (with ``/``; empty: itself) below the folder ``root``. It need not exist."""

    root: Path
    name: str = ""

    def __truediv__(self, name: str) -> Place:
        return Place(self.root, f"{self.name}/{name}" if self.name else name)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def path(self) -> Path:
        """For messages, and for what is this program's own; opened by it, links would be followed."""
        return self.root / self.name

    def exists(self) -> bool:
        """Whether anything stands there, odd or not. Raises: ArchiveError for a link on the way."""
        return self._mode() is not None

    def is_folder(self) -> bool:
        """Whether a folder, and no link to one, stands there. Raises: ArchiveError for a link on the way."""
        return stat.S_ISDIR(self._mode() or 0)

    def folders(self) -> tuple[str, ...]:
        """Names of the folders in this one, sorted; none if it is not there. Raises: ArchiveError for a link."""
        if not self.exists():
            return ()
        inner = [(name, self / name) for name in self.names()]
        for _, place in inner:
            if stat.S_ISLNK(place._mode() or 0):
                raise ArchiveError(f"{place}: {ODD}")
        return tuple(name for name, place in inner if place.is_folder())

    def refuse_odd(self) -> None:
        """Nothing, if all that lies below are plain files and folders. Raises: ArchiveError, naming what is not."""
        for name in self.names():
            inner = self / name
            if inner.is_folder():
                inner.refuse_odd()
            elif not inner.is_plain():
                raise ArchiveError(f"{inner}: {ODD}")

    def is_plain(self) -> bool:
        """Whether a plain file, and no link to one, stands there. Raises: ArchiveError for a link on the way."""
        return stat.S_ISREG(self._mode() or 0)

    def names(self) -> tuple[str, ...]:
        """What the folder holds, sorted. Raises: ArchiveError if it is none, or cannot be read."""
        with _told(self), self._folder(_components(self.name)) as folder:
            return tuple(sorted(os.listdir(folder)))

    def opened(self) -> BinaryIO:
        """The plain file that stands there, to be read. Raises: ArchiveError, also if there is none."""
        *above, last = _components(self.name, file=True)
        with _told(self), self._folder(above) as folder:
            descriptor = os.open(last, _READ, dir_fd=folder)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ArchiveError(f"{self}: {ODD}")
                return os.fdopen(descriptor, "rb")
            except BaseException:
                os.close(descriptor)
                raise

    def read(self, most_bytes: int = SMALL_BYTES) -> bytes:
        """Its content. Raises: ArchiveError, also if it holds more than ``most_bytes``."""
        with self.opened() as file, _told(self):
            if os.fstat(file.fileno()).st_size > most_bytes:
                raise ArchiveError(f"{self}: holds more than {most_bytes >> 20} MiB, as no such file does; remove it")
            return file.read(most_bytes)

    @contextmanager
    def replaced(self) -> Iterator[BinaryIO]:
        """File to write what shall stand there: it takes its place at the end, in one step, unless that failed.

        A link of that name is replaced, not followed. Raises: OSError; ArchiveError for a link on the way.
        """
        *above, last = _components(self.name, file=True)
        fresh = f".{last}.{secrets.token_hex(4)}.new"
        with self._folder(above, self) as folder:
            try:
                with os.fdopen(os.open(fresh, _CREATE, 0o666, dir_fd=folder), "wb") as file:
                    yield file
                os.replace(fresh, last, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                _remove(fresh, folder)  # gone already where it took the place

    def _mode(self) -> int | None:
        """What stands there, links not followed; None: nothing."""
        components = _components(self.name)
        try:
            if not self.root.is_dir():
                return None
            with self._folder(components[:-1], self) as folder:
                last = components[-1] if components else "."
                return os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _wrong(self, error) from error

    @contextmanager
    def _folder(self, components: list[str] | tuple[str, ...], place: Place | None = None) -> Iterator[int]:
        """The open folder ``components`` below the root. Raises: OSError; with ``place``, ArchiveError for a link."""
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the user's: may be a link
        try:
            for component in components:
                above, descriptor = descriptor, _beneath(component, descriptor, place)
                os.close(above)
            yield descriptor
        finally:
            os.close(descriptor)


def placed(file: Path | Place) -> Place:
    """``file``; a path's folder is trusted: only the file itself may not be a link."""
    return file if isinstance(file, Place) else Place(file.parent, file.name)


def _beneath(component: str, above: int, place: Place | None) -> int:
    try:
        return os.open(component, _FOLDER, dir_fd=above)
    except OSError as error:
        if place is not None and error.errno in _FOLLOWED:
            raise ArchiveError(f"{place}: {ODD}") from error
        raise


def _components(name: str, *, file: bool = False) -> tuple[str, ...]:
    """Raises: ArchiveError for a name that leaves its root, or is it, which is no ``file``."""
    parts = PurePosixPath(name).parts
    if (file and not parts) or ".." in parts or name.startswith("/") or "\0" in name:
        raise ArchiveError(f"{name!r}: is not a path inside an archive")
    return parts


@contextmanager
def _told(place: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _wrong(place, error) from error


def _wrong(place: Place, error: OSError) -> ArchiveError:
    return ArchiveError(f"{place}: {ODD if error.errno in _FOLLOWED else f'cannot be read: {error.strerror}'}")


def _remove(name: str, folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
