import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from e2c_dl.errors import ArchiveError
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, Spans
from e2c_dl.trace.recorder import Recorder
from e2c_dl.trace.store import convert, read_parquet, read_trace, write_parquet

FACTS: Mapping[str, object] = {"rank": 1, "host": "edge-2", "layer": "edge"}


def some_spans() -> Spans:
    spans = np.zeros(50, dtype=SPAN)
    random = np.random.default_rng(1)
    for name in SPAN.names or ():
        spans[name] = random.integers(0, 100, size=50)
    return spans


def host(hosts: Path, name: str, rank: int, clock: ClockAlignment, status: str | None = "finished") -> Path:
    folder = hosts / name
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
    assert convert(folder) == folder / "spans.parquet"
    (folder / "spans.bin").unlink()
    after = read_trace(tmp_path)
    assert after.ranks[0].spans.tobytes() == before.ranks[0].spans.tobytes()
    assert after.ranks[0].complete


def test_times_are_aligned_and_ranks_ordered(tmp_path: Path) -> None:
    host(tmp_path, "cloud-1", 1, ClockAlignment(offset_ns=500, uncertainty_ns=7))
    host(tmp_path, "edge-1", 0, ClockAlignment())
    (tmp_path / "viewer").mkdir()
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
    with pytest.raises(ArchiveError, match="no such directory"):
        read_trace(tmp_path / "hosts")
    with pytest.raises(ArchiveError, match="no host has left a trace"):
        read_trace(tmp_path)
    folder = host(tmp_path, "edge-1", 0, ClockAlignment())
    host(tmp_path, "edge-2", 0, ClockAlignment())
    with pytest.raises(ArchiveError, match="edge-1 and edge-2 both recorded rank 0"):
        read_trace(tmp_path)
    (folder / "clock.json").write_text("{")
    with pytest.raises(ArchiveError, match="is not valid JSON"):
        read_trace(tmp_path)
    (folder / "spans.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ArchiveError, match=r"spans\.parquet: cannot read the trace") as caught:
        read_trace(tmp_path)
    assert "\n" not in str(caught.value)
