"""An append-only log of records on disk, written while they happen: ``kill -9`` loses at most the last quarter second.

::

    any thread     append --> records in memory          no lock, no system call; or see :meth:`Log.fed_by`
    one thread     every 0.25 s, or when there are many: frames --> file        see e2c_dl.trace.recording.frames
    a fork         has the log, but never writes to it: what it appends is let go
    a full disk    is told once; by default every later append raises it, with ``on_failure`` the log is silent from
                   then on: a script that is only watched goes on

Memory is bounded: if the disk cannot keep up, ``append`` writes by itself.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from e2c_dl.beneath import LARGE_BYTES, Place, placed
from e2c_dl.errors import ArchiveError, TrainingError
from e2c_dl.trace.recording.descriptors import identity, is_still
from e2c_dl.trace.recording.errands import Errands
from e2c_dl.trace.recording.frames import END, HEADER, MOST_PAYLOAD, SYNC, Frames, Scanner, framed, told_dropped

__all__ = ["FLUSH_EVERY_S", "Frames", "Log", "is_log", "read_log"]

FLUSH_EVERY_S = 0.25
CAPACITY = 4096  # records in memory when the writing thread is woken before its time
_MOST = 4 * CAPACITY  # ... when append writes by itself
_RECORDS_PER_FRAME = 32  # what one flipped bit may cost where records share frames
_KEPT_FREE_BYTES = 4096  # of a cap: for what says how many were dropped, and the end


class Log:
    """Appends records to ``path``; any thread of the process that made it may.

    ::

        with Log(path, {"rank": 3}) as log:
            log.append(1, b"...")

    ``header``: JSON values that say what the records are. ``record_bytes``: all records have this length, and share
    frames. ``cap_bytes``: the file never gets larger; records that no longer fit are dropped and counted.
    ``errands``: whose thread writes; a log that is told of none has one of its own. ``flush_every_s`` None: none does,
    and whoever has it flushes in time.

    Raises: TrainingError, if ``path`` cannot be created or written.
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        *,
        flush_every_s: float | None = FLUSH_EVERY_S,
        cap_bytes: int | None = None,
        record_bytes: int | None = None,
        on_failure: Callable[[TrainingError], None] | None = None,
        capacity: int = CAPACITY,
        errands: Errands | None = None,
    ) -> None:
        self.path = path
        self.dropped = 0  # records left out on purpose, or after a failure
        self.written_bytes = 0
        self._header = framed(HEADER, json.dumps(dict(header)).encode(), number=0, records=0)
        self._room_bytes = None if cap_bytes is None else cap_bytes - len(self._header) - _KEPT_FREE_BYTES
        self._per_frame = 1 if record_bytes is None else min(_RECORDS_PER_FRAME, MOST_PAYLOAD // record_bytes)
        self._on_failure = on_failure
        self._capacity = capacity
        self._source: Callable[[], None] | None = None
        # Kind, payload, records. Its append and popleft are atomic: appending takes no lock.
        self._pending: deque[tuple[int, bytes, int]] = deque()
        self._writing = threading.RLock()  # keeps the file in the order of appending; a source may append very much
        self._failure: TrainingError | None = None
        self._numbered = 0
        self._told = 0  # dropped records that the file knows of
        self._process = os.getpid()
        self._errands = errands or Errands()
        self._every_s = flush_every_s or 0.0
        self._closed = False
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        except OSError as error:
            raise _unwritable(path, error) from error
        self._opened = identity(self._file)
        try:
            self._write(self._header * 2)
        except TrainingError:
            os.close(self._file)
            raise
        if flush_every_s is not None:
            self._errands.add(self._write_pending, flush_every_s)

    def fed_by(self, source: Callable[[], None]) -> None:
        """From now on ``source`` is called before each writing, by whoever writes, and appends what it has."""
        self._source = source

    def append(self, kind: int, payload: bytes) -> None:
        """Add a record of ``kind`` (1 to 0xFFFD). Raises: TrainingError if a write failed and nobody else is told."""
        if self._failure is not None:
            self._refuse()
            return
        self._pending.append((kind, payload, 1))
        if len(self._pending) >= self._capacity:
            self._relieve()

    def extend(self, kind: int, payloads: Sequence[bytes]) -> None:
        """Add some of ``kind``, which all have ``record_bytes``. Raises: TrainingError, as ``append``."""
        if self._failure is not None:
            self._refuse()
            return
        for begin in range(0, len(payloads), self._per_frame):
            some = payloads[begin : begin + self._per_frame]
            self._pending.append((kind, b"".join(some), len(some)))

    def wake(self) -> None:
        """Have what there is written soon, by the thread that writes."""
        self._errands.hurry(self._write_pending)

    def drop(self, records: int) -> None:
        """Count records that whoever appends has left out."""
        self.dropped += records

    @property
    def failure(self) -> TrainingError | None:
        """Why nothing is written any more."""
        return self._failure

    def flush(self) -> None:
        """Hand everything appended so far to the kernel. Raises: TrainingError, as ``append``."""
        if os.getpid() != self._process:  # before the lock, which nobody may be left to release
            self._pending.clear()
            return
        with self._writing:
            if self._failure is None:
                if self._source is not None:
                    self._source()
                taken = [self._pending.popleft() for _ in range(len(self._pending))]
                self._try(b"".join(self._frames(taken)))
        if self._failure is not None:
            self._refuse()

    def close(self) -> None:
        """Flush, and end the file. A second call does nothing. Raises: TrainingError, as ``append``."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() == self._process:
            self._errands.remove(self._write_pending)
        try:
            self.flush()
            if os.getpid() == self._process and self._failure is None:
                self._end()
        finally:
            self._close()

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _end(self) -> None:
        told = told_dropped(self.dropped, number=self._numbered) if self.dropped else b""
        self._try(told + self._header + framed(END, b"", number=self._numbered, records=0))
        if self._failure is not None:
            self._refuse()

    def _relieve(self) -> None:
        """Have the pending records written, by the other thread if it can keep up."""
        if len(self._pending) >= _MOST or os.getpid() != self._process:
            self.flush()
        else:
            self.wake()

    def _refuse(self) -> None:
        """After a failure: raise it, or let go of what cannot be written. Raises: TrainingError."""
        if self._on_failure is None:
            assert self._failure is not None
            raise self._failure
        self.dropped += 1 + len(self._pending)
        self._pending.clear()

    def _write_pending(self) -> float | None:
        """The errand: seconds until the next; None: a write failed."""
        try:
            self.flush()
        except TrainingError:
            return None  # kept in _failure: the next to append, flush or close raises it
        return None if self._failure is not None else self._every_s

    def _frames(self, taken: list[tuple[int, bytes, int]]) -> Iterator[bytes]:
        """Frames of the records taken, in their order; those of one kind share some, as far as they may."""
        begin = 0
        while begin < len(taken):
            (kind, payload, records), end = taken[begin], begin + 1
            while end < len(taken) and records + taken[end][2] <= self._per_frame and taken[end][0] == kind:
                records += taken[end][2]
                end += 1
            if end > begin + 1:
                payload = b"".join([each for _, each, _ in taken[begin:end]])
            yield self._frame(kind, payload, records)
            begin = end

    def _frame(self, kind: int, payload: bytes, records: int) -> bytes:
        """The frame, after one that tells of records dropped before it; nothing if there is no room for it."""
        frame = framed(kind, payload, number=self._numbered, records=records)
        if len(payload) > MOST_PAYLOAD or not self._has_room(len(frame)):
            self.dropped += records
            return b""
        told = b""
        if self._told != self.dropped:
            told = told_dropped(self.dropped, number=self._numbered)
            self._told = self.dropped
        self._numbered += records
        return told + frame

    def _close(self) -> None:
        """Raises: TrainingError, as ``append``: NFS may say only now that there was no room."""
        if not is_still(self._file, self._opened):  # a program that closes all numbers has closed it
            return
        try:
            os.close(self._file)
        except OSError as error:
            if self._failure is None and os.getpid() == self._process:
                failure = _unwritable(self.path, error)
                self._fail(failure)
                if self._on_failure is None:
                    raise failure from error

    def _has_room(self, size_bytes: int) -> bool:
        if self._room_bytes is None:
            return True
        if size_bytes > self._room_bytes:
            return False
        self._room_bytes -= size_bytes
        return True

    def _try(self, content: bytes) -> None:
        """Write; a failure is kept, and told once."""
        try:
            self._write(content)
        except TrainingError as failure:
            self._fail(failure)

    def _fail(self, failure: TrainingError) -> None:
        self._failure = failure
        if self._on_failure is not None:
            self._on_failure(failure)

    def _write(self, content: bytes) -> None:
        try:
            if content and identity(self._file) != self._opened:  # its number is another file's by now
                raise OSError(errno.EBADF, "another file's")
            while content:
                written = os.write(self._file, content)
                self.written_bytes += written
                content = content[written:]
        except OSError as error:
            raise _unwritable(self.path, error) from error


def read_log(path: Path | Place) -> Frames:
    """What the log holds, as far as it can be read: a flipped bit loses its own frame only.

    Raises: ArchiveError, if the file cannot be read, is no log, or no copy of its header can be read.
    """
    content = placed(path).read(LARGE_BYTES)
    scanner = Scanner()
    found = scanner.result(scanner.feed(content, last=True))
    if found.header is None:
        what = "no copy of its header is readable" if SYNC[:3] in content else "it is no log of e2c-dl"
        raise ArchiveError(f"{path}: cannot read the trace: {what}; name a spans.bin or connections.bin of a run")
    return found


def is_log(content: bytes) -> bool:
    """Whether a file that begins with ``content`` is read as a log, damaged or not."""
    return SYNC[:3] in content


def _unwritable(path: Path, error: OSError) -> TrainingError:
    if error.errno == errno.EBADF:
        closed = "the program has closed its file, as os.closerange does"
        return TrainingError(f"{path}: cannot write the trace: {closed}; close what the program itself opened")
    return TrainingError(f"{path}: cannot write the trace: {error.strerror}; make room or choose another directory")
