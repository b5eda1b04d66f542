"""Traces that a script itself has made lie on the archive's clock: files of one real run of torch.profiler and Horovod.

``of-scripts/`` is what rank 0 of two left (``horovodrun -np 2`` under ``e2c-dl trace``, torch 2.13, Horovod 0.28.1), of
Kineto's operations only the optimizer's steps. When collectives were under way is what the tracer itself recorded.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from e2c_dl.archive import script_traces
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import HostFacts
from e2c_dl.archive.script_traces import found, merged
from e2c_dl.beneath import Place
from e2c_dl.trace.export.formats import write
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, Trace

MADE = Path(__file__).parent / "of-scripts"
AHEAD_NS = 5_000_000_000  # of the rank's own clock, the archive's
OWN_NS = [(17828595190195, 17828612950765), (17828625394768, 17828632222059), (17828633084830, 17828638022574)]
APART_US = 200.0  # how far one thing looks apart for tracer and profiler, which wrap each other


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    shutil.copytree(MADE, tmp_path / "hosts" / "edge-1")
    return tmp_path


def one_rank() -> Trace:
    spans = np.zeros(len(OWN_NS), dtype=SPAN)
    spans["phase"], spans["iteration"] = Phase.COLLECTIVE, range(len(OWN_NS))
    spans["start_ns"], spans["end_ns"] = np.array(OWN_NS).T + AHEAD_NS
    spans["posted_ns"], spans["src"], spans["dst"] = spans["start_ns"], -1, -1
    clock = ClockAlignment(offset_ns=AHEAD_NS)
    return Trace(ranks=(RankTrace(rank=0, host="edge-1", layer="edge", spans=spans, clock=clock),), facts={})


def exported(archive: Path, *problems: str) -> list[dict[str, Any]]:
    traces, told = found(Place(archive), one_rank())
    assert told == problems
    write("perfetto", one_rank(), archive / "trace.json", merged(traces))
    events: list[dict[str, Any]] = json.loads((archive / "trace.json").read_text())["traceEvents"]
    return events


def reduced(events: list[dict[str, Any]]) -> list[float]:
    """When Horovod's all-reduces began, since the first of the rank's own spans."""
    first_us = min(each["ts"] for each in events if each["pid"] == 0 and "dur" in each)
    return [each["ts"] - first_us for each in events if each.get("name") == "ALLREDUCE"]


def test_they_lie_where_the_tracer_saw_the_same(archive: Path) -> None:
    events = exported(archive)
    collectives = [(each["ts"], each["ts"] + each["dur"]) for each in events if each.get("pid") == 0 and "dur" in each]
    steps = [each for each in events if each.get("name") == "Optimizer.step#SGD.step"][::2]  # each holds another
    begun = [each["ts"] for each in events if each.get("name") == "ALLREDUCE" and each["tid"] == 1]
    assert len(collectives) == len(steps) == len(begun) == 3
    for (start, end), step, all_reduce in zip(collectives, steps, begun, strict=True):
        assert start < all_reduce < end
        assert start - APART_US < step["ts"] < end
        assert step["ts"] + step["dur"] > end - APART_US


@pytest.mark.parametrize("set_by_s", [100, -100])
def test_the_time_of_day_may_have_been_set_after_them(archive: Path, set_by_s: int) -> None:
    own_ns, unix_ns = json.loads((archive / "hosts/edge-1/tracing.json").read_text())["clocks"].values()
    later = [own_ns + 2 * 10**9, unix_ns + (2 + set_by_s) * 10**9]
    clocks = {"clocks": {"own_ns": later[0], "unix_ns": later[1]}}
    (archive / "hosts/edge-1/tracing.json").write_text(json.dumps(clocks))
    pairs = [[own_ns - 10**9, unix_ns - 10**9], [own_ns, unix_ns], later]
    HostRecords(archive / "hosts/edge-1").write_facts(HostFacts(wall_clock=tuple((own, day) for own, day in pairs)))
    test_they_lie_where_the_tracer_saw_the_same(archive)


def test_horovods_times_go_on_when_the_time_of_day_is_set_within_them(archive: Path) -> None:
    own_ns, unix_ns = json.loads((archive / "hosts/edge-1/tracing.json").read_text())["clocks"].values()
    within = OWN_NS[1][0] - 10**6  # the first of three collectives is over
    pairs = [
        (own, unix_ns + own - own_ns + (50 * 10**9 if own > within else 0)) for own in (within, within + 10, own_ns)
    ]
    before = reduced(exported(archive))
    HostRecords(archive / "hosts/edge-1").write_facts(HostFacts(wall_clock=tuple(pairs)))
    assert reduced(exported(archive)) == pytest.approx(before)


def test_nothing_of_two_files_is_taken_for_one_thing(archive: Path) -> None:
    shutil.copyfile(archive / "hosts" / "edge-1" / "kineto.json", archive / "hosts" / "edge-1" / "second.json")
    events = exported(archive)
    named = {each["pid"]: each["args"]["name"] for each in events if each.get("name") == "process_name"}
    assert {name.partition(": ")[2] for name in named.values()} == {
        "", "kineto.json: python", "second.json: python", "timeline.json",
    }  # fmt: skip
    assert len({each["id"] for each in events if each["ph"] == "s"}) == 4  # two in each file
    assert {each["args"]["name"] for each in events if each.get("name") == "thread_name"} >= {"allreduce.weight"}


def test_one_that_was_packed_or_cut_off_is_read(archive: Path) -> None:
    host = archive / "hosts" / "edge-1"
    whole = len(exported(archive))
    packed = gzip.compress((host / "kineto.json").read_bytes())
    (host / "kineto.json").unlink()
    (host / "kineto.json.gz").write_bytes(packed)
    text = (host / "timeline.json").read_text()
    (host / "timeline.json").write_text(text[: text.rindex(",{")] + ",\n")  # as of a rank that was killed
    assert len(exported(archive)) == whole - 1


def test_whatever_its_name_is_one_that_a_rank_named_is_merged(archive: Path) -> None:
    host = archive / "hosts" / "edge-1"
    whole = len(exported(archive))
    (host / "timeline.json").rename(host / "timeline")
    assert len(exported(archive)) < whole, "anything may stand there"
    (host / "kineto.json").write_bytes(gzip.compress((host / "kineto.json").read_bytes()))  # nor does that say much
    told = json.loads((host / "tracing.json").read_text())
    (host / "tracing.json").write_text(json.dumps({**told, "wrote": ["/elsewhere/timeline"]}))
    assert len(exported(archive)) == whole


def test_of_a_timeline_that_breaks_off_within_an_event_the_others_are_read(archive: Path) -> None:
    host = archive / "hosts" / "edge-1"
    whole = exported(archive)
    text = (host / "timeline.json").read_text()
    (host / "timeline.json").write_text(text[: text.rindex("}")])  # as a full disk leaves it
    traces, (problem,) = found(Place(archive), one_rank())
    count = len(json.loads(text)) - 1
    assert problem == (
        f"{host}/timeline.json: it breaks off within an event: what follows the first {count} is left out"
    )
    write("perfetto", one_rank(), archive / "trace.json", merged(traces))
    assert len(json.loads((archive / "trace.json").read_text())["traceEvents"]) == len(whole) - 1


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_too_large_to_be_read_is_said(archive: Path, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    host = archive / "hosts" / "edge-1"
    if packed:
        (host / "kineto.json").write_bytes(gzip.compress((host / "kineto.json").read_bytes()))
    monkeypatch.setattr(script_traces, "LARGE_BYTES", 3 << 10)
    problems = found(Place(archive), one_rank())[1]
    assert f"{host}/kineto.json: is not merged: it is larger than" in "".join(problems)
    assert "remove" not in "".join(problems)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "it holds no trace events"),
        ('{"traceEvents": []}', "its times cannot be placed"),
        ('{"traceEvents": [], "baseTimeNanoseconds": 1e300}', "its times cannot be placed"),
        ('[{"ph": "X", "ts": 1}]', "its times cannot be placed"),
        ('{"traceEvents": [', "Expecting value"),
    ],
)
def test_what_cannot_be_merged_is_said_by_name(archive: Path, content: str, said: str) -> None:
    (archive / "hosts" / "edge-1" / "odd.json").write_text(content)
    traces, (problem,) = found(Place(archive), one_rank())
    assert {each.name for each in traces} == {"kineto.json", "timeline.json"}
    assert problem.startswith(f"{archive}/hosts/edge-1/odd.json: is not merged: ")
    assert said in problem


@pytest.mark.parametrize("name", ["facts.json", "tracing.json"])
def test_without_readable_clocks_nothing_is_placed_and_that_is_said(archive: Path, name: str) -> None:
    (archive / "hosts" / "edge-1" / name).write_text("{")
    traces, (problem,) = found(Place(archive), one_rank())
    assert traces == ()
    assert problem.startswith("what the script of edge-1 wrote is not merged: ")
    assert name in problem


def test_events_that_are_none_are_left_out(archive: Path) -> None:
    odd = [1, {"ph": "X"}, {"ph": "X", "ts": "1"}, {"ph": "X", "ts": 1e300}, {"ph": "M", "name": "thread_name"}]
    odd += [{"ph": ["X"], "ts": 1}, {"ph": "X", "ts": 1, "pid": [1]}, {"ph": "X", "ts": 1, "tid": {}}]
    content = {"baseTimeNanoseconds": 1, "traceEvents": odd}
    file = archive / "hosts" / "edge-1" / "z.json"
    file.write_text(json.dumps(content))
    lost = f"{file}: 7 of its events cannot be read, and are left out"
    assert not [each for each in exported(archive, lost) if each["pid"] >= 1_200_000]


@pytest.mark.parametrize("lasts", ["NaN", "Infinity", '"3"', "null", "1e400"])
def test_an_event_that_lasts_no_time_is_left_out(archive: Path, lasts: str) -> None:
    odd = f'{{"ph": "X", "name": "odd", "ts": 5.0, "dur": {lasts}}}'
    file = archive / "hosts/edge-1/z.json"
    file.write_text(f'{{"baseTimeNanoseconds": 1, "traceEvents": [{odd}]}}')
    lost = f"{file}: 1 of its events cannot be read, and are left out"
    assert not [each for each in exported(archive, lost) if each["pid"] >= 1_200_000]


def test_arrows_have_numbers_as_perfetto_reads_them_and_each_file_its_own(archive: Path) -> None:
    host = archive / "hosts" / "edge-1"
    kineto = json.loads((host / "kineto.json").read_text())
    kineto["traceEvents"] += [{**each, "ph": "f"} for each in kineto["traceEvents"] if each["ph"] == "s"]
    for name in ("kineto.json", "second.json"):
        (host / name).write_text(json.dumps(kineto))
    arrows = [each for each in exported(archive) if each["ph"] in "stf"]
    assert all(type(each["id"]) is int for each in arrows)
    begun, over = (sorted(each["id"] for each in arrows if each["ph"] == ph) for ph in "sf")
    assert begun == over
    assert len(set(begun)) == 4


def test_what_a_script_did_before_the_first_span_lies_behind_0_too(archive: Path) -> None:
    before = exported(archive)
    assert min(each["ts"] for each in before if "ts" in each) == pytest.approx(0, abs=1e-3)
    kineto = json.loads((archive / "hosts" / "edge-1" / "kineto.json").read_text())
    first_us = min(each["ts"] for each in kineto["traceEvents"] if "ts" in each)
    early = {"import": 3e6, "years before": 1e15}
    kineto["traceEvents"] += [
        {"ph": "X", "name": name, "ts": first_us - by_us, "dur": 1.0} for name, by_us in early.items()
    ]
    (archive / "hosts" / "edge-1" / "kineto.json").write_text(json.dumps(kineto))
    events = exported(archive)
    timed = {each["name"]: each["ts"] for each in events if "ts" in each and "name" in each}
    assert timed["import"] == pytest.approx(0, abs=1e-3)
    assert timed["years before"] < 0
    assert reduced(events) == pytest.approx(reduced(before))
