"""Spans of one rank, written while they happen so that a killed process loses at most a quarter of a second of them.

The file is a log: see :mod:`e2c_dl.trace.recording.log` for how it is written, and for what it holds
:mod:`e2c_dl.trace.recording.span_log`.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from e2c_dl.errors import TrainingError
from e2c_dl.trace.model import RECORD, RECORD_BYTES, Phase
from e2c_dl.trace.recording.errands import Errands
from e2c_dl.trace.recording.keeping import SlowOnly
from e2c_dl.trace.recording.log import CAPACITY, FLUSH_EVERY_S, Log
from e2c_dl.trace.recording.span_log import SPANS, header, read_spans

__all__ = ["Recorder", "Row", "read_spans"]

Row = tuple[int, ...]
"""The fields of RECORD, in its order."""

_START, _END, _ITERATION, _PHASE = 1, 2, 5, 12  # of a Row
_OF_ITERATION = int(Phase.ITERATION)  # compared faster than the enum


class Recorder:
    """Appends the spans of one rank to ``path``; any thread may record, a forked child writes nothing.

    ::

        with Recorder(path, rank=0, host="edge-1", layer="edge") as recorder:
            begin_ns = recorder.clock()
            ...                                                             # the work
            recorder.record(Phase.STEP, begin_ns, begin_ns, recorder.clock(), iteration=3)

    What a rank waits for while it waits for ever is in the file, too: a thread writes every ``flush_every_s``.
    A failed write is raised by every later :meth:`record`, :meth:`flush` and :meth:`close`: a run never goes on with a
    trace that has holes. With ``on_failure`` that is called, once, and the run goes on without a trace.

    ``cap_bytes``: the file never gets larger; from half of it on, spans of slow iterations are kept
    (:mod:`e2c_dl.trace.recording.keeping`), and the file says how many spans were dropped.

    ``rows`` is asked for more spans before each writing, by whoever writes: a tenth of what :meth:`record` costs the
    thread that trains. One that cannot be encoded is dropped; ``own_ns`` does not apply to them. ``errands``: as
    for a Log.

    ``clock`` is the machine's: what it shows is what :meth:`record` takes, and differences of it are durations.
    ``own_ns`` turns it into the host's own time (see :mod:`e2c_dl.trace.clocks.skew`), which is what is written.

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
        cap_bytes: int | None = None,
        on_failure: Callable[[TrainingError], None] | None = None,
        rows: Callable[[], Sequence[Row]] | None = None,
        errands: Errands | None = None,
    ) -> None:
        self.path = path
        self._rows = rows
        self._closed = False
        self.clock = clock
        self._own_ns = own_ns
        self._log = Log(
            path, header(rank, host, layer), flush_every_s=flush_every_s, record_bytes=RECORD_BYTES,
            cap_bytes=cap_bytes, on_failure=on_failure, capacity=capacity, errands=errands,
        )  # fmt: skip
        self._keeping = None if cap_bytes is None else SlowOnly(cap_bytes, self._log.drop)
        if rows is not None or self._keeping is not None:
            self._log.fed_by(self._tell)  # now: its thread may write at once

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
        if self._own_ns is not None:
            posted_ns, start_ns, end_ns = self._own_ns(posted_ns), self._own_ns(start_ns), self._own_ns(end_ns)
        # fmt: off
        record = RECORD.pack(
            posted_ns, start_ns, end_ns, nbytes, seq,
            iteration, task, peer_task, bucket, src, dst, staleness, phase, kind,
        )
        # fmt: on
        self._keep(record, phase, iteration, start_ns, end_ns)

    @property
    def dropped(self) -> int:
        """Spans that are not in the file: left out because of the cap, or after a failure."""
        return self._log.dropped

    @property
    def failure(self) -> TrainingError | None:
        """Why nothing is written any more; None: it is."""
        return self._log.failure

    def wake(self) -> None:
        """Have what was recorded written soon, by the thread that writes."""
        self._log.wake()

    def flush(self) -> None:
        """Hand everything recorded so far to the kernel. Raises: TrainingError."""
        self._log.flush()

    def close(self) -> None:
        """Flush, and end the file. A second call does nothing. Raises: TrainingError."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._rows is not None:
                self._log.flush()
            if self._keeping is not None:
                self._append(self._keeping.end())
        finally:
            self._log.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self) -> None:
        """Append what there is by now; the log calls it, one thread at a time."""
        if self._rows is not None:
            self._encode(self._rows())
        if self._keeping is not None:
            now_ns = self.clock()
            self._append(self._keeping.by_now(now_ns if self._own_ns is None else self._own_ns(now_ns)))

    def _encode(self, rows: Sequence[Row]) -> None:
        try:
            records = [RECORD.pack(*row) for row in rows]
        except struct.error:
            self._encode_each(rows)
            return
        if self._keeping is not None:
            lasted_ns = [row[_END] - row[_START] for row in rows if row[_PHASE] == _OF_ITERATION]
            if not self._keeping.all_free(len(rows), lasted_ns):
                self._encode_each(rows)
                return
        self._log.extend(SPANS, records)

    def _encode_each(self, rows: Sequence[Row]) -> None:
        for row in rows:
            try:
                record = RECORD.pack(*row)
            except struct.error:  # a number that the script has from elsewhere, and no column has room for
                self._log.drop(1)
                continue
            self._keep(record, row[_PHASE], row[_ITERATION], row[_START], row[_END])

    def _keep(self, record: bytes, phase: int, iteration: int, start_ns: int, end_ns: int) -> None:
        if self._keeping is None or self._keeping.free(phase):
            self._log.append(SPANS, record)
        else:
            self._append(self._keeping.offer(record, phase, iteration, start_ns, end_ns))

    def _append(self, records: Sequence[bytes]) -> None:
        for record in records:
            self._log.append(SPANS, record)
