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

SAMPLE_KIND, CONNECTION_KIND = 1, 2
SAMPLE = struct.Struct("<qQiHHI")
RECORD_BYTES = 512  # at most, of a sample or a connection: as the log asks, which has them share frames
VERSION = 1
_METADATA = b"e2c_dl"
_MOST_RAW = 1024  # a struct tcp_info has some 300 bytes
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
    facts = SamplesFacts(
        rank=samples.rank, host=samples.host, machine=samples.machine, lost=samples.lost, dropped=samples.dropped,
        connections=tuple(samples.connections.values()), version=connection_columns.VERSION, origin_ns=origin_ns,
        clock=clock,
    )  # fmt: skip
    values = {name: getattr(samples, name) for name in ("time_ns", "cookie", "iteration", "family", "raw")}
    ends = [samples.connections[cookie] for cookie in samples.cookie.tolist()]
    try:
        table = connection_columns.to_table(samples.rank, samples.host, values, ends, clock=clock, origin_ns=origin_ns)
    except (pa.ArrowException, OverflowError) as error:  # a rank or a family that is none
        raise ArchiveError(f"{own.connections_raw}: cannot be a table: {error}; {codec.DAMAGED}") from error
    table = table.replace_schema_metadata({_METADATA: msgspec.json.encode(facts)})
    target = own.connections.path
    try:
        target.parent.mkdir(exist_ok=True)
        with whole(target) as place:
            pq.write_table(table, place, compression="zstd", write_page_checksum=True)
    except OSError as error:
        raise ArchiveError(f"{target}: cannot write it: {error}; make room or choose another directory") from error
    again = _read_parquet(own.connections)
    of_both = [(each.raw, each.lost, each.dropped, each.connections) for each in (samples, again)]
    if of_both[0] != of_both[1]:
        raise ArchiveError(f"{target}: differs from {own.connections_raw} after conversion; keep that and report this")
    return target


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
    good = [
        row for row in rows
        if abs(row[0]) <= MOST_NS and row[1] in connections and row[2] >= -1 and len(row[4]) <= _MOST_RAW
    ]  # fmt: skip
    good.sort(key=lambda row: row[0])
    return Samples(
        rank=facts.rank,
        host=facts.host,
        time_ns=np.array([row[0] for row in good], dtype=np.int64),
        cookie=np.array([row[1] for row in good], dtype=np.uint64),
        iteration=np.array([row[2] for row in good], dtype=np.int32),
        family=np.array([row[3] for row in good], dtype=np.uint16),
        raw=tuple(row[4] for row in good),
        connections=connections,
        machine=facts.machine,
        lost=lost + len(rows) - len(good),
        dropped=facts.dropped,
    )


def _read_parquet(place: Place) -> Samples:
    with placed(place).opened() as content:
        try:
            file = pq.ParquetFile(content, page_checksum_verification=True)
            if file.metadata.num_rows * SAMPLE.size > LARGE_BYTES:
                raise ArchiveError(f"{place}: holds {file.metadata.num_rows} samples, as no run does; remove it")
            read = file.read()
        except (OSError, ValueError, pa.ArrowException, MemoryError) as error:
            reason = str(error).partition("\n")[0]
            raise ArchiveError(f"{place}: cannot read it: {reason}; run e2c-dl verify on the archive") from error
    text = (read.schema.metadata or {}).get(_METADATA, b"")
    facts = codec.decode(text, SamplesFacts, f"{place}: its metadata")
    if facts.version != connection_columns.VERSION or not read.schema.equals(connection_columns.SCHEMA):
        raise ArchiveError(f"{place}: its columns are not those of samples; {codec.DAMAGED}")
    told = [read.column(name).fill_null(-1) if name == "iteration" else read.column(name) for name in _COLUMNS]
    if any(column.null_count for column in told):
        raise ArchiveError(f"{place}: a value is missing in a sample; {codec.DAMAGED}")
    rows = list(zip(*(column.to_pylist() for column in told), strict=True))
    known = [_connection(json.dumps(msgspec.to_builtins(one)).encode()) for one in facts.connections]
    connections: dict[int, Connection] = {one.cookie: one for one in known if one is not None}
    return samples_of(facts, rows, connections, facts.lost + len(known) - len(connections))


def header(rank: int, host: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The header of a connections.bin."""
    return {**(more or {}), "rank": rank, "host": host, "version": VERSION}
