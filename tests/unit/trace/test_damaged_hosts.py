"""What one host's damaged file costs: no more than what it says, and nothing silently."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from told_sockets import counted, write_told

from e2c_dl.errors import ArchiveError
from e2c_dl.trace.clocks.clock import write_alignment
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase
from e2c_dl.trace.places import Recorded, recorded
from e2c_dl.trace.propagation.samples import Connection, convert_samples, read_samples
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.trace.row_groups import LEAST_ROWS
from e2c_dl.trace.store import convert, read_trace, write_parquet
from e2c_dl.trace.tables import table_of_host

ROWS = 3 * LEAST_ROWS
CLOCK = ClockAlignment(offset_ns=500, uncertainty_ns=7)


def left(archive: Path, name: str, rank: int) -> Recorded:
    """What a host leaves that finished: its spans as a table and as recorded, clock.json, outcome.json."""
    own = recorded(archive, name)
    own.folder.path.mkdir(parents=True)
    with Recorder(own.raw.path, rank=rank, host=name, layer="edge") as recorder:
        recorder.record(Phase.FORWARD, 1000, 1000, 2000, task=-1, iteration=0)
        recorder.record(Phase.TRAINING, 0, 0, 3000)
    write_alignment(own.folder.path / "clock.json", CLOCK)
    (own.folder.path / "outcome.json").write_text(json.dumps({"status": "finished"}))
    return own


@pytest.fixture
def pair(tmp_path: Path) -> Recorded:
    """The second of two hosts."""
    left(tmp_path, "edge-1", 0)
    return left(tmp_path, "edge-2", 1)


@pytest.mark.parametrize("text", ["", '{"format": 2, "offset'])
def test_a_damaged_clock_leaves_its_host_unaligned_and_the_others_as_they_are(pair: Recorded, text: str) -> None:
    (pair.folder.path / "clock.json").write_text(text)
    trace = read_trace(pair.archive)
    assert [rank.clock for rank in trace.ranks] == [CLOCK, ClockAlignment(uncertainty_ns=3000)], "as long as it trained"
    assert trace.facts["hosts_without_clock"] == ("edge-2",)
    assert "edge-2/clock.json" in trace.facts["unreadable"][0]
    assert all(rank.complete for rank in trace.ranks)


def test_a_table_tells_the_clock_that_it_was_written_with(pair: Recorded) -> None:
    convert(pair)
    (pair.folder.path / "clock.json").write_text("{")
    trace = read_trace(pair.archive)
    assert trace.ranks[1].clock == CLOCK
    assert trace.ranks[1].spans["start_ns"].tolist() == [1500, 500]
    assert trace.facts["hosts_without_clock"] == ()


@pytest.mark.parametrize("text", ["", '{"status": "fini', '{"status": 7}'])
def test_a_damaged_outcome_leaves_its_rank_incomplete(pair: Recorded, text: str) -> None:
    (pair.folder.path / "outcome.json").write_text(text)
    trace = read_trace(pair.archive)
    assert [rank.complete for rank in trace.ranks] == [True, False]
    assert "edge-2/outcome.json" in trace.facts["unreadable"][0]


@pytest.fixture
def table(tmp_path: Path) -> Recorded:
    """A host's table of two groups of rows."""
    own = recorded(tmp_path, "edge-1")
    own.folder.path.mkdir(parents=True)
    spans = np.zeros(2 * LEAST_ROWS, dtype=SPAN)
    spans["phase"], spans["start_ns"] = Phase.STEP, np.random.default_rng(1).integers(0, 1 << 40, len(spans))
    spans["end_ns"] = spans["posted_ns"] = spans["start_ns"]
    write_parquet(own.table.path, spans, {"rank": 0, "host": "edge-1", "layer": "edge"}, complete=True, origin_ns=0)
    return own


@pytest.mark.parametrize("columns", [None, ["end_ns", "start_ns"]])
@pytest.mark.parametrize(("damaged", "lost"), [("own_start_ns", LEAST_ROWS), ("start_ns", 0)])
def test_a_flipped_bit_costs_a_table_of_spans_its_rows_if_nothing_else_tells_them(
    damaged: str, lost: int, columns: list[str] | None, table: Recorded
) -> None:
    whole = table_of_host(table, columns)
    flip(table.table.path, 0, damaged)
    found = table_of_host(table, columns, origin_ns=0)
    if columns is not None and damaged not in columns:
        lost = 0  # what is not asked for is not read
    assert found.equals(whole.slice(lost))


def test_a_table_of_which_nothing_can_be_read_is_named(table: Recorded) -> None:
    table.table.path.write_bytes(table.table.path.read_bytes()[:-100])
    with pytest.raises(ArchiveError, match=r"edge-1\.parquet: cannot read the trace"):
        table_of_host(table)


@pytest.fixture
def told(tmp_path: Path) -> Recorded:
    """What a host's sockets told, as a table of several groups of rows."""
    own = recorded(tmp_path, "edge-1")
    own.folder.path.mkdir(parents=True)
    ends = [Connection(cookie=each, local=("10.0.0.1", each), remote=("10.0.0.2", each)) for each in (1, 2)]
    rows = ((10 * number, 1 + number % 2, number // 2 - 1, counted(segments_out=number)) for number in range(ROWS))
    write_told(own.connections_raw.path, 0, "edge-1", ends, rows)
    convert_samples(own)
    return own


def test_a_flipped_bit_costs_a_table_of_connections_its_group_of_rows(told: Recorded) -> None:
    whole = read_samples(told)
    assert whole is not None and len(whole.raw) == ROWS
    assert pq.read_table(told.connections.path, columns=["time_ns"])["time_ns"].to_pylist() == [
        *range(0, 10 * ROWS, 10)
    ]
    flip(told.connections.path, 1, "raw")
    found = read_samples(told)
    assert found is not None and found.lost == LEAST_ROWS
    assert found.raw == whole.raw[:LEAST_ROWS] + whole.raw[2 * LEAST_ROWS :]
    flip(told.connections.path, 0, "srtt_us")  # which nobody needs who has the raw struct
    assert read_samples(told) is not None


def flip(path: Path, group: int, column: str) -> None:
    """One bit of that column's part of that group of rows."""
    content = bytearray(path.read_bytes())
    about = pq.ParquetFile(path).metadata.row_group(group)
    (part,) = (each for number in range(about.num_columns) if (each := about.column(number)).path_in_schema == column)
    content[part.data_page_offset + part.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
