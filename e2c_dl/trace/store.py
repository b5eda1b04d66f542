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

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from e2c_dl import codec
from e2c_dl.atomic_write import whole
from e2c_dl.beneath import LARGE_BYTES, Place, placed
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.check import ParquetFacts, SpansFacts, check
from e2c_dl.trace.clock import read_alignment
from e2c_dl.trace.model import MOST_S, SPAN, SPAN_VERSION, ClockAlignment, RankTrace, Spans, Trace
from e2c_dl.trace.recorder import read_spans

RAW, PARQUET, CLOCK, OUTCOME = "spans.bin", "spans.parquet", "clock.json", "outcome.json"
FINISHED = "finished"
_METADATA = b"e2c_dl"
_COLUMNS = [(name, SPAN[name].type) for name in SPAN.names or ()]
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


def read_parquet(path: Path | Place) -> tuple[SpansFacts, Spans, bool]:
    """(facts, spans on the host's own clock, complete): the same triple as ``read_spans`` gives of a spans.bin.

    Raises: ArchiveError, if ``path`` cannot be read or was not written by :func:`write_parquet`.
    """
    table = _table(placed(path))
    text = (table.schema.metadata or {}).get(_METADATA)
    if text is None:
        raise ArchiveError(f"{path}: not a trace of e2c-dl; name a spans.parquet of a run")
    facts = codec.decode(text, ParquetFacts, f"{path}: the trace's metadata")
    if facts.version != SPAN_VERSION:
        raise ArchiveError(
            f"{path}: cannot read the trace: it is version {facts.version}, not {SPAN_VERSION}; "
            "read it with the program that wrote it"
        )
    if [(column.name, column.type.to_pandas_dtype()) for column in table.schema] != _COLUMNS:
        raise ArchiveError(f"{path}: its columns are not those of a trace; {codec.DAMAGED}")
    spans = np.empty(table.num_rows, dtype=SPAN)
    for name in SPAN.names or ():
        if table.column(name).null_count:
            raise ArchiveError(f"{path}: {name} is missing in a span; {codec.DAMAGED}")
        spans[name] = table.column(name).to_numpy()
    return facts, spans, facts.complete


def _table(place: Place) -> Any:
    """What the Parquet file holds. Raises: ArchiveError, also for one that unfolds to more than a trace may hold."""
    with place.opened() as content:
        try:
            file = pq.ParquetFile(content)
            if file.metadata.num_rows * SPAN.itemsize > LARGE_BYTES:
                raise ArchiveError(f"{place}: holds {file.metadata.num_rows} spans, as no trace does; remove it")
            return file.read()
        except (OSError, ValueError, pa.ArrowException, MemoryError) as error:
            reason = str(error).partition("\n")[0]
            raise ArchiveError(f"{place}: cannot read the trace: {reason}; run e2c-dl verify on the archive") from error


def convert(host_dir: Path) -> Path:
    """Writes ``host_dir``/spans.parquet from its spans.bin, reads it back and compares; the raw file stays.

    Raises: ArchiveError, if there is no raw file, or what was written is not what was read.
    """
    found, spans, complete = read_spans(host_dir / RAW)
    facts = {"rank": found.rank, "host": found.host, "layer": found.layer}
    target = host_dir / PARQUET
    write_parquet(target, spans, facts, complete=complete, clock=read_clock(host_dir))
    _, again, again_complete = read_parquet(target)
    if again_complete != complete or again.tobytes() != spans.tobytes():
        raise ArchiveError(f"{target}: differs from {RAW} after conversion; keep {RAW} and report this")
    return target


def read_trace(hosts_dir: Path | Place, facts: Mapping[str, Any] | None = None) -> Trace:
    """The Trace of all hosts below ``hosts_dir``, times on the reference clock, ranks in order.

    A rank is complete if its recording is and its worker said that it finished. Hosts without recording are named in
    ``facts["hosts_without_trace"]``; ranks without a clock.json in ``facts["hosts_without_clock"]``.

    Raises: ArchiveError, if no host has a recording, one cannot be read, or two have the same rank.
    """
    hosts = hosts_dir if isinstance(hosts_dir, Place) else Place(hosts_dir)
    if not hosts.is_folder():
        raise ArchiveError(f"{hosts_dir}: there is no such directory; name the hosts/ of an archive")
    names = hosts.folders()
    recorded = [name for name in names if any((hosts / name / file).exists() for file in (PARQUET, RAW))]
    if not recorded:
        raise ArchiveError(f"{hosts_dir}: no host has left a trace; the run ended before training: see its logs")
    ranks = sorted((_read_rank(hosts / name) for name in recorded), key=lambda rank: rank.rank)
    for one, other in itertools.pairwise(ranks):
        if one.rank == other.rank:
            raise ArchiveError(
                f"{hosts_dir}: {one.host} and {other.host} both recorded rank {one.rank}; the archive mixes two runs"
            )
    times = [ends for rank in ranks if len(rank.spans) for name in _TIMES for ends in _ends(rank.spans[name])]
    if times and max(times) - min(times) > MOST_S * 1e9:
        raise ArchiveError(
            f"{hosts_dir}: lasts {(max(times) - min(times)) / 1e9:.3g} s, as no run does; {codec.DAMAGED}"
        )
    known = {
        **(facts or {}),
        "hosts_without_trace": tuple(name for name in names if name not in recorded),
        "hosts_without_clock": tuple(name for name in recorded if not (hosts / name / CLOCK).exists()),
    }
    return Trace(ranks=tuple(ranks), facts=known)


def _read_rank(folder: Place) -> RankTrace:
    parquet = folder / PARQUET
    facts, spans, complete = read_parquet(parquet) if parquet.exists() else read_spans(folder / RAW)
    check(spans, facts, str(folder))
    clock = read_clock(folder) or ClockAlignment()
    for name in _TIMES:
        spans[name] = clock.align(spans[name])
    return RankTrace(
        rank=facts.rank,
        host=facts.host,
        layer=facts.layer,
        spans=spans,
        clock=clock,
        complete=complete and _finished(folder / OUTCOME),
    )


def read_clock(folder: Path | Place) -> ClockAlignment | None:
    """The alignment that the host of ``folder`` left, None if there is no file. Raises: ArchiveError."""
    place = (folder if isinstance(folder, Place) else Place(folder)) / CLOCK
    return read_alignment(place) if place.exists() else None


def _ends(times_ns: Any) -> tuple[int, int]:
    return int(times_ns.min()), int(times_ns.max())


class _Outcome(msgspec.Struct):
    """Of a worker's outcome, what is asked here."""

    status: str


def _finished(place: Place) -> bool:
    """Whether the worker said that it finished; one that died says nothing."""
    if not place.exists():
        return False
    return codec.decode(codec.finite(codec.read_text(place)), _Outcome, str(place)).status == FINISHED
