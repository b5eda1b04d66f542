import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from synthetic import Ring, simulate

from e2c_dl.errors import ArchiveError
from e2c_dl.topology import Link
from e2c_dl.trace.export.perfetto import lanes, write
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import Trace

RING = Ring(
    compute_s=(0.02, 0.03, 0.02),
    links=(Link(rate_bps=2e7, delay_s=0.001),) * 3,
    bucket_bytes=(20_000, 50_000),
    iterations=3,
    wake_s=1e-4,
)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return simulate(RING)


@pytest.fixture(scope="module")
def written(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = tmp_path_factory.mktemp("perfetto") / "trace.json"
    write(trace, path)
    content = json.loads(path.read_text())
    events: list[dict[str, Any]] = content["traceEvents"]
    return events


def test_every_span_is_there_once(trace: Trace, written: list[dict[str, Any]]) -> None:
    slices = [event for event in written if event["ph"] == "X"]
    for rank in trace.ranks:
        assert sum(event["pid"] == rank.rank for event in slices) == len(rank.spans)
    assert min(event["ts"] for event in slices) == 0


def test_slices_of_a_thread_nest_or_follow_each_other(written: list[dict[str, Any]]) -> None:
    threads = defaultdict(list)
    for event in written:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((round(event["ts"] * 1000), round(event["dur"] * 1000)))
    for slices in threads.values():
        open_until: list[int] = []
        for start, length in sorted(slices, key=lambda one: (one[0], -one[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or start + length <= open_until[-1]
            open_until.append(start + length)


def test_every_message_is_an_arrow_between_its_two_spans(trace: Trace, written: list[dict[str, Any]]) -> None:
    slices = {(e["pid"], e["tid"], e["ts"]): e for e in written if e["ph"] == "X" and e["cat"] == "propagation"}
    starts = {event["id"]: event for event in written if event["ph"] == "s"}
    ends = {event["id"]: event for event in written if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == len(join(trace).joined)
    for number, start in starts.items():
        sent = slices[start["pid"], start["tid"], start["ts"]]
        received = slices[ends[number]["pid"], ends[number]["tid"], ends[number]["ts"]]
        assert sent["name"].startswith("send")
        assert received["name"].startswith("receive")
        assert sent["args"]["seq"] == received["args"]["seq"]


def test_all_that_was_on_the_way_arrives(written: list[dict[str, Any]]) -> None:
    counters = defaultdict(list)
    for event in written:
        if event["ph"] == "C":
            counters[event["pid"], event["name"]].append(event["args"]["bytes"])
    assert sorted(counters) == [(r, f"bytes on the way to edge-{(r + 1) % 3 + 1}") for r in range(3)]
    for values in counters.values():
        assert min(values) == values[-1] == 0
        assert max(values) > 0


def test_every_thread_and_process_has_a_name(written: list[dict[str, Any]]) -> None:
    named = {(e["pid"], e["tid"]) for e in written if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in written if e["ph"] in "Xsf"} <= named
    processes = {e["pid"]: e["args"]["name"] for e in written if e["name"] == "process_name"}
    assert processes[0] == "edge-1 (rank 0, edge)"


def test_lanes_are_as_few_as_possible() -> None:
    assert lanes([(0, 10), (2, 5), (5, 7), (6, 12), (10, 11)]) == [0, 1, 1, 2, 0]


def test_a_file_that_cannot_be_written_is_named(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="cannot be written"):
        write(trace, tmp_path / "no" / "trace.json")


@pytest.mark.skipif("E2CDL_TRACE_PROCESSOR" not in os.environ, reason="E2CDL_TRACE_PROCESSOR names no trace_processor")
def test_perfettos_own_trace_processor_loads_it(trace: Trace, tmp_path: Path) -> None:
    """With PyPI's perfetto and the native program that it would download: name that program to run this."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    write(trace, tmp_path / "trace.json")
    config = TraceProcessorConfig(bin_path=os.environ["E2CDL_TRACE_PROCESSOR"])
    with TraceProcessor(trace=str(tmp_path / "trace.json"), config=config) as processor:
        names = {row.name for row in processor.query("select distinct name from process")}
        assert set(trace.hosts) <= names
        assert next(iter(processor.query("select count(*) as slices from slice"))).slices > 0
        assert next(iter(processor.query("select count(*) as flows from flow"))).flows > 0
