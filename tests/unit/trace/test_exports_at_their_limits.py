"""Exports of what is unusual: many spans, groups of ranks, spans before training, numbers that JSON has not."""

from __future__ import annotations

import json
import tracemalloc
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from e2c_dl.trace.columns import to_table
from e2c_dl.trace.export import chakra, formats, otlp, perfetto
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, Spans, Trace

MIB = 1 << 20


def spans(count: int, **fields: Any) -> Spans:
    """So many iterations, or what ``fields`` say."""
    made = np.zeros(count, dtype=SPAN)
    for name, none in (("seq", -1), ("iteration", -1), ("bucket", -1), ("src", -1), ("dst", -1), ("peer_task", -2)):
        made[name] = none
    made["phase"] = Phase.ITERATION
    made["start_ns"] = made["posted_ns"] = np.arange(count) * 1000
    made["end_ns"] = made["start_ns"] + 1000
    for name, value in fields.items():
        made[name] = value
    return made


def of_one_rank(*found: Spans) -> Trace:
    rank = RankTrace(rank=0, host="edge-1", layer="edge", spans=np.concatenate(found), clock=ClockAlignment())
    return Trace(ranks=(rank,), facts={})


def test_a_line_of_otlp_is_no_longer_than_its_readers_take(tmp_path: Path) -> None:
    most = {name: np.iinfo(SPAN[name]).max for name in ("bucket", "src", "dst", "staleness", "task", "iteration")}
    trace = of_one_rank(spans(1700, phase=Phase.RECEIVE, seq=1 << 31, nbytes=1 << 40, **most))
    formats.write("otlp", trace, tmp_path / "t")
    lines = (tmp_path / "t").read_bytes().splitlines()
    assert max(map(len, lines)) < MIB
    read = [json.loads(line)["resourceSpans"][0] for line in lines]
    assert sum(len(each["scopeSpans"][0]["spans"]) for each in read) == 1700
    assert len(read) == -(-1700 // otlp.SPANS_PER_LINE)
    assert all(each["resource"] == read[0]["resource"] for each in read)


def test_tasks_and_groups_have_one_number_in_tables_and_exports(tmp_path: Path) -> None:
    trace = of_one_rank(
        spans(1, phase=Phase.COLLECTIVE, kind=1, peer_task=5, task=0), spans(1, phase=Phase.STEP, task=-1)
    )
    own = trace.ranks[0].spans
    table = to_table(own, {"rank": 0, "host": "a", "layer": "b"}, complete=True, clock=None, origin_ns=0)
    formats.write("otlp", trace, tmp_path / "t")
    (resource,) = json.loads((tmp_path / "t").read_text())["resourceSpans"]
    told = [
        {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}
        for span in resource["scopeSpans"][0]["spans"]
    ]
    assert [int(each["e2c_dl.task"]) for each in told] == table["task"].to_pylist() == [1, 0]
    assert int(told[0]["e2c_dl.group"]) == table["peer_task"].to_pylist()[0] == 6
    shown = {event["name"]: event["args"]["task"] for event in perfetto.events(trace) if event["ph"] == "X"}
    assert shown == {"all reduce": 1, "step": 0}
    names = [one.string_val for one in chakra._attributes(chakra._rows(trace.ranks[0])[0]) if one.name == "pg_name"]
    assert names == ["6"]


def test_more_threads_than_a_thousand_are_shared_by_no_two_groups() -> None:
    waits = spans(1500, phase=Phase.AWAIT_MESSAGE, task=np.arange(1500) + 1, end_ns=10**7)
    trace = of_one_rank(spans(1), waits, spans(1, phase=Phase.COLLECTIVE, kind=1, end_ns=10**7))
    names = defaultdict(list)
    for event in perfetto.events(trace):
        if event["name"] == "thread_name":
            names[event["tid"]].append(event["args"]["name"])
    assert len(names) == 1502
    assert all(len(each) == 1 for each in names.values())


def test_chakra_counts_from_the_first_span_of_any_rank(tmp_path: Path) -> None:
    before = spans(2, phase=Phase.DATA, start_ns=[-5_000_000, -3_000_000], end_ns=[-4_000_000, -1_000_000])
    early, late = of_one_rank(before, spans(1)).ranks[0], of_one_rank(spans(1)).ranks[0]
    chakra.write(Trace(ranks=(early, replace(late, rank=1)), facts={}), tmp_path / "t")
    alone = b"".join(map(framed, chakra._messages(replace(late, rank=1), -5_000_000)))
    assert (tmp_path / "t/trace.1.et").read_bytes() == alone
    nodes = [each for each in chakra._messages(early, -5_000_000) if hasattr(each, "start_time_micros")]
    assert [(node.start_time_micros, node.duration_micros) for node in nodes] == [(0, 1000), (2000, 2000), (5000, 1)]


def test_what_is_no_number_of_json_is_null(tmp_path: Path) -> None:
    odd = {"ph": "X", "name": "k", "args": {"occupancy": float("nan"), "of": [float("inf"), 1.5]}}
    perfetto.write(of_one_rank(spans(1)), tmp_path / "t", lambda _: [odd])
    read = json.loads((tmp_path / "t").read_text(), parse_constant=refused)
    assert read["traceEvents"][-1]["args"] == {"occupancy": None, "of": [None, 1.5]}


def framed(message: Any) -> bytes:
    content: bytes = message.SerializeToString()
    return chakra._varint(len(content)) + content


def refused(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def test_perfettos_events_are_written_rank_by_rank_and_not_held(tmp_path: Path) -> None:
    own = of_one_rank(spans(2000)).ranks[0]
    trace = Trace(ranks=tuple(replace(own, rank=number) for number in range(15)), facts={})
    tracemalloc.start()
    perfetto.write(trace, tmp_path / "t")
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < (tmp_path / "t").stat().st_size, "they take five times what is written"
