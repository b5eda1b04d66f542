"""Clocks that were never aligned, of machines that were booted months apart: what ranks did together places them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ddp import Ddp
from ddp import simulate as by_library
from synthetic import Ring
from synthetic import simulate as by_messages

from e2c_dl.archive.records import HostFacts
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.scripts import script_reference
from e2c_dl.topology import Link
from e2c_dl.trace.clocks.clock import write_alignment
from e2c_dl.trace.clocks.unaligned import laid
from e2c_dl.trace.model import ClockAlignment, Phase, Spans, Trace
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.trace.store import read_trace, training_began, write_parquet

HOUR_NS, DAY_NS = 3_600 * 10**9, 86_400 * 10**9
RING = Ring(
    compute_s=(0.1, 0.1, 0.1, 0.1), bucket_bytes=(200_000, 100_000), iterations=10,
    links=(Link(rate_bps=40e6, delay_s=0.005),) * 4,
)  # fmt: skip
DDP = Ddp(extra_s={(1, Phase.BACKWARD): 0.2})


def booted(trace: Trace, by_ns: Mapping[int, int]) -> Trace:
    """``trace``, the clocks of some ranks ahead by so much, and nobody knows it."""
    ranks = []
    for rank in trace.ranks:
        spans = rank.spans.copy()
        for name in ("posted_ns", "start_ns", "end_ns"):
            spans[name] += by_ns.get(rank.rank, 0)
        ranks.append(replace(rank, spans=spans))
    return replace(trace, ranks=tuple(ranks))


def away_ns(one: Trace, other: Trace) -> int:
    """The most by which times of the two are apart."""
    pairs = [(a.spans, b.spans) for a, b in zip(one.ranks, other.ranks, strict=True)]
    return max(int(np.abs(a["start_ns"] - b["start_ns"]).max()) for a, b in pairs)


@pytest.mark.parametrize("by_ns", [{1: 3 * HOUR_NS}, {2: -HOUR_NS}, {1: 150 * DAY_NS, 2: 40 * DAY_NS}])
@pytest.mark.parametrize("trace", [by_messages(RING), by_library(DDP)], ids=["messages", "library"])
def test_they_lie_where_no_message_comes_before_it_is_sent(trace: Trace, by_ns: dict[int, int]) -> None:
    found = laid(booted(trace, by_ns), [trace.hosts[rank] for rank in by_ns])
    assert away_ns(found, trace) < 50_000_000, "an iteration takes longer"
    assert all(found.ranks[rank].clock.uncertainty_ns >= away_ns(found, trace) for rank in by_ns)


def test_where_none_was_aligned_all_are_held_to_the_first() -> None:
    trace = by_library(DDP)
    moved = booted(trace, {rank: rank * HOUR_NS for rank in range(4)})
    assert away_ns(laid(moved, trace.hosts), trace) < 50_000_000


def test_clocks_that_contradict_nothing_stay() -> None:
    trace = by_library(DDP)
    found = laid(trace, trace.hosts[1:])
    assert away_ns(found, trace) == 0
    assert all(rank.clock.uncertainty_ns > 1_000_000 for rank in found.ranks[1:]), "they agree by no more than that"


def test_a_rank_that_nothing_joins_to_the_others_begins_with_them() -> None:
    trace = by_library(DDP)
    alone = trace.ranks[3].spans[np.isin(trace.ranks[3].spans["phase"], (Phase.ITERATION, Phase.FORWARD))]
    bare = replace(trace, ranks=(*trace.ranks[:3], replace(trace.ranks[3], spans=alone)))
    found = laid(booted(bare, {3: DAY_NS}), [trace.hosts[3]])
    assert away_ns(found, bare) < 1_000_000
    assert away_ns(laid(bare, [trace.hosts[3]]), bare) == 0


@pytest.mark.parametrize("rank", [1, 2])
def test_a_slow_rank_is_named_as_with_aligned_clocks(rank: int) -> None:
    trace = by_library(replace(DDP, noise=0.1))
    facts = {host: HostFacts(cpu_model="any", cores=2) for host in trace.hosts}
    moved = laid(booted(trace, {rank: 3 * HOUR_NS}), [trace.hosts[rank]])
    moved = replace(moved, facts={"hosts_without_clock": (trace.hosts[rank],)})
    (culprit,) = analyse(trace, script_reference(trace, facts)).culprits
    report = analyse(moved, script_reference(moved, facts))
    assert [each.element for each in report.culprits] == [culprit.element]
    assert report.culprits[0].saved_s == pytest.approx(culprit.saved_s, rel=0.1)
    assert report.clock_uncertainty_s > 0


def written(archive: Path, trace: Trace, clocks: Mapping[int, ClockAlignment]) -> None:
    for rank in trace.ranks:
        folder = archive / "hosts" / rank.host
        folder.mkdir(parents=True)
        facts = {"rank": rank.rank, "host": rank.host, "layer": rank.layer}
        spans: Spans = rank.spans[rank.spans["phase"] != Phase.FLOW]
        write_parquet(archive / "traces" / f"{rank.host}.parquet", spans, facts, complete=True)
        if rank.rank in clocks:
            write_alignment(folder / "clock.json", clocks[rank.rank])


def test_an_archive_of_machines_booted_months_apart_is_read(tmp_path: Path) -> None:
    trace = by_library(DDP)
    written(tmp_path, booted(trace, {2: 200 * DAY_NS}), dict.fromkeys((0, 1, 3), ClockAlignment()))
    read = read_trace(tmp_path)
    assert read.facts["hosts_without_clock"] == (trace.hosts[2],)
    begins_ns = [int(rank.spans["start_ns"].min()) for rank in read.ranks]
    assert max(begins_ns) - min(begins_ns) < 50_000_000


def test_training_began_by_clocks_that_are_aligned(tmp_path: Path) -> None:
    for number, began_ns in enumerate((5_000, 7_000, 10)):
        folder = tmp_path / "hosts" / f"node-{number}"
        folder.mkdir(parents=True)
        with Recorder(folder / "spans.bin", rank=number, host=folder.name, layer="all") as recorder:
            recorder.record(Phase.ITERATION, began_ns, began_ns, began_ns + 9, iteration=0)
        if number != 2:
            write_alignment(folder / "clock.json", ClockAlignment(offset_ns=1))
    assert training_began(tmp_path) == 5_001
