"""``e2c-dl watch`` of a host whose clock nobody could ask; and what its savings are of, for programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import continued
import pytest
import virtual_world as vw
from test_watch import culprits, run, trace, write  # noqa: F401  # fixtures among them
from test_watch_own_pace import LAST, trained  # noqa: F401
from test_watch_own_pace import write as write_own_pace

from e2c_dl.archive import layout
from e2c_dl.campaign.watch.watch import Watch
from e2c_dl.report import live
from e2c_dl.testbeds.registry import RegisteredRun
from e2c_dl.trace.model import RankTrace, Trace

MONTHS_NS = 10**16
AHEAD = "edge-3"


def booted_long_ago(rank: RankTrace) -> RankTrace:
    if rank.host != AHEAD:
        return rank
    spans = rank.spans.copy()
    for name in ("posted_ns", "start_ns", "end_ns"):
        spans[name] += MONTHS_NS
    return replace(rank, spans=spans)


def test_a_clock_that_is_months_ahead_hides_nobody(run: RegisteredRun, trace: Trace) -> None:  # noqa: F811
    write(run, replace(trace, ranks=tuple(map(booted_long_ago, trace.ranks))), 17)
    (Path(run.directory / AHEAD) / layout.CLOCK).unlink()
    with Watch(run, last=LAST) as watch:
        now = watch.look()
    assert culprits(now) == ["edge-2"]
    assert now is not None and now.diagnosis is not None
    assert now.diagnosis.report.run_s < 60
    assert f"Clocks of {AHEAD} were never aligned" in " ".join(now.not_yet)


def test_nor_where_ranks_go_at_their_own_pace(run: RegisteredRun, trained: vw.Run) -> None:  # noqa: F811
    write_own_pace(run, trained, 4.0)
    (spans,) = (rank.spans for rank in map(booted_long_ago, trained.trace.ranks) if rank.host == AHEAD)
    ahead = [replace(rank, spans=spans) if rank.host == AHEAD else rank for rank in trained.trace.ranks]
    path = Path(run.directory / AHEAD)
    (path / layout.SPANS_RAW).write_bytes(
        continued.until_ns(next(rank for rank in ahead if rank.host == AHEAD), MONTHS_NS + 4 * 10**9)
    )
    (path / layout.CLOCK).unlink()
    with Watch(run, last=LAST) as watch:
        now = watch.look()
    assert sorted(culprits(now)) == ["edge-2", "edge-4"]


def test_savings_are_told_beside_what_they_are_of(run: RegisteredRun, trace: Trace) -> None:  # noqa: F811
    write(run, trace, 17)
    with Watch(run, last=LAST) as watch:
        now = watch.look()
    assert now is not None and now.diagnosis is not None
    told = live.as_json(now)
    assert told["judged_s"] == now.diagnosis.report.run_s
    (slow,) = told["culprits"]  # type: ignore[misc]
    assert (slow["part"], slow["saved_s"] < told["judged_s"]) == ("compute", True)
    assert slow["joint_saved_s"] == pytest.approx(slow["saved_s"])
