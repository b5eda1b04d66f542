import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.errors import ArchiveError
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, Spans
from e2c_dl.trace.places import recorded
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.trace.row_groups import LEAST_ROWS, MOST_ROWS
from e2c_dl.trace.store import convert, read_parquet, read_trace, write_parquet

FACTS: Mapping[str, object] = {"rank": 1, "host": "edge-2", "layer": "edge"}


def some_spans() -> Spans:
    spans = np.zeros(50, dtype=SPAN)
    random = np.random.default_rng(1)
    for name in SPAN.names or ():
        spans[name] = random.integers(0, 100, size=50)
    return spans


def host(archive: Path, name: str, rank: int, clock: ClockAlignment, status: str | None = "finished") -> Path:
    folder = archive / "hosts" / name
    folder.mkdir(parents=True)
    with Recorder(folder / "spans.bin", rank=rank, host=name, layer="edge") as recorder:
        recorder.record(Phase.FORWARD, 1000, 1000, 2000, task=-1, iteration=0)
        recorder.record(Phase.TRAINING, 0, 0, 3000)
    (folder / "clock.json").write_text(json.dumps(asdict(clock)))
    if status:
        (folder / "outcome.json").write_text(json.dumps({"status": status}))
    return folder


def test_parquet_gives_back_every_bit(tmp_path: Path) -> None:
    spans = some_spans()
    write_parquet(tmp_path / "spans.parquet", spans, FACTS, complete=True, clock=ClockAlignment(offset_ns=5))
    facts, again, complete = read_parquet(tmp_path / "spans.parquet")
    assert again.tobytes() == spans.tobytes()
    assert complete
    assert {name: getattr(facts, name) for name in FACTS} == FACTS
    assert facts.clock is not None and facts.clock.offset_ns == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spans.parquet"]


def test_converting_keeps_what_was_recorded(tmp_path: Path) -> None:
    folder = host(tmp_path, "edge-1", 0, ClockAlignment())
    before = read_trace(tmp_path)
    assert convert(recorded(tmp_path, "edge-1")) == tmp_path / "traces/edge-1.parquet"
    (folder / "spans.bin").unlink()
    after = read_trace(tmp_path)
    assert after.ranks[0].spans.tobytes() == before.ranks[0].spans.tobytes()
    assert after.ranks[0].complete


def test_times_are_aligned_and_ranks_ordered(tmp_path: Path) -> None:
    host(tmp_path, "cloud-1", 1, ClockAlignment(offset_ns=500, uncertainty_ns=7))
    host(tmp_path, "edge-1", 0, ClockAlignment())
    (tmp_path / "hosts/viewer").mkdir()
    trace = read_trace(tmp_path, {"strategy": "allreduce"})
    assert trace.hosts == ("edge-1", "cloud-1")
    assert trace.ranks[0].spans["start_ns"].tolist() == [1000, 0]
    assert trace.ranks[1].spans["start_ns"].tolist() == [1500, 500]
    assert trace.ranks[1].spans["posted_ns"].tolist() == [1500, 500]
    assert trace.ranks[1].clock.uncertainty_ns == 7
    assert trace.facts["hosts_without_trace"] == ("viewer",)
    assert trace.facts["strategy"] == "allreduce"


@pytest.mark.parametrize("status", [None, "failed"])
def test_a_worker_that_did_not_finish_is_incomplete(tmp_path: Path, status: str | None) -> None:
    host(tmp_path, "edge-1", 0, ClockAlignment(), status)
    assert not read_trace(tmp_path).ranks[0].complete


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no host has left a trace"):
        read_trace(tmp_path)
    folder = host(tmp_path, "edge-1", 0, ClockAlignment())
    host(tmp_path, "edge-2", 0, ClockAlignment())
    with pytest.raises(ArchiveError, match="edge-1 and edge-2 both recorded rank 0"):
        read_trace(tmp_path)
    for file in (tmp_path / "traces/edge-1.parquet", folder / "spans.bin"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"PAR1 no")
    shutil.rmtree(tmp_path / "hosts/edge-2")
    with pytest.raises(ArchiveError, match=r"spans\.bin: not a trace") as caught:
        read_trace(tmp_path)
    assert "\n" not in str(caught.value)


def test_hosts_whose_trace_cannot_be_read_are_named_and_the_others_read(tmp_path: Path) -> None:
    for rank, name in enumerate(("edge-1", "edge-2", "edge-3")):
        host(tmp_path, name, rank, ClockAlignment())
    (tmp_path / "hosts/edge-2/spans.bin").write_bytes(b"nothing")
    (tmp_path / "hosts/edge-3/spans.parquet").write_bytes(b"PAR1 no")  # the recording is still there
    trace = read_trace(tmp_path)
    assert trace.hosts == ("edge-1", "edge-3")
    assert trace.facts["hosts_unreadable"] == ("edge-2",)
    assert "edge-2/spans.bin: not a trace" in trace.facts["unreadable"][0]


@pytest.mark.parametrize(("count", "rows"), [(9 * MOST_ROWS, MOST_ROWS), (5 * LEAST_ROWS, LEAST_ROWS)])
def test_a_damaged_table_loses_groups_of_rows_and_counts_them(count: int, rows: int, tmp_path: Path) -> None:
    spans = np.zeros(count, dtype=SPAN)
    spans["phase"], spans["start_ns"] = Phase.STEP, np.random.default_rng(1).integers(0, 1 << 40, len(spans))
    spans["end_ns"] = spans["posted_ns"] = spans["start_ns"]
    spans["phase"][0] = Phase.TRAINING
    path = tmp_path / "spans.parquet"
    write_parquet(path, spans, FACTS, complete=True)
    content = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(2)
    starts = [group.column(number) for number in range(group.num_columns)]
    (start,) = (each for each in starts if each.path_in_schema == "own_start_ns")
    content[start.data_page_offset + start.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
    facts, found, complete = read_parquet(path)
    assert facts.lost.spans == rows and facts.lost.damaged_bytes > 0 and complete
    assert found.tobytes() == np.concatenate([spans[: 2 * rows], spans[3 * rows :]]).tobytes()


@given(data=st.data())
@settings(max_examples=40)
def test_a_flipped_bit_in_a_table_is_never_taken_for_data(data: st.DataObject, table: Path) -> None:
    content = bytearray(table.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    flipped = table.with_name("flipped.parquet")
    flipped.write_bytes(content)
    try:
        facts, found, _ = read_parquet(flipped)
    except ArchiveError:
        return
    whole = read_parquet(table)[1]
    # What pages hold is under a checksum; the footer is not: there, a name or a statistic may change, or a time's unit.
    assert found.tobytes() == whole.tobytes() or facts.lost.spans or bit // 8 > len(content) - footer(content)


def footer(content: bytes) -> int:
    """Bytes of what stands behind the pages."""
    return int.from_bytes(content[-8:-4], "little") + 8


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "spans.parquet"
    write_parquet(path, some_spans(), FACTS, complete=True)
    return path
