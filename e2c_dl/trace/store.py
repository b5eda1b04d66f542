"""Spans at rest: one Parquet file per rank, and a Trace from the folders that the hosts left.

::

    hosts/HOST/spans.bin      as recorded            \\   one of them; the Parquet file is believed first
    hosts/HOST/spans.parquet  the same, compressed   /
    hosts/HOST/clock.json     how HOST's clock maps to the reference
    hosts/HOST/outcome.json   how its worker ended

A Parquet file has one column per field of :data:`~e2c_dl.trace.model.SPAN`, of the same name and type, in the order of
recording; times are the host's own clock. Under ``e2c_dl`` its schema's metadata holds rank, host, layer, version,
complete and, if it was known, the clock's alignment, as JSON.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from e2c_dl.atomic_write import whole
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.clock import read_alignment
from e2c_dl.trace.model import SPAN, SPAN_VERSION, ClockAlignment, RankTrace, Spans, Trace
from e2c_dl.trace.recorder import read_spans

RAW, PARQUET, CLOCK, OUTCOME = "spans.bin", "spans.parquet", "clock.json", "outcome.json"
FINISHED = "finished"
_METADATA = b"e2c_dl"
_TIMES = ("posted_ns", "start_ns", "end_ns")


def write_parquet(
    path: Path, spans: Spans, facts: Mapping[str, Any], *, complete: bool, clock: ClockAlignment | None = None
) -> None:
    """Write ``spans`` (own clock) to ``path``, as a whole or not at all. ``facts``: rank, host, layer, as recorded.

    Raises: ArchiveError, if it cannot be written.
    """
    facts = {**facts, "complete": complete, "version": SPAN_VERSION, "clock": asdict(clock) if clock else None}
    columns = {name: np.ascontiguousarray(spans[name]) for name in SPAN.names or ()}
    table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(facts)})
    try:
        with whole(path) as place:
            pq.write_table(table, place, compression="zstd")
    except OSError as error:
        raise ArchiveError(f"{path}: cannot write the trace: {error}; make room or choose another directory") from error


def read_parquet(path: Path) -> tuple[Mapping[str, Any], Spans, bool]:
    """(facts, spans on the host's own clock, complete): the same triple as ``read_spans`` gives of a spans.bin.

    Raises: ArchiveError, if ``path`` cannot be read or was not written by :func:`write_parquet`.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise ArchiveError(f"{path}: cannot read the trace: {reason}; run e2c-dl verify on the archive") from error
    try:
        facts: dict[str, Any] = json.loads((table.schema.metadata or {})[_METADATA])
        complete, version = bool(facts.pop("complete")), facts.pop("version")
        spans = np.empty(table.num_rows, dtype=SPAN)
        for name in SPAN.names or ():
            spans[name] = table.column(name).to_numpy()
    except (KeyError, ValueError) as error:
        raise ArchiveError(f"{path}: not a trace of e2c-dl ({error}); name a spans.parquet of a run") from error
    if version != SPAN_VERSION:
        raise ArchiveError(
            f"{path}: cannot read the trace: it is version {version}, not {SPAN_VERSION}; "
            "read it with the program that wrote it"
        )
    return facts, spans, complete


def convert(host_dir: Path) -> Path:
    """Writes ``host_dir``/spans.parquet from its spans.bin, reads it back and compares; the raw file stays.

    Raises: ArchiveError, if there is no raw file, or what was written is not what was read.
    """
    facts, spans, complete = read_spans(host_dir / RAW)
    target = host_dir / PARQUET
    write_parquet(target, spans, facts, complete=complete, clock=read_clock(host_dir))
    _, again, again_complete = read_parquet(target)
    if again_complete != complete or again.tobytes() != spans.tobytes():
        raise ArchiveError(f"{target}: differs from {RAW} after conversion; keep {RAW} and report this")
    return target


def read_trace(hosts_dir: Path, facts: Mapping[str, Any] | None = None) -> Trace:
    """The Trace of all hosts below ``hosts_dir``, times on the reference clock, ranks in order.

    A rank is complete if its recording is and its worker said that it finished. Hosts without recording are named in
    ``facts["hosts_without_trace"]``; ranks without a clock.json in ``facts["hosts_without_clock"]``.

    Raises: ArchiveError, if no host has a recording, one cannot be read, or two have the same rank.
    """
    if not hosts_dir.is_dir():
        raise ArchiveError(f"{hosts_dir}: there is no such directory; name the hosts/ of an archive")
    folders = sorted(path for path in hosts_dir.iterdir() if path.is_dir())
    recorded = [folder for folder in folders if (folder / PARQUET).is_file() or (folder / RAW).is_file()]
    if not recorded:
        raise ArchiveError(f"{hosts_dir}: no host has left a trace; the run ended before training: see its logs")
    ranks = sorted((_read_rank(folder) for folder in recorded), key=lambda rank: rank.rank)
    for one, other in itertools.pairwise(ranks):
        if one.rank == other.rank:
            raise ArchiveError(
                f"{hosts_dir}: {one.host} and {other.host} both recorded rank {one.rank}; the archive mixes two runs"
            )
    known = {
        **(facts or {}),
        "hosts_without_trace": tuple(folder.name for folder in folders if folder not in recorded),
        "hosts_without_clock": tuple(folder.name for folder in recorded if not (folder / CLOCK).is_file()),
    }
    return Trace(ranks=tuple(ranks), facts=known)


def _read_rank(folder: Path) -> RankTrace:
    parquet = folder / PARQUET
    facts, spans, complete = read_parquet(parquet) if parquet.is_file() else read_spans(folder / RAW)
    clock = read_clock(folder) or ClockAlignment()
    for name in _TIMES:
        spans[name] = clock.align(spans[name])
    return RankTrace(
        rank=int(facts["rank"]),
        host=str(facts["host"]),
        layer=str(facts["layer"]),
        spans=spans,
        clock=clock,
        complete=complete and _finished(folder / OUTCOME),
    )


def read_clock(folder: Path) -> ClockAlignment | None:
    """The alignment that the host of ``folder`` left, None if there is no file. Raises: ArchiveError."""
    path = folder / CLOCK
    return read_alignment(path) if path.is_file() else None


def _finished(path: Path) -> bool:
    """Whether the worker said that it finished; one that died says nothing."""
    if not path.is_file():
        return False
    try:
        outcome = json.loads(path.read_text())
        return bool(outcome["status"] == FINISHED)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ArchiveError(f"{path}: not a worker's outcome ({error!r}); run e2c-dl verify on the archive") from error
