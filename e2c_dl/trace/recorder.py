"""Spans of one rank, written while they happen so that a killed process loses at most a quarter of a second of them.

The file is a header that says what it holds, then raw records until the file ends: see :mod:`e2c_dl.trace.model`.
Any prefix that holds the header can be read. A trace is *complete* if it holds its TRAINING span, which a rank records
only when its last iteration has ended, and no torn record.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import numpy as np

from e2c_dl import codec
from e2c_dl.beneath import LARGE_BYTES, Place, placed
from e2c_dl.errors import ArchiveError, TrainingError
from e2c_dl.trace.check import RawFacts, SpansFacts
from e2c_dl.trace.model import MAGIC, PREFIX, RECORD, RECORD_BYTES, SPAN, SPAN_VERSION, Phase, Spans, header

FLUSH_EVERY_S = 0.25
CAPACITY = 4096  # records in memory: 256 KiB


class Recorder:
    """Appends the spans of one rank to ``path``; any thread may record.

    ::

        with Recorder(path, rank=0, host="edge-1", layer="edge") as recorder:
            begin_ns = recorder.clock()
            ...                                                             # the work
            recorder.record(Phase.STEP, begin_ns, begin_ns, recorder.clock(), iteration=3)

    A thread of its own flushes every :data:`FLUSH_EVERY_S`, so that a rank which waits for ever leaves what it waited
    for. A failed write is raised by every later :meth:`record`, :meth:`flush` and :meth:`close`: a run never goes on
    with a trace that has holes.

    ``clock`` is the machine's: what it shows is what :meth:`record` takes, and differences of it are durations.
    ``own_ns`` turns it into the host's own time (see :mod:`e2c_dl.trace.skew`), which is what is written.

    Raises: TrainingError, if ``path`` cannot be created or written.
    """

    def __init__(
        self,
        path: Path,
        *,
        rank: int,
        host: str,
        layer: str,
        clock: Callable[[], int] = time.monotonic_ns,
        own_ns: Callable[[int], int] | None = None,
        capacity: int = CAPACITY,
        flush_every_s: float = FLUSH_EVERY_S,
    ) -> None:
        self.path = path
        self.clock = clock
        self._own_ns = own_ns
        self._capacity = capacity
        self._pending: deque[bytes] = deque()  # its append and popleft are atomic: recording takes no lock
        self._writing = threading.Lock()  # keeps the file in the order of recording
        self._failure: TrainingError | None = None
        self._closing = threading.Event()
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            self._write(header(rank, host, layer))
        except TrainingError:
            os.close(self._file)
            raise
        self._flusher = threading.Thread(
            target=self._flush_until_closed, args=(flush_every_s,), name="trace", daemon=True
        )
        self._flusher.start()

    def record(
        self,
        phase: Phase,
        posted_ns: int,
        start_ns: int,
        end_ns: int,
        *,
        task: int = 0,
        iteration: int = -1,
        bucket: int = -1,
        src: int = -1,
        dst: int = -1,
        seq: int = -1,
        nbytes: int = 0,
        peer_task: int = -2,
        staleness: int = 0,
        kind: int = 0,
    ) -> None:
        """Append one span; the fields are those of SPAN. Raises: TrainingError if a write has failed."""
        if self._failure is not None:
            raise self._failure
        if self._own_ns is not None:
            posted_ns, start_ns, end_ns = self._own_ns(posted_ns), self._own_ns(start_ns), self._own_ns(end_ns)
        # fmt: off
        self._pending.append(RECORD.pack(
            posted_ns, start_ns, end_ns, nbytes, seq,
            iteration, task, peer_task, bucket, src, dst, staleness, phase, kind,
        ))
        # fmt: on
        if len(self._pending) >= self._capacity:
            self.flush()

    def flush(self) -> None:
        """Hand everything recorded so far to the kernel. Raises: TrainingError."""
        with self._writing:
            if self._failure is not None:
                raise self._failure
            taken = b"".join([self._pending.popleft() for _ in range(len(self._pending))])
            try:
                self._write(taken)
            except TrainingError as failure:
                self._failure = failure
                raise

    def close(self) -> None:
        """Flush, and end the file. A second call does nothing. Raises: TrainingError."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._flusher.join()
        try:
            self.flush()
        finally:
            os.close(self._file)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _flush_until_closed(self, every_s: float) -> None:
        while not self._closing.wait(every_s):
            try:
                self.flush()
            except TrainingError:
                return  # kept in _failure: the next to record, flush or close raises it

    def _write(self, content: bytes) -> None:
        remaining = memoryview(content)
        try:
            while remaining:
                remaining = remaining[os.write(self._file, remaining) :]
        except OSError as error:
            raise _unwritable(self.path, error) from error


def read_spans(path: Path | Place) -> tuple[SpansFacts, Spans, bool]:
    """(facts of the header, spans in the order of recording, complete) of a file that a Recorder left.

    Records that a kill tore are left out. Complete is explained above.

    Raises: ArchiveError, if ``path`` cannot be read or is not such a file.
    """
    content = placed(path).read(LARGE_BYTES)
    begin = header_length(content, str(path))
    if begin is None:
        what = "cut off inside its header"
        raise ArchiveError(f"{path}: cannot read the trace: it is {what}; read it with the program that wrote it")
    facts = header_facts(content[:begin], str(path))
    count, torn = divmod(len(content) - begin, RECORD_BYTES)
    spans = np.frombuffer(content, dtype=SPAN, count=count, offset=begin).copy()  # a buffer's view is read-only
    complete = torn == 0 and bool(np.any(spans["phase"] == Phase.TRAINING))
    return facts, spans, complete


def header_length(content: bytes, where: str) -> int | None:
    """Bytes of the header that ``content`` begins with; None if not all of it is there.

    Raises: ArchiveError, if it is none, or of another version.
    """
    if not content.startswith(MAGIC[: len(content)]):
        raise ArchiveError(f"{where}: not a trace: it does not begin with {MAGIC.decode()}; name a spans.bin of a run")
    if len(content) < PREFIX.size:
        return None
    _, version, length = PREFIX.unpack_from(content)
    if version != SPAN_VERSION:
        what = f"version {version}, not {SPAN_VERSION}"
        raise ArchiveError(f"{where}: cannot read the trace: it is {what}; read it with the program that wrote it")
    begin: int = PREFIX.size + length
    return begin if len(content) >= begin else None


def header_facts(header: bytes, where: str) -> SpansFacts:
    """Whose spans follow ``header``. Raises: ArchiveError."""
    facts = codec.decode(header[PREFIX.size :], RawFacts, f"{where}: the header of the trace")
    if facts.dtype != SPAN.descr:
        raise ArchiveError(f"{where}: its records are laid out otherwise; read it with the program that wrote it")
    return facts


def _unwritable(path: Path, error: OSError) -> TrainingError:
    return TrainingError(f"{path}: cannot write the trace: {error.strerror}; make room or choose another directory")
