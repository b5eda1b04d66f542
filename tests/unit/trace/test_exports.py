"""Exports: every span is in each of them, collectives and flows too, and other programs' readers take them."""

from __future__ import annotations

import csv as stdlib_csv
import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from synthetic import Ring, simulate

from e2c_dl.errors import ArchiveError, ArchiveTaken
from e2c_dl.topology import Link
from e2c_dl.trace.columns import TIMES, to_table
from e2c_dl.trace.export import chakra, formats, otlp
from e2c_dl.trace.export.chakra_schema import Metadata, Node, NodeType
from e2c_dl.trace.model import SPAN, ClockAlignment, ClockStep, Collective, Phase, Trace

CHAKRAS_READER = Path(__file__).resolve().parents[3] / ".venv-chakra/bin/chakra_jsonizer"
CHAKRAS_NAMES = {
    NodeType.METADATA: "METADATA_NODE", NodeType.COMPUTE: "COMP_NODE", NodeType.SEND: "COMM_SEND_NODE",
    NodeType.RECEIVE: "COMM_RECV_NODE", NodeType.COLLECTIVE: "COMM_COLL_NODE",
}  # fmt: skip
STARTED = "2026-01-02T03:04:05+00:00"
STARTED_NS = 1_767_323_045 * 10**9


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Two ranks with messages; and as of a library that hides them, collectives and flows."""
    ring = Ring(compute_s=(0.01, 0.02), links=(Link(rate_bps=1e8),) * 2, bucket_bytes=(1000, 2000), iterations=3)
    found = simulate(ring)
    hidden = []
    for rank in found.ranks:
        more = np.zeros(3, dtype=SPAN)
        for name in ("seq", "iteration", "bucket", "src", "dst"):
            more[name] = -1
        more["posted_ns"] = more["start_ns"] = rank.spans["start_ns"].max()
        more["end_ns"], more["peer_task"], more["iteration"] = more["start_ns"] + 5000, -2, 2
        more["phase"] = Phase.COLLECTIVE, Phase.AWAIT_COLLECTIVE, Phase.FLOW
        more["kind"][:2], more["seq"][:2], more["bucket"][:2] = Collective.ALL_REDUCE, 4, 1
        more["nbytes"], more["task"][2], more["src"][2], more["dst"][2] = 4096, -2, rank.rank, 1 - rank.rank
        hidden.append(replace(rank, spans=np.concatenate([rank.spans, more])))
    return replace(found, ranks=tuple(hidden), facts={"run_id": "0badcafe", "started": STARTED})


def test_csv_has_a_row_per_span(trace: Trace, tmp_path: Path) -> None:
    formats.write("csv", trace, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(stdlib_csv.DictReader(file))
    assert len(rows) == sum(len(rank.spans) for rank in trace.ranks)
    last = rows[-1]
    assert (last["host"], last["phase"], last["src"], last["dst"], last["nbytes"]) == (
        "edge-2",
        "flow",
        "1",
        "0",
        "4096",
    )
    assert (last["kind"], last["task"], last["bucket"]) == ("", "", "")
    assert rows[-3]["kind"] == "all_reduce"
    began_ns = min(int(rank.spans["start_ns"][rank.spans["phase"] == Phase.ITERATION].min()) for rank in trace.ranks)
    assert int(last["end_ns"]) == trace.ranks[1].spans["end_ns"][-1] - began_ns


def test_csv_says_what_is_uncertain_as_tables_do(trace: Trace, tmp_path: Path) -> None:
    clock = ClockAlignment(
        offset_ns=500, uncertainty_ns=10**9, usual_uncertainty_ns=6000,
        steps=(ClockStep(from_ns=0, to_ns=20_000_000, uncertainty_ns=10**9),),
    )  # fmt: skip
    own = trace.ranks[0]
    aligned = own.spans.copy()
    for name in TIMES:
        aligned[name] = clock.align(own.spans[name])
    formats.write("csv", replace(trace, ranks=(replace(own, spans=aligned, clock=clock),)), tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        told = [row["uncertain"] == "true" for row in stdlib_csv.DictReader(file)]
    facts = {"rank": 0, "host": own.host, "layer": own.layer}
    table = to_table(own.spans, facts, complete=True, clock=clock, origin_ns=0)
    assert told == table["uncertain"].to_pylist()
    assert {True, False} == set(told)


def test_chrome_and_perfetto_show_collectives_and_flows(trace: Trace, tmp_path: Path) -> None:
    for name in ("perfetto", "chrome"):
        formats.write(name, trace, tmp_path / name)
        events = json.loads((tmp_path / name).read_text())["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        assert len(slices) == sum(len(rank.spans) for rank in trace.ranks)
        threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        shown = {(event["name"], threads[event["pid"], event["tid"]]) for event in slices}
        assert {("all reduce b1", "collectives"), ("flow", "flow to edge-2")} <= shown


def test_otlp_is_what_opentelemetry_reads(trace: Trace, tmp_path: Path) -> None:
    trace_pb2 = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2", reason="OTLP's schema is not installed")
    formats.write("otlp", trace, tmp_path / "t.jsonl")
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    assert len(lines) == 2 and max(len(rank.spans) for rank in trace.ranks) <= otlp.SPANS_PER_LINE
    spans: dict[str, Any] = {}
    for line, rank in zip(lines, trace.ranks, strict=True):
        # Its JSON has ids in hexadecimal, where protocol buffers have base 64: the parser only must not mind.
        (resource,) = json_format.Parse(line, trace_pb2.TracesData()).resource_spans
        assert {a.key: a.value.string_value for a in resource.resource.attributes}["host.name"] == rank.host
        assert len(resource.scope_spans[0].spans) == len(rank.spans)
        spans |= {one["spanId"]: one for one in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]}
    assert len(spans) == sum(len(rank.spans) for rank in trace.ranks)
    began = [int(one["startTimeUnixNano"]) for one in spans.values() if one["name"] == "iteration 0"]
    assert min(began) == STARTED_NS
    received = [one for one in spans.values() if one["name"].startswith("receive")]
    for one in received:
        sent = spans[one["links"][0]["spanId"]]
        assert sent["name"] == one["name"].replace("receive", "send")
        assert spans[one["parentSpanId"]]["name"].startswith("iteration")
    assert received
    names = Counter(one["name"] for one in spans.values())
    assert names["collective b1"] == names["flow"] == 2


def test_otlp_of_a_run_whose_beginning_is_not_known_begins_at_0(trace: Trace, tmp_path: Path) -> None:
    formats.write("otlp", replace(trace, facts={}), tmp_path / "t.jsonl")
    spans = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"] for line in (tmp_path / "t.jsonl").open()]
    assert all(int(one["startTimeUnixNano"]) >= 0 for each in spans for one in each)


def read_chakra(file: Path) -> tuple[Any, list[Any]]:
    """(metadata, nodes): messages behind their lengths."""
    content, at, found = file.read_bytes(), 0, []
    while at < len(content):
        length = shift = 0
        while True:
            byte = content[at]
            length, shift, at = length | (byte & 0x7F) << shift, shift + 7, at + 1
            if not byte & 0x80:
                break
        found.append((Node if found else Metadata).FromString(content[at : at + length]))
        at += length
    return found[0], found[1:]


def attributes(node: Any) -> dict[str, Any]:
    return {one.name: getattr(one, one.WhichOneof("value")) for one in node.attr}


def test_chakra_has_a_graph_per_rank(trace: Trace, tmp_path: Path) -> None:
    formats.write("chakra", trace, tmp_path / "t")
    assert sorted(file.name for file in (tmp_path / "t").iterdir()) == ["trace.0.et", "trace.1.et"]
    for rank in trace.ranks:
        metadata, nodes = read_chakra(tmp_path / "t" / f"trace.{rank.rank}.et")
        assert attributes(metadata)["host"] == rank.host
        kinds = Counter(NodeType(node.type) for node in nodes)
        phases = Counter(rank.spans["phase"].tolist())
        assert kinds[NodeType.SEND] == phases[Phase.SEND] and kinds[NodeType.RECEIVE] == phases[Phase.RECEIVE]
        assert kinds[NodeType.COLLECTIVE] == 1
        numbers = {node.id: node for node in nodes}
        for node in nodes:
            for other in (*node.ctrl_deps, *node.data_deps):
                before = numbers[other]
                assert other < node.id
                assert before.start_time_micros + before.duration_micros <= node.start_time_micros
        steps = [node for node in nodes if node.name.startswith("step")]
        assert len(steps) == 3
        for step in steps:  # of a ring: the step waits for what was received, at last
            assert {NodeType.RECEIVE} & {numbers[other].type for other in reaches(step, numbers)}
        (collective,) = (node for node in nodes if node.type == NodeType.COLLECTIVE)
        assert attributes(collective) | {"comm_type": 0, "comm_size": 4096, "pg_name": ""} == attributes(collective)


def reaches(node: Any, numbers: dict[int, Any]) -> set[int]:
    found: set[int] = set()
    ahead = [node]
    while ahead:
        for other in {*ahead[-1].ctrl_deps, *ahead.pop().data_deps} - found:
            found.add(other)
            ahead.append(numbers[other])
    return found


def test_chakra_does_not_mix_runs(trace: Trace, tmp_path: Path) -> None:
    for _ in range(2):  # the same run, again
        chakra.write(trace, tmp_path)
    with pytest.raises(ArchiveTaken, match="holds trace.1.et, a rank of another run"):
        chakra.write(replace(trace, ranks=trace.ranks[:1]), tmp_path)


@pytest.mark.skipif(not CHAKRAS_READER.exists(), reason="Chakra is not installed here: make setup-chakra")
def test_chakras_own_reader_reads_it(trace: Trace, tmp_path: Path) -> None:
    """In an environment of its own: it asks for packages that would replace pinned ones."""
    formats.write("chakra", trace, tmp_path / "t")
    for rank in trace.ranks:
        file, read = tmp_path / f"t/trace.{rank.rank}.et", tmp_path / f"{rank.rank}.json"
        command: list[str | Path] = [CHAKRAS_READER, "--input_filename", file, "--output_filename", read]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        metadata, nodes = read_chakra(file)
        assert metadata.version == chakra.VERSION
        ours = [json_format.MessageToDict(message) for message in (metadata, *nodes)]
        for node in ours[1:]:
            node["type"] = CHAKRAS_NAMES[node["type"]]
        assert in_a_row(read.read_text()) == ours, "and no field is unknown to it"


def in_a_row(text: str) -> list[dict[str, Any]]:
    """JSON objects with nothing between them."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def test_chakras_numbers_are_varints() -> None:
    assert [chakra._varint(number).hex() for number in (0, 127, 128, 300)] == ["00", "7f", "8001", "ac02"]


def test_a_place_that_cannot_be_written_is_named(trace: Trace, tmp_path: Path) -> None:
    for name in formats.FORMATS:
        with pytest.raises(ArchiveError, match="absent") as error:
            formats.write(name, trace, tmp_path / "absent" / "t")
        assert str(error.value).endswith(("make its folder first", "name another file with --output"))


@pytest.mark.parametrize("form", ["csv", "perfetto"])
def test_a_folder_is_no_file_to_export_into(trace: Trace, tmp_path: Path, form: str) -> None:
    with pytest.raises(
        ArchiveError, match=r"cannot be written: .*is a directory; name another file|Is a directory; name"
    ):
        formats.write(form, trace, tmp_path)  # Arrow's own errors have no number
