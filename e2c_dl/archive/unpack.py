"""Unpacking of what a host sent, which may be anything: bounded, nothing followed, and all that can be is kept.

::

    HOST.tar.gz   gzip( member | member | member ... | zeros ) checksum
                        of these, plain files at the top level that were asked for

What is damaged is unpacked up to there: files before it wholly, the one that breaks off if it is of a kind that grows
while it is written, as everybody reads these as far as they go.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from e2c_dl import formatting
from e2c_dl.beneath import Place, placed
from e2c_dl.errors import ArchiveError

LIMIT_BYTES = 4 << 30
"""All that one host may leave, unpacked: a day's trace is some 100 MiB, the parameters of a model may be GiB."""

GROWING = (".bin", ".jsonl", ".csv", ".log")
PIECE_BYTES = 1 << 20
LONGEST_NAME = 4096  # as a system has paths

BARE = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE)
"""Members without content, whatever size they claim."""


class Unpacked(NamedTuple):
    """Files that stand there now, and what is wrong with what was sent, in one sentence; None: nothing is."""

    names: tuple[str, ...]
    damage: str | None


class _Damage(Exception):
    """What was sent cannot be read on from here."""


class _TooMuch(_Damage):
    """It could be read on, and is not."""


def unpack(packed: Path, into: Path, names: Collection[str], limit_bytes: int = LIMIT_BYTES) -> Unpacked:
    """The files ``names`` of ``packed``, as far as it holds them, stand in the folder ``into``; others are left out.

    Damage to one host's file is no reason to lose what others left, so it is returned, in a sentence that tells what
    was kept. Raises: ArchiveError if ``into`` cannot be written.
    """
    try:
        file = placed(packed).opened()
    except ArchiveError as error:
        return Unpacked((), str(error))
    done = _Done(Place(into), frozenset(names))
    with file:
        try:
            done.take(_Stream(file, limit_bytes))
        except _Damage as damage:
            done.wrong.append(str(damage))
        except OSError as error:  # of writing: what reading raises is damage
            raise ArchiveError(f"{into}: cannot be written: {error.strerror}; make room there") from error
    return done.told(packed.name)


class _Done:
    """What was unpacked so far."""

    def __init__(self, into: Place, wanted: frozenset[str]) -> None:
        self._into, self._wanted = into, wanted
        self._kept: dict[str, str] = {}  # name -> how much of it, in words; empty: all
        self.wrong: list[str] = []

    def take(self, stream: _Stream) -> None:
        """Raises: _Damage; OSError."""
        for member in _members(stream):
            name = member.name.removeprefix("./")
            if name not in self._wanted:
                stream.skip(member.size)
            elif member.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
                self._save(name, stream, member.size)
            else:  # a host may send anything: links of its own are not followed
                self.wrong.append(f"{name} is no plain file")
                stream.skip(member.size)
            stream.skip(-member.size % tarfile.BLOCKSIZE)
        stream.finish()

    def told(self, what: str) -> Unpacked:
        names = tuple(self._kept)
        if not self.wrong:
            return Unpacked(names, None)
        kept = ", ".join(f"{name}{how}" for name, how in self._kept.items()) or "nothing"
        return Unpacked(names, f"{what}: {'; '.join(self.wrong)}; kept of it: {kept}")

    def _save(self, name: str, stream: _Stream, size: int) -> None:
        torn = None
        with (self._into / name).replaced() as file:
            try:
                for piece in stream.pieces(size):
                    file.write(piece)
            except _Damage as damage:
                if isinstance(damage, _TooMuch) or not name.endswith(GROWING):
                    raise
                torn = damage
        self._kept[name] = " up to there" if torn else ""
        if torn:
            raise torn


class _Stream:
    """What ``file`` holds, decompressed piece by piece, at most ``limit_bytes``. Every method raises _Damage."""

    def __init__(self, file: IO[bytes], limit_bytes: int) -> None:
        self._plain = gzip.GzipFile(fileobj=file, mode="rb")
        self._limit_bytes = self._left_bytes = limit_bytes

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next ``size`` bytes; what there is of them, if it is cut off."""
        while size > 0:
            piece = self._some(min(size, PIECE_BYTES))
            if not piece:
                raise _Damage("it is cut off")
            size -= len(piece)
            yield piece

    def skip(self, size: int) -> None:
        for _ in self.pieces(size):
            pass

    def finish(self) -> None:
        """Read to the end, where the checksum stands: nothing but zeros may come before it."""
        while piece := self._some(PIECE_BYTES):
            if piece.strip(b"\0"):
                raise _Damage("it goes on after its end")

    def _some(self, most: int) -> bytes:
        try:
            piece = self._plain.read1(most)  # not read: that loses what came just before the damage
        except EOFError as error:
            raise _Damage("it is cut off") from error
        except (OSError, zlib.error) as error:  # a checksum that is another, too
            raise _Damage(f"it is damaged ({error})") from error
        self._left_bytes -= len(piece)
        if self._left_bytes < 0:
            raise _TooMuch(f"it holds more than {formatting.size(self._limit_bytes)}, which no host leaves")
        return piece


def _members(stream: _Stream) -> Iterator[tarfile.TarInfo]:
    """Headers up to the block of zeros at the end; whoever takes one reads its content. Raises: _Damage.

    Not by TarFile: it takes a header as long as it says it is into memory, and a damaged one for the end.
    """
    name = ""  # of the next one, where that is long
    while any(block := b"".join(stream.pieces(tarfile.BLOCKSIZE))):
        try:
            member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.TarError as error:
            raise _Damage(f"it is damaged ({error})") from error
        if member.size < 0:
            raise _Damage("it is damaged (a negative size)")
        if member.type == tarfile.GNUTYPE_LONGNAME and member.size <= LONGEST_NAME:
            name = b"".join(stream.pieces(member.size)).rstrip(b"\0").decode("utf-8", "surrogateescape")
            stream.skip(-member.size % tarfile.BLOCKSIZE)
            continue
        if member.type in BARE:
            member.size = 0
        member.name, name = name or member.name, ""
        yield member
