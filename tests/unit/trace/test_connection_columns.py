"""The table of connections: what the kernel told, decoded, with units, on the clock of spans; the raw struct too."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import asdict
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from told_sockets import counted, write_told

from e2c_dl.errors import ArchiveError
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.trace.places import recorded
from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.propagation.connection_columns import COUNTERS, SCHEMA
from e2c_dl.trace.propagation.samples import (
    CONNECTION_KIND,
    SAMPLE_KIND,
    Connection,
    convert_samples,
    header,
    packed,
    read_samples,
)
from e2c_dl.trace.recording.log import Log

PAGE = (Path(__file__).parents[3] / "docs/trace-format.md").read_text()


def test_every_counter_is_decoded_and_explained(tmp_path: Path) -> None:
    assert COUNTERS.keys() == tcp_info.FIELDS.keys()
    raws = [bytes((7 * index + byte) % 256 for byte in range(length)) for index, length in enumerate((232, 104, 232))]
    ends = {"cookie": 5, "local": ["10.0.0.1", 40000], "remote": ["fe80::1", 29500], "rank": 2, "host": "edge-3"}
    own = recorded(tmp_path, "edge-2")
    own.folder.path.mkdir(parents=True)
    with Log(own.connections_raw.path, header(1, "edge-2")) as log:
        log.append(CONNECTION_KIND, json.dumps(ends).encode())
        for number, raw in enumerate(raws):
            log.append(SAMPLE_KIND, packed(1000 * number, 5, number - 1, 2, raw))
    (own.folder / "clock.json").path.write_text(json.dumps(asdict(ClockAlignment(offset_ns=50))))
    convert_samples(own, 20)
    table = pq.read_table(own.connections.path)
    assert table.schema.equals(SCHEMA)
    for row, raw in zip(table.to_pylist(), raws, strict=True):
        assert {name: row[name] for name in tcp_info.FIELDS} == tcp_info.decode(raw)
        assert row["raw"] == raw
    assert table["time_ns"].to_pylist() == [30, 1030, 2030]
    assert table["own_time_ns"].to_pylist() == [0, 1000, 2000]
    assert table["iteration"].to_pylist() == [None, 0, 1]
    row = table.to_pylist()[0]
    assert (row["local"], row["remote"]) == ("10.0.0.1:40000", "[fe80::1]:29500")
    assert (row["rank"], row["host"], row["peer_rank"], row["peer_host"]) == (1, "edge-2", 2, "edge-3")
    for field in pq.read_schema(own.connections.path):
        assert field.metadata[b"description"] and b"unit" in field.metadata, field.name
    samples = read_samples(own)
    assert samples is not None and samples.iteration.tolist() == [-1, 0, 1] and samples.raw == tuple(raws)


def test_the_query_on_the_page_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = recorded(tmp_path / "ARCHIVE", "edge-2")
    own.folder.path.mkdir(parents=True)
    offset = tcp_info.FIELDS["bytes_acked"][0]
    with Log(own.connections_raw.path, header(1, "edge-2")) as log:
        log.append(CONNECTION_KIND, b'{"cookie": 5, "local": ["10.0.0.1", 1], "remote": ["10.0.0.2", 2], "rank": 0}')
        for acked in (100, 700):
            log.append(SAMPLE_KIND, packed(acked, 5, 3, 2, bytes(offset) + acked.to_bytes(8, "little")))
    convert_samples(own, 0)
    monkeypatch.chdir(tmp_path)
    (query,) = re.findall(r"```sql\n(.*?)```", PAGE.partition("## Connections")[2].partition("\n## ")[0], re.DOTALL)
    assert duckdb.sql(query).fetchall() == [(1, 0, 3, 600)]


def test_the_page_names_every_column() -> None:
    for field in SCHEMA:
        unit, description = (field.metadata[key].decode() for key in (b"unit", b"description"))
        assert f"| `{field.name}` | {unit} | {description} |" in PAGE


def test_the_query_on_the_page_sums_each_links_connections_per_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two connections, one sample each at an iteration's end, as iterations below 0.2 s have."""
    own = recorded(tmp_path / "ARCHIVE", "edge-1")
    own.folder.path.mkdir(parents=True)
    told = [
        ((number + 1) * 100_000_000, cookie, number, acked(before + (number + 1) * rise))
        for number in range(-1, 3)
        for cookie, before, rise in ((1, 7_000, 1_000_000), (2, 0, 10))
    ]
    ends = [
        Connection(cookie=cookie, local=("10.0.0.1", cookie), remote=("10.0.0.2", cookie), rank=1, host="edge-2")
        for cookie in (1, 2)
    ]
    write_told(own.connections_raw.path, 0, "edge-1", ends, told)
    convert_samples(own, 0)
    (query,) = re.findall(r"```sql\n(.*?)```", PAGE.partition("\n## Connections\n")[2], re.DOTALL)
    monkeypatch.chdir(tmp_path)
    rows = duckdb.sql(query).fetchall()
    assert [row for row in rows if row[2] is not None] == [(0, 1, number, 1_000_010) for number in range(3)]
    assert [row[3] for row in rows if row[2] is None] == [0]


def acked(count: int) -> bytes:
    """A TCP_INFO of which so many bytes are acknowledged."""
    made = bytearray(counted())
    struct.pack_into("=Q", made, tcp_info.FIELDS["bytes_acked"][0], count)
    return bytes(made)


def test_a_table_of_a_later_version_is_called_that_whatever_columns_it_has(tmp_path: Path) -> None:
    own = recorded(tmp_path, "edge-1")
    place = own.connections.path
    place.parent.mkdir(parents=True)
    told = {b"e2c_dl": b'{"rank": 0, "host": "edge-1", "version": 9}'}
    pq.write_table(pa.table({"later": [1]}).replace_schema_metadata(told), place)
    with pytest.raises(ArchiveError, match=r"it is version 9, not 2; read it with the program that wrote it"):
        read_samples(own)
