"""One run's archive for scripts and notebooks: its records as tables, its report as frozen values."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from e2c_dl.api.frames import DataFrame, maker
from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.archive.run import Run
from e2c_dl.beneath import Place
from e2c_dl.diagnosis.diagnose import diagnose, read_report
from e2c_dl.diagnosis.model import Report
from e2c_dl.errors import InputError
from e2c_dl.trace.columns import SCHEMA
from e2c_dl.trace.model import Trace
from e2c_dl.trace.places import all_recorded
from e2c_dl.trace.store import facts_of, those_traced, training_began
from e2c_dl.trace.tables import table_of_host


def load(path: str | Path, *, frames: str = "pandas") -> ArchivedRun:
    """The run whose archive is at ``path``; its tables come as ``frames``: pandas, polars or arrow.

    ::

        run = e2c_dl.load("runs/first-light", frames="polars")
        run.report.culprits, run.report.run_s
        run.links().filter(polars.col("measured_rate_bps") < 0.9 * polars.col("requested_rate_bps"))

    Nothing but run.json is read before it is asked for. Raises: ArchiveError: it is no archive; InputError: ``frames``
    is none of these, or not installed.
    """
    maker(frames)
    return ArchivedRun(archive=open_archive(Path(path)), frames=frames)


@dataclass(frozen=True, kw_only=True)
class ArchivedRun:
    """A run that has ended, or goes on. Every method raises ArchiveError for a file that is damaged."""

    archive: ReadArchive
    frames: str

    @property
    def path(self) -> Path:
        return self.archive.path

    @property
    def run(self) -> Run:
        """What run.json says: outcome, scenario, testbed, versions, seeds, what could not be honoured."""
        return self.archive.run

    @cached_property
    def report(self) -> Report:
        """The report: read if it was written, else found now. Raises: AnalysisError, if nothing can be analysed."""
        if (Place(self.path) / layout.REPORT_JSON).exists():
            return read_report(self.archive)
        return diagnose(self.archive).report

    @cached_property
    def trace(self) -> Trace:
        """All spans as NumPy arrays on one clock, as the analysis has them."""
        return self.archive.trace()

    def spans(self, columns: Sequence[str] | None = None) -> DataFrame:
        """A row per span of every host, rank by rank in the order of recording; docs/trace-format.md says the columns.

        ``columns``: those that are wanted, which alone are then read. Where a host's table is damaged, rows that cannot
        be read are left out, with a warning. Raises: InputError: there is none of that name.
        """
        if isinstance(columns, str):  # a sequence of letters
            raise InputError(f"columns {columns!r}: name columns in a list, such as [{columns!r}]")
        unknown = [name for name in columns or () if name not in SCHEMA.names]
        if unknown:
            raise InputError(f"spans have no column {unknown[0]}; write one of {', '.join(SCHEMA.names)}")
        traced = those_traced(self.path, all_recorded(self.path))
        began = training_began(self.path)
        tables = [table_of_host(own, columns, began) for own in traced]
        for own, table in zip(traced, tables, strict=True):
            lost = facts_of(table.schema, str(own.table)).lost.spans
            if lost:
                verify = f"run e2c-dl verify on {self.path}"
                warnings.warn(f"{own.host}: its trace is damaged, {lost} spans are missing; {verify}", stacklevel=2)
        alone = [table.replace_schema_metadata(None) for table in tables]  # what it says is of one host
        return self._made(pa.concat_tables(alone).unify_dictionaries())

    def links(self) -> DataFrame:
        """A row per directed link: src, dst, what was designed, requested and measured, as ``designed_rate_bps``."""
        return self._rows(_flat(row) for row in self.archive.links())

    def metrics(self) -> DataFrame:
        """A row per host and second: processor, memory and network, as the host's own clock had it (``time_ns``)."""
        rows = []
        for name in self.archive.hosts:
            table = self.archive.host(name).seen()
            each = zip(*(column.tolist() for column in table.values()), strict=True)
            rows += [{"host": name, **dict(zip(table, row, strict=True))} for row in each]
        return self._rows(rows)

    def progress(self) -> DataFrame:
        """A row per host and report of progress: iteration, loss, accuracy, elapsed_s."""
        lines = ((name, line) for name in self.archive.hosts for line in self.archive.host(name).progress())
        return self._rows({"host": name, **msgspec.structs.asdict(line)} for name, line in lines)

    def _rows(self, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
        """A column for all that any of ``rows`` has; of what is None in one and has parts in another these alone."""
        found = list(rows)
        names = dict.fromkeys(name for row in found for name in row)  # from_pylist has those of the first row
        columns = {name: [row.get(name) for row in found] for name in names}
        whole = [name for name in names if not any(each.startswith(f"{name}_") for each in names)]
        kept = [name for name, column in columns.items() if name in whole or any(each is not None for each in column)]
        return self._made(pa.table({name: columns[name] for name in kept}))

    def _made(self, table: pa.Table) -> DataFrame:
        return maker(self.frames)(table)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """``row`` without mappings in it: what is below a key has its name before it."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}_{inner}": each for inner, each in _flat(value).items()}
        elif not isinstance(value, (list, tuple)):
            flat[key] = value
        else:
            flat |= {f"{key}_{name}": each for name, each in zip(("low", "high"), value, strict=False)}
    return flat
