"""Files that one host leaves: in its run directory while it trains, and below ``hosts/HOST`` of the archive.

::

    HostRecords(run_dir)                  a live worker writes
    archive.host("edge-1")                everybody reads; a virtual run writes here at once

    >>> archive.host("edge-1").outcome().cause  # doctest: +SKIP
    <Cause.FINISHED: 'finished'>
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from e2c_dl import codec
from e2c_dl.archive import layout
from e2c_dl.archive.records import (
    FACTS_FORMAT,
    OUTCOME_FORMAT,
    Doing,
    HostEnding,
    HostFacts,
    Noticed,
    Progress,
    WorkerOutcome,
)
from e2c_dl.beneath import LARGE_BYTES, Place, placed
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.changes import ChangeInForce, read_changes
from e2c_dl.trace.clocks.clock import read_alignment, write_alignment
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.trace.places import recorded

ROWS_FORMAT = 2
HEAT_COLUMNS = ("training_s", "temperature_c")  # those that are read
MOST = 2.0**62
"""Of a table's numbers: the largest are times, in ns."""
_AMENDING = threading.Lock()  # facts: samplers of one process tell theirs from several threads
_RESERVE = ".outcome"
_RESERVED_BYTES = 4096

Row = Mapping[str, Any]
"""What is known of a link or a bottleneck: it is a mapping here, as what judges it (emulation) is above this room."""

Table = Mapping[str, npt.NDArray[np.float64]]


class Rows(msgspec.Struct, frozen=True):
    """The content of ``links.json`` and ``bottlenecks.json``; format 1 was the rows alone."""

    format: int
    rows: list[dict[str, Any]]


def write_rows(file: Path | Place, rows: Sequence[Row]) -> None:
    """``file`` holds ``rows``. Raises: ArchiveError."""
    codec.write(file, Rows(ROWS_FORMAT, [dict(row) for row in rows]))


def read_rows(file: Path | Place) -> tuple[Row, ...]:
    """The rows in ``file``, none if there is no such file. Raises: ArchiveError for a damaged one."""
    if not placed(file).exists():
        return ()
    kinds: Any = Rows | list[dict[str, Any]]
    content: object = codec.read(file, kinds, ROWS_FORMAT, LARGE_BYTES)  # a link between each two of many hosts
    if isinstance(content, list):  # format 1: what a row now calls requested was called asked
        return tuple({key.replace("asked", "requested"): value for key, value in row.items()} for row in content)
    assert isinstance(content, Rows)
    return tuple(content.rows)


class _File:
    """Where a file of one host stands, by its name in the layout."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, records: HostRecords, owner: type) -> Path:
        return records.path / self._name


@dataclass(frozen=True)
class HostRecords:
    """One host's files below ``path``. Every method raises ArchiveError for a file that is damaged or not writable.

    Where they are read ``archive`` is the folder that is trusted, of which no more is followed; else it is ``path``.
    """

    path: Path
    archive: Path | None = None

    spans = _File(layout.SPANS_RAW)
    connections = _File(layout.CONNECTIONS_RAW)
    metrics_file = _File(layout.METRICS)
    heat_file = _File(layout.HEAT)
    progress_file = _File(layout.PROGRESS)
    setup_file = _File(layout.SETUP)
    agent_changes = _File(layout.CHANGES)
    worker_changes = _File(layout.WORKER_CHANGES)
    verdicts_file = _File(layout.VERDICTS)
    log = _File(layout.WORKER_LOG)
    model = _File(layout.MODEL)

    @property
    def recorded(self) -> bool:
        """Whether it left a trace, as recorded or as Parquet."""
        return self.spans.exists() if self.archive is None else recorded(self.archive, self.path.name).exists

    def _place(self, name: str) -> Place:
        root = self.archive or self.path
        return Place(root, (self.path / name).relative_to(root).as_posix())

    def reserve_outcome(self) -> None:
        """Take the outcome's room on the disk, so that a full disk can still be told; an earlier outcome is gone."""
        try:
            (self.path / _RESERVE).write_text(" " * _RESERVED_BYTES)
            (self.path / layout.OUTCOME).unlink(missing_ok=True)
        except OSError as error:
            raise ArchiveError(f"{self.path}: cannot be written: {error.strerror}; make room there") from error

    def write_outcome(self, outcome: WorkerOutcome) -> None:
        """Write ``outcome`` into the room taken for it, if any, then give it its name: there is never half of one."""
        reason = outcome.reason[: _RESERVED_BYTES // 2].encode(errors="backslashreplace").decode()  # of any file's name
        text = codec.encode(msgspec.structs.replace(outcome, reason=reason))
        try:
            descriptor = os.open(self.path / _RESERVE, os.O_WRONLY | os.O_CREAT, 0o644)
            with open(descriptor, "wb") as file:  # all of it, or an error
                file.write(text)  # into blocks that are there already: needs none on a full disk
                file.truncate()
                os.fsync(descriptor)  # before it has its name: a crash must not leave that on an empty file
            (self.path / _RESERVE).rename(self.path / layout.OUTCOME)
        except OSError as error:
            where = self.path / layout.OUTCOME
            ended = ": ".join(filter(None, (f"rank {outcome.rank} {outcome.status}", outcome.reason)))
            raise ArchiveError(f"{where}: cannot be written: {error.strerror}; {ended}") from error

    def outcome(self) -> WorkerOutcome | None:
        """How its worker ended; None if it exited without an outcome."""
        file = self._place(layout.OUTCOME)
        if not file.exists():
            return None
        text = codec.finite(codec.read_text(file))
        codec.check_format(text, OUTCOME_FORMAT, str(file))
        return codec.decode(text, WorkerOutcome, str(file))

    def last_error(self) -> str:
        """The exception in whose traceback its worker's log ends, in its line; empty if it ends in none."""
        log = self._place(layout.WORKER_LOG)
        lines = log.read(LARGE_BYTES).decode(errors="replace").splitlines() if log.exists() else []
        traces = [place for place, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
        after = [line for line in lines[traces[-1] + 1 :] if line and not line.startswith(" ")] if traces else []
        return after[0] if len(after) == 1 else ""  # what was said after it was not its end

    def write_ending(self, ending: HostEnding) -> None:
        """How the host ended, as seen from outside of it."""
        self.path.mkdir(parents=True, exist_ok=True)  # it may have left nothing else
        codec.write(self.path / layout.ENDING, ending)

    def ending(self) -> HostEnding | None:
        """How the host ended; None if it was up when it was released."""
        file = self._place(layout.ENDING)
        return codec.read(file, HostEnding) if file.exists() else None

    def last_seen_s(self) -> float | None:
        """Unix time of its own clock at its last sign of life, to a second; None if its metrics do not say."""
        seen = self.seen().get("time_ns")
        return None if seen is None or not len(seen) else float(seen[-1]) / 1e9

    def write_facts(self, facts: HostFacts) -> None:
        codec.write(self.path / layout.FACTS, msgspec.structs.replace(facts, format=FACTS_FORMAT))

    def amend_facts(self, **known: Any) -> None:
        """Its facts with the fields ``known`` in place of theirs."""
        with _AMENDING:
            self.write_facts(msgspec.structs.replace(self.facts() or HostFacts(), **known))

    def facts(self) -> HostFacts | None:
        """What the host is; None if it left no facts."""
        file = self._place(layout.FACTS)
        return codec.read(file, HostFacts, FACTS_FORMAT) if file.exists() else None

    def write_links(self, rows: Sequence[Row]) -> None:
        """What it measured of its outgoing links."""
        write_rows(self.path / layout.HOST_LINKS, rows)

    def links(self) -> tuple[Row, ...]:
        return read_rows(self._place(layout.HOST_LINKS))

    def write_clock(self, alignment: ClockAlignment) -> None:
        write_alignment(self.path / layout.CLOCK, alignment)

    def clock(self) -> ClockAlignment:
        """Its clock beside the reference; the same if it left none."""
        file = self._place(layout.CLOCK)
        return read_alignment(file) if file.exists() else ClockAlignment()

    def append_progress(self, lines: Iterable[Progress]) -> None:
        with self.progress_file.open("ab") as file:
            file.writelines(map(report_line, lines))

    def progress(self) -> tuple[Progress, ...]:
        """What it reported, oldest first; a last line that was being written is left out."""
        file = self._place(layout.PROGRESS)
        if not file.exists():
            return ()
        lines = codec.read_text(file, LARGE_BYTES).split("\n")[:-1]  # after the last line break: cut off, or empty
        return tuple(codec.decode(codec.finite(line), Progress, str(file)) for line in lines if line.strip())

    def metrics(self) -> Table:
        """Columns of its metrics.csv by name, one value a second; NaN where one is missing."""
        if not self._place(layout.METRICS).exists():
            raise ArchiveError(f"{self.metrics_file}: missing; that host left no metrics")
        return self.seen()

    def write_signs_of_life(self, times_ns: Iterable[int]) -> None:
        """Its metrics.csv, if all that is known is when it ran, as of a simulated host."""
        lines = "".join(f"{time_ns}\n" for time_ns in times_ns)
        codec.put(self.path / layout.METRICS, f"time_ns\n{lines}".encode())

    def seen(self) -> Table:
        """The same; empty if it left none."""
        return _table(self._place(layout.METRICS))

    def heat(self) -> Table:
        """Columns of its heat.csv; empty if it does not throttle itself. Times are its own clock's."""
        table = _table(self._place(layout.HEAT))
        for name in HEAT_COLUMNS:
            if table and name not in table:
                raise ArchiveError(f"{self.heat_file}: has no column {name}; {codec.DAMAGED}")
        return table

    def changes(self) -> tuple[ChangeInForce, ...]:
        """What its agent and its worker changed while training ran, on the reference clock."""
        files = [self._place(name) for name in (layout.CHANGES, layout.WORKER_CHANGES)]
        return tuple(change for file in files if file.exists() for change in read_changes(file, self.clock()))


def report_line(report: Doing | Noticed | Progress) -> bytes:
    """A line of setup.jsonl, or of progress.jsonl."""
    return codec.LINES.encode(report) + b"\n"


def parsed_report(line: str) -> Doing | Noticed | Progress:
    """What ``line`` of setup.jsonl or progress.jsonl holds: both are followed as one. Raises: ArchiveError."""
    if line.startswith('{"what":'):  # the first field, in the order that msgspec writes
        return codec.decode(line, Doing, layout.SETUP)
    if line.startswith('{"noticed":'):
        return codec.decode(line, Noticed, layout.SETUP)
    return codec.decode(line, Progress, layout.PROGRESS)


def _table(file: Place) -> Table:
    """The columns of a CSV file of numbers by name, up to where it breaks off; NaN where a value is missing."""
    if not file.exists():
        return {}
    header, *lines = codec.read_text(file, LARGE_BYTES).split("\n")[:-1] or [
        ""
    ]  # a last line without its break is cut off
    names = header.split(",")
    cells = [line.split(",") for line in lines if line]
    try:
        table = np.array([[float(cell or "nan") for cell in row] for row in cells], dtype=np.float64)
        table = table.reshape(len(cells), len(names))
        if np.any(np.abs(table) > MOST):  # infinite ones too: no host measures that
            raise ValueError("a number beyond all that is measured")
    except ValueError as error:
        raise ArchiveError(f"{file}: is not a table of numbers ({error}); {codec.DAMAGED}") from error
    return {name: table[:, column] for column, name in enumerate(names)}
