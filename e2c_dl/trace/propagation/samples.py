"""What a rank's sockets told, at rest: samples of TCP_INFO as the kernel gave them, decoded when they are read.

::

    hosts/HOST/connections.bin    a log of records        \\   one of them; the table is believed first
    connections/HOST.parquet      the same as a table     /

    kind 1, samples        | time_ns i64 | cookie u64 | iteration i32 | family u16 | 0 u16 | length u32 | TCP_INFO |
                           one behind the other
    kind 2, connections    JSON, a line each: cookie, local and remote (address, port), and the remote's rank and
                           host, if known when it was written; a later one of the same cookie holds

A cookie is the kernel's own number of a connection, never used twice. A sample is written only if its connection's
counters have moved. ``iteration`` is the one that this sample ends or lies in.
"""

from __future__ import annotations

import ipaddress
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from e2c_dl import codec, typed
from e2c_dl.atomic_write import whole
from e2c_dl.beneath import LARGE_BYTES, Place, placed
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.clocks.clock import read_alignment
from e2c_dl.trace.model import MOST_NS, ClockAlignment
from e2c_dl.trace.places import CLOCK, Recorded
from e2c_dl.trace.propagation import connection_columns
from e2c_dl.trace.recording.log import read_log
from e2c_dl.trace.row_groups import read_groups, rows_per_group

SAMPLE_KIND, CONNECTION_KIND = 1, 2
SAMPLE = struct.Struct("<qQiHHI")
RECORD_BYTES = 512  # at most, of a sample or a connection: as the log asks, which has them share frames
VERSION = 1
_METADATA = b"e2c_dl"
_MOST_RAW = 1024  # a struct tcp_info has some 300 bytes
_ARRAYS = ("time_ns", "cookie", "iteration", "family", "raw")
_COLUMNS = ("own_time_ns", "cookie", "iteration", "family", "raw")  # of the table, from which the others were made
Row = tuple[int, int, int, int, bytes]
"""(time_ns, cookie, iteration, family, TCP_INFO) of a sample."""


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Between whom a connection is; addresses are as :func:`normalised` has them."""

    cookie: int
    local: tuple[str, int]
    remote: tuple[str, int]
    rank: int | None = None
    host: str | None = None


class SamplesFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Whose sockets they are, and what was lost of what they told."""

    rank: int
    host: str
    machine: str = ""
    lost: int = 0
    dropped: int = 0
    version: int = VERSION
    connections: tuple[Connection, ...] = ()
    clock: ClockAlignment | None = None  # by which a table's times were made
    origin_ns: int | None = None  # when training began, on the reference clock


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """All samples of one rank, in the order of time; the arrays are as long as each other. Own clock."""

    rank: int
    host: str
    time_ns: npt.NDArray[np.int64]
    cookie: npt.NDArray[np.uint64]
    iteration: npt.NDArray[np.int32]
    family: npt.NDArray[np.uint16]
    raw: tuple[bytes, ...]
    connections: Mapping[int, Connection]
    machine: str = ""
    """Equal where ranks share a host; empty: as ``host``."""
    lost: int = 0
    """Records that were damaged or torn."""
    dropped: int = 0
    """Records that were left out for lack of room."""


def normalised(address: str) -> str:
    """``address`` as both ends of a connection write it: without zone, IPv4 as IPv4.

    >>> normalised("::ffff:10.0.0.1"), normalised("fe80::1%eth0")
    ('10.0.0.1', 'fe80::1')

    Raises: ValueError, if it is none.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def packed(time_ns: int, cookie: int, iteration: int, family: int, raw: bytes) -> bytes:
    """A sample, for a record of kind 1."""
    return SAMPLE.pack(time_ns, cookie, iteration, family, 0, len(raw)) + raw


def described(connection: Connection) -> bytes:
    """A connection, for a record of kind 2."""
    return msgspec.json.encode(connection) + b"\n"


def read_samples(own: Recorded) -> Samples | None:
    """What that host left of its sockets; None: nothing. Raises: ArchiveError, if it cannot be read."""
    if own.connections.exists():
        return _read_parquet(own.connections)
    return _read_raw(own.connections_raw) if own.connections_raw.exists() else None


def convert_samples(own: Recorded, origin_ns: int | None = None) -> Path:
    """Writes the table of its connections from what was recorded, reads it back and compares; the raw file stays.

    ``origin_ns``: when the run's training began, on the reference clock; times are aligned by the host's clock.json.
    Raises: ArchiveError, if there is none, it cannot be read, or what was written is not what was read.
    """
    samples, clock_file = _read_raw(own.connections_raw), own.folder / CLOCK
    clock = read_alignment(clock_file) if clock_file.exists() else None
    if origin_ns is None and len(samples.raw):  # of all groups of rows one origin
        origin_ns = int((clock or ClockAlignment()).align(samples.time_ns[:1])[0])
    facts = SamplesFacts(
        rank=samples.rank, host=samples.host, machine=samples.machine, lost=samples.lost, dropped=samples.dropped,
        connections=tuple(samples.connections.values()), version=connection_columns.VERSION, origin_ns=origin_ns,
        clock=clock,
    )  # fmt: skip
    target = own.connections.path
    try:
        target.parent.mkdir(exist_ok=True)
        with whole(target) as place:
            _write_parquet(place, samples, facts)
    except (pa.ArrowInvalid, OverflowError) as error:  # a rank or a family that is none
        raise ArchiveError(f"{own.connections_raw}: cannot be a table: {error}; {codec.DAMAGED}") from error
    except OSError as error:
        raise ArchiveError(f"{target}: cannot write it: {error}; make room or choose another directory") from error
    again = _read_parquet(own.connections)
    of_both = [(each.raw, each.lost, each.dropped, each.connections) for each in (samples, again)]
    if of_both[0] != of_both[1]:
        raise ArchiveError(f"{target}: differs from {own.connections_raw} after conversion; keep that and report this")
    return target


def _write_parquet(place: Path, samples: Samples, facts: SamplesFacts) -> None:
    """Group of rows by group of rows: decoded they take many times what they were recorded in."""
    schema = connection_columns.SCHEMA.with_metadata({_METADATA: msgspec.json.encode(facts)})
    rows = rows_per_group(len(samples.raw))
    with pq.ParquetWriter(place, schema, compression="zstd", write_page_checksum=True) as writer:
        for begin in range(0, len(samples.raw), rows):
            own = {name: getattr(samples, name)[begin : begin + rows] for name in _ARRAYS}
            ends = [samples.connections[cookie] for cookie in own["cookie"].tolist()]
            table = connection_columns.to_table(
                samples.rank, samples.host, own, ends, clock=facts.clock, origin_ns=facts.origin_ns
            )
            writer.write_table(table.replace_schema_metadata(schema.metadata))


def _read_raw(place: Place) -> Samples:
    log = read_log(place)
    facts = codec.convert(log.header, SamplesFacts, f"{place}: its header", remedy=codec.DAMAGED)
    rows, connections, malformed = told_in(log.frames)
    facts = msgspec.structs.replace(facts, dropped=log.dropped)
    return samples_of(facts, rows, connections, malformed + log.lost_frames)


def told_in(frames: Sequence[tuple[int, bytes]]) -> tuple[list[Row], dict[int, Connection], int]:
    """(samples, connections by cookie, records that are neither) of a log's ``frames``."""
    rows: list[Row] = []
    connections: dict[int, Connection] = {}
    malformed = 0
    for kind, payload in frames:
        if kind == SAMPLE_KIND:
            found = list(_rows(payload))
            rows += found
            malformed += sum(SAMPLE.size + len(row[-1]) for row in found) != max(1, len(payload))
            continue
        told = list(map(_connection, payload.splitlines() or [b""])) if kind == CONNECTION_KIND else [None]
        connections |= {one.cookie: one for one in told if one is not None}
        malformed += told.count(None)
    return rows, connections, malformed


def _rows(payload: bytes) -> Iterator[Row]:
    """Its samples, up to what is none: whatever carries a good checksum may still have been made by hand."""
    at = 0
    while len(payload) - at >= SAMPLE.size:
        time_ns, cookie, iteration, family, _, length = SAMPLE.unpack_from(payload, at)
        at += SAMPLE.size + length
        if at <= len(payload):
            yield time_ns, cookie, iteration, family, payload[at - length : at]


def _connection(payload: bytes) -> Connection | None:
    try:
        found = typed.decode(payload, Connection)
        ends = [(normalised(address), port) for address, port in (found.local, found.remote)]
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return msgspec.structs.replace(found, local=ends[0], remote=ends[1])


def samples_of(facts: SamplesFacts, rows: list[Row], connections: dict[int, Connection], lost: int) -> Samples:
    """Of what can be: a time that is none, and a connection that nobody described, are counted as lost."""
    kinds = (np.int64, np.uint64, np.int32, np.uint16)
    arrays = [np.fromiter((row[at] for row in rows), kind, len(rows)) for at, kind in enumerate(kinds)]
    return _samples(facts, arrays, [row[4] for row in rows], connections, lost)


def _samples(
    facts: SamplesFacts, arrays: Sequence[npt.NDArray[Any]], raws: list[bytes], connections: dict[int, Connection],
    lost: int,
) -> Samples:  # fmt: skip
    time_ns, cookie, iteration, family = arrays
    described = np.array([one for one in connections if 0 <= one < 1 << 64], dtype=np.uint64)
    lengths = np.fromiter(map(len, raws), np.int64, len(raws))
    good = (time_ns <= MOST_NS) & (time_ns >= -MOST_NS) & (iteration >= -1) & (lengths <= _MOST_RAW)
    kept = np.flatnonzero(good & np.isin(cookie, described))
    kept = kept[np.argsort(time_ns[kept], kind="stable")]
    return Samples(
        rank=facts.rank, host=facts.host, time_ns=time_ns[kept], cookie=cookie[kept], iteration=iteration[kept],
        family=family[kept], raw=tuple(map(raws.__getitem__, kept.tolist())), connections=connections,
        machine=facts.machine, lost=lost + len(raws) - len(kept), dropped=facts.dropped,
    )  # fmt: skip


def _read_parquet(place: Place) -> Samples:
    with placed(place).opened() as content:
        try:
            file = pq.ParquetFile(content, page_checksum_verification=True)
            if file.metadata.num_rows * SAMPLE.size > LARGE_BYTES:
                raise ArchiveError(f"{place}: holds {file.metadata.num_rows} samples, as no run does; remove it")
            schema = file.schema_arrow
            facts = codec.decode((schema.metadata or {}).get(_METADATA, b""), SamplesFacts, f"{place}: its metadata")
            if facts.version > connection_columns.VERSION:
                newer = f"it is version {facts.version}, not {connection_columns.VERSION}"
                raise ArchiveError(f"{place}: cannot read it: {newer}; read it with the program that wrote it")
            if facts.version != connection_columns.VERSION or not schema.equals(connection_columns.SCHEMA):
                raise ArchiveError(f"{place}: its columns are not those of samples; {codec.DAMAGED}")
            read, lost = read_groups(file, list(_COLUMNS))
        except (OSError, ValueError, pa.ArrowException, MemoryError) as error:
            reason = str(error).partition("\n")[0]
            raise ArchiveError(f"{place}: cannot read it: {reason}; run e2c-dl verify on the archive") from error
    told = [read.column(name).fill_null(-1) if name == "iteration" else read.column(name) for name in _COLUMNS]
    if any(column.null_count for column in told):
        raise ArchiveError(f"{place}: a value is missing in a sample; {codec.DAMAGED}")
    known = [_connection(json.dumps(msgspec.to_builtins(one)).encode()) for one in facts.connections]
    connections: dict[int, Connection] = {one.cookie: one for one in known if one is not None}
    arrays = [column.to_numpy() for column in told[:-1]]
    missing = facts.lost + lost.spans + len(known) - len(connections)
    return _samples(facts, arrays, told[-1].to_pylist(), connections, missing)


def header(rank: int, host: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The header of a connections.bin."""
    return {**(more or {}), "rank": rank, "host": host, "version": VERSION}
