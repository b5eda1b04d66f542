"""Reading an archive: every piece by name, and a clear word about each piece that is missing or damaged.

Archives of runs that failed half-way are archives: whatever is there can be read, and what a killed process was writing
(the last line of progress.jsonl or metrics.csv) is read up to where it breaks off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.archive import layout
from e2c_dl.archive.run import Run, from_mapping
from e2c_dl.archive.write import read_facts
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.changes import ChangeInForce, read_changes
from e2c_dl.trace.model import ClockAlignment, RankTrace, Trace
from e2c_dl.trace.store import read_clock, read_trace

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReadArchive:
    """An archive to read; files are opened when asked for. Every method raises ArchiveError for a damaged file."""

    path: Path
    run: Run

    @property
    def scenario(self) -> Path:
        """The directory of the scenario's files. Raises: ArchiveError if the archive has none."""
        return self._there(layout.SCENARIO, "the run stopped before its scenario was stored")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts that left anything, sorted."""
        folder = self.path / layout.HOSTS
        return tuple(sorted(p.name for p in folder.iterdir() if p.is_dir())) if folder.is_dir() else ()

    def links(self) -> tuple[Row, ...]:
        """The rows of links.json, one per directed link; none if the run stopped before links were measured."""
        file = self.path / layout.LINKS
        return _rows(_json(file), file) if file.is_file() else ()

    def bottlenecks(self) -> tuple[Row, ...]:
        """The rows of bottlenecks.json, one per bottleneck that was measured full; none if none was."""
        file = self.path / layout.BOTTLENECKS
        return _rows(_json(file), file) if file.is_file() else ()

    def host_facts(self, host: str) -> Row:
        """The facts.json of ``host``."""
        file = self._there(f"{layout.HOSTS}/{host}/{layout.FACTS}", "that host left no facts")
        return _rows([_json(file)], file)[0]

    def host_outcome(self, host: str) -> Row | None:
        """How the worker on ``host`` ended; None if it died without a word."""
        file = self.path / layout.HOSTS / host / layout.OUTCOME
        return _rows([_json(file)], file)[0] if file.is_file() else None

    def progress(self, host: str) -> tuple[Row, ...]:
        """The progress that ``host`` reported, oldest first; empty if none."""
        file = self.path / layout.HOSTS / host / layout.PROGRESS
        if not file.is_file():
            return ()
        lines = _text(file).split("\n")
        complete = [line for line in lines[:-1] if line.strip()]  # after the last line break: cut off, or empty
        return _rows([_parsed(line, file) for line in complete], file)

    def metrics(self, host: str) -> Mapping[str, npt.NDArray[np.float64]]:
        """Columns of ``host``'s metrics.csv by name, one value a second; NaN where a value is missing."""
        file = self._there(f"{layout.HOSTS}/{host}/{layout.METRICS}", "that host left no metrics")
        return _table(file)

    def changes(self) -> tuple[ChangeInForce, ...]:
        """What all hosts changed while training ran, on the reference clock, in order of being in force."""
        found: list[ChangeInForce] = []
        for host in self.hosts:
            folder = self.path / layout.HOSTS / host
            for file in (folder / layout.CHANGES, folder / layout.WORKER_CHANGES):
                if file.is_file():
                    found += read_changes(file, read_clock(folder) or ClockAlignment())
        return tuple(sorted(found, key=lambda change: change.in_force_ns))

    def heat(self, host: str) -> Mapping[str, npt.NDArray[np.float64]]:
        """Columns of ``host``'s heat.csv by name; empty if it does not throttle itself. Times are its own clock's."""
        file = self.path / layout.HOSTS / host / layout.HEAT
        return _table(file) if file.is_file() else {}

    def trace(self) -> Trace:
        """Every rank's spans on one clock. Raises: ArchiveError if no rank left any."""
        facts = {"run_id": self.run.run_id, "scenario": self.run.scenario, **self.run.facts}
        trace = read_trace(self._there(layout.HOSTS, "no worker left a trace"), facts)
        return replace(trace, alive={rank.host: self._alive(rank) for rank in trace.ranks})

    def _alive(self, rank: RankTrace) -> npt.NDArray[np.int64]:
        """When it was seen to run; empty if that is not known, as of a simulated host."""
        file = self.path / layout.HOSTS / rank.host / layout.METRICS
        seen = _table(file).get("time_ns") if file.is_file() else None
        return np.empty(0, dtype=np.int64) if seen is None else rank.clock.align(seen.astype(np.int64))

    def _there(self, name: str, meaning: str) -> Path:
        path = self.path / name
        if not path.exists():
            raise ArchiveError(f"{path}: missing; {meaning}")
        return path


def open_archive(path: Path) -> ReadArchive:
    """The archive at ``path``. Raises: ArchiveError if there is no run.json or it cannot be understood."""
    return ReadArchive(path=path, run=from_mapping(read_facts(path), str(path / layout.RUN)))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ArchiveError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{file}: is not text; the archive is damaged") from error


def _table(file: Path) -> Mapping[str, npt.NDArray[np.float64]]:
    """The columns of a CSV file of numbers by name, up to where it breaks off; NaN where a value is missing."""
    header, *lines = _text(file).split("\n")[:-1] or [""]
    names = header.split(",")
    cells = [line.split(",") for line in lines if line]
    try:
        table = np.array([[float(cell or "nan") for cell in row] for row in cells], dtype=np.float64)
        table = table.reshape(len(cells), len(names))
    except ValueError as error:
        raise ArchiveError(f"{file}: is not a table of numbers ({error}); the archive is damaged") from error
    return {name: table[:, column] for column, name in enumerate(names)}


def _json(file: Path) -> Any:
    return _parsed(_text(file), file)


def _parsed(text: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{file}: is not valid JSON ({error}); the archive is damaged") from error


def _rows(rows: Any, file: Path) -> tuple[Row, ...]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ArchiveError(f"{file}: does not hold JSON objects; the archive is damaged")
    return tuple(rows)
