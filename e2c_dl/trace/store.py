"""Spans at rest: one Parquet file per rank, and a Trace from the folders that the hosts left.

::

    hosts/HOST/spans.bin      as recorded            \\   one of them; the table is believed first
    traces/HOST.parquet       the same as a table    /
    hosts/HOST/clock.json     how HOST's clock maps to the reference
    hosts/HOST/outcome.json   how its worker ended
    connections/HOST.parquet  what its sockets told, of which FLOW spans are made (``propagation/flows.py``)

:mod:`e2c_dl.trace.places` says where these are in archives of before, and :mod:`e2c_dl.trace.columns` what a table
holds; what is damaged in a file is left out and counted, group of rows by group of rows.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from e2c_dl import codec
from e2c_dl.atomic_write import whole
from e2c_dl.beneath import LARGE_BYTES, Place, placed
from e2c_dl.errors import AnalysisError, ArchiveError
from e2c_dl.trace import columns, earlier, places
from e2c_dl.trace.check import ParquetFacts, SpansFacts, check
from e2c_dl.trace.clocks.unaligned import laid
from e2c_dl.trace.model import MOST_S, NOTHING_LOST, SPAN, ClockAlignment, Lost, Phase, Spans, Trace
from e2c_dl.trace.places import HOSTS, Recorded
from e2c_dl.trace.propagation.flows import with_flows
from e2c_dl.trace.propagation.samples import Samples, read_samples
from e2c_dl.trace.ranks import rank_of, read_clock
from e2c_dl.trace.recording.growing import GrowingSpans
from e2c_dl.trace.recording.span_log import read_spans
from e2c_dl.trace.row_groups import read_groups, rows_per_group

_PIECE_BYTES = 1 << 16

Recording = tuple[SpansFacts, Spans, bool]
"""Whose spans, the spans on the host's own clock, whether they are complete."""


def write_parquet(
    path: Path, spans: Spans, facts: Mapping[str, Any], *, complete: bool, clock: ClockAlignment | None = None,
    origin_ns: int | None = None, lost: Lost = NOTHING_LOST,
) -> None:  # fmt: skip
    """Write ``spans`` (own clock) to ``path``, as a whole or not at all. ``facts``: rank, host, layer, as recorded.

    ``origin_ns``: when the run's training began, on the reference clock; None: when this rank's did.
    Raises: ArchiveError, if it cannot be written.
    """
    table = columns.to_table(spans, facts, complete=complete, clock=clock, origin_ns=origin_ns, lost=lost)
    names = [name for name in table.schema.names if name not in columns.DELTAS]
    try:
        path.parent.mkdir(exist_ok=True)
        with whole(path) as place:
            pq.write_table(
                table, place, compression="zstd", row_group_size=rows_per_group(len(spans)), write_page_checksum=True,
                use_dictionary=names, column_encoding=dict.fromkeys(columns.DELTAS, "DELTA_BINARY_PACKED"),
            )  # fmt: skip
    except OSError as error:
        raise ArchiveError(f"{path}: cannot write the trace: {error}; make room or choose another directory") from error


def read_parquet(path: Path | Place) -> tuple[SpansFacts, Spans, bool]:
    """(facts, spans on the host's own clock, complete): the same triple as ``read_spans`` gives of a spans.bin.

    Raises: ArchiveError, if ``path`` cannot be read or was not written by :func:`write_parquet`.
    """
    place = placed(path)
    with place.opened() as content:
        try:
            file = pq.ParquetFile(content, page_checksum_verification=True)
            facts = facts_of(file.schema_arrow, str(path))
            if file.metadata.num_rows * SPAN.itemsize > LARGE_BYTES:
                raise ArchiveError(f"{place}: holds {file.metadata.num_rows} spans, as no trace does; remove it")
            is_earlier = facts.version == earlier.VERSION
            if not is_earlier:
                columns.check_schema(file.schema_arrow, str(path))
            table, lost = read_groups(file, None if is_earlier else list(columns.FIELD_OF))
        except (OSError, ValueError, pa.ArrowException, MemoryError) as error:
            reason = str(error).partition("\n")[0]
            raise ArchiveError(f"{place}: cannot read the trace: {reason}; run e2c-dl verify on the archive") from error
    if is_earlier:
        spans = earlier.table_spans(table, str(path))
    else:
        spans = columns.from_table(table, str(path), version=facts.version)
    if not lost:
        return facts, spans, facts.complete
    ended = facts.complete and bool(np.any(spans["phase"] == Phase.TRAINING))
    return msgspec.structs.replace(facts, lost=facts.lost + lost), spans, ended


def facts_of(schema: pa.Schema, where: str) -> ParquetFacts:
    """Whose spans they are. Raises: ArchiveError."""
    text = (schema.metadata or {}).get(columns.METADATA)
    if text is None:
        raise ArchiveError(f"{where}: not a trace of e2c-dl; name a table in traces/ of an archive")
    facts = codec.decode(text, ParquetFacts, f"{where}: the trace's metadata")
    if facts.version not in range(earlier.VERSION, columns.VERSION + 1):
        raise ArchiveError(
            f"{where}: cannot read the trace: it is version {facts.version}, not {columns.VERSION}; "
            "read it with the program that wrote it"
        )
    return facts


def convert(own: Recorded, origin_ns: int | None = None) -> Path:
    """Writes the table of ``own`` spans from what was recorded, reads it back and compares; the raw file stays.

    ``origin_ns``: what :func:`training_began` says of all hosts, so that their tables can be laid side by side.
    Raises: ArchiveError, if there is no raw file, or what was written is not what was read.
    """
    found, spans, complete = read_spans(own.raw)
    facts = {"rank": found.rank, "host": found.host, "layer": found.layer}
    target, clock = own.table.path, read_clock(own.folder)
    check(spans, found, str(own.raw))  # before it is aligned, which takes times of a run only
    write_parquet(target, spans, facts, complete=complete, clock=clock, origin_ns=origin_ns, lost=found.lost)
    again_found, again, again_complete = read_parquet(target)
    same = (again_complete, again_found.lost) == (complete, found.lost) and again.tobytes() == spans.tobytes()
    if not same:
        raise ArchiveError(f"{target}: differs from {own.raw} after conversion; keep that and report this")
    return target


def training_began(archive: Path) -> int | None:
    """When the first rank of ``archive`` began its first iteration, on the reference clock; None: nobody did.

    Where hosts were converted already, it is what they were told. Hosts that cannot be read are passed over.
    """
    began = []
    for own in places.all_recorded(archive):
        with contextlib.suppress(ArchiveError):
            if own.table.exists():
                with own.table.opened() as content:
                    told = facts_of(pq.read_schema(content), str(own.table)).origin_ns
                if told is not None:
                    return told
            own_ns, clock = _first_iteration(own.raw), read_clock(own.folder)
            if own_ns is not None:
                began.append((clock is None, int((clock or ClockAlignment()).align(np.array([own_ns]))[0])))
    return min(began, default=(False, None))[1]  # by clocks that are aligned, if any is


def _first_iteration(place: Place) -> int | None:
    """Start of the first iteration in a spans.bin, own clock; what follows it is not read. Raises: ArchiveError."""
    grown = GrowingSpans(str(place))
    with place.opened() as content:
        while grown.began_ns is None and (piece := content.read(_PIECE_BYTES)):
            grown.add(piece)
    return grown.began_ns


def read_trace(archive: Path | Place, facts: Mapping[str, Any] | None = None) -> Trace:
    """The Trace of all hosts of ``archive``, times on the reference clock, ranks in order.

    A rank is complete if its recording is and its worker said that it finished. Hosts without recording are named in
    ``facts["hosts_without_trace"]``, those whose recording cannot be read at all in ``facts["hosts_unreadable"]``,
    those whose clock is not known in ``facts["hosts_without_clock"]``, and why files cannot be read in
    ``facts["unreadable"]``.

    Raises: ArchiveError, if no host has a recording that can be read, or two have the same rank.
    """
    hosts = places.all_recorded(archive)
    traced = those_traced(archive, hosts)
    readable, unreadable = _readable(traced)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda own: rank_of(own, *readable[own]), readable))
    ranks = sorted((each.rank for each in found), key=lambda rank: rank.rank)
    for one, other in itertools.pairwise(ranks):
        if one.rank == other.rank:
            raise ArchiveError(
                f"{archive}: {one.host} and {other.host} both recorded rank {one.rank}; the archive mixes two runs"
            )
    known = {
        **(facts or {}),
        "hosts_without_trace": tuple(own.host for own in hosts if own not in traced),
        "hosts_without_clock": tuple(own.host for own, each in zip(readable, found, strict=True) if not each.aligned),
        "hosts_unreadable": tuple(unreadable),
        "unreadable": (*unreadable.values(), *(problem for each in found for problem in each.problems)),
    }
    trace = Trace(ranks=tuple(ranks), facts=known)
    with contextlib.suppress(AnalysisError):  # of what is named twice, whoever analyses it tells
        trace = laid(trace, known["hosts_without_clock"])
    times = [
        ends for rank in trace.ranks if len(rank.spans) for name in columns.TIMES for ends in _ends(rank.spans[name])
    ]
    if times and max(times) - min(times) > MOST_S * 1e9:
        raise ArchiveError(f"{archive}: lasts {(max(times) - min(times)) / 1e9:.3g} s, as no run does; {codec.DAMAGED}")
    return with_flows(trace, *_samples(traced))


def those_traced(archive: Path | Place, hosts: Sequence[Recorded]) -> tuple[Recorded, ...]:
    """Those of ``hosts`` that left a trace. Raises: ArchiveError, if none did."""
    traced = tuple(own for own in hosts if own.exists)
    if not traced:
        where = (archive if isinstance(archive, Place) else Place(archive)) / HOSTS
        reason = "the run ended before training, or its traces were lost"
        raise ArchiveError(f"{where}: no host has left a trace: {reason}; see its logs")
    return traced


def _samples(hosts: Sequence[Recorded]) -> tuple[list[Samples], list[str]]:
    """What the hosts' sockets told, and why that of some cannot be read: it costs no more than what it holds."""
    found, problems = [], []
    for own in hosts:
        try:
            samples = read_samples(own)
        except ArchiveError as error:
            problems.append(f"{error}; what its sockets told is left out")
        else:
            found += [] if samples is None else [samples]
    return found, problems


def _readable(hosts: Sequence[Recorded]) -> tuple[dict[Recorded, Recording], dict[str, str]]:
    """(host -> what it recorded, host -> why that cannot be read). Raises: ArchiveError, if none can be."""
    readable: dict[Recorded, Recording] = {}
    unreadable: dict[str, str] = {}
    with ThreadPoolExecutor(2) as pool:  # a table is decoded while another becomes spans
        for own, read in [(own, pool.submit(read_recording, own)) for own in hosts]:
            try:
                readable[own] = read.result()
            except ArchiveError as error:
                unreadable[own.host] = str(error)
    if not readable:
        raise ArchiveError(next(iter(unreadable.values())))
    return readable, unreadable


def read_recording(own: Recorded) -> Recording:
    """What that host recorded, own clock: of its table, if that is damaged of the raw file.

    Raises: ArchiveError, if neither can be read, or what was read cannot be of a run.
    """
    try:
        found = read_parquet(own.table) if own.table.exists() else read_spans(own.raw)
    except ArchiveError:
        if not (own.table.exists() and own.raw.exists()):
            raise
        found = read_spans(own.raw)
    check(found[1], found[0], str(own.folder))
    return found


def _ends(times_ns: Any) -> tuple[int, int]:
    return int(times_ns.min()), int(times_ns.max())
