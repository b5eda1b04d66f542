"""What a rank finds done when it looks was done before: the time until it looked is its own, and no network's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from e2c_dl.diagnosis.flows import observed_flows
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.replay.replay import prepare_library
from e2c_dl.diagnosis.replay.whatif import WhatIf, scaled
from e2c_dl.trace.collectives import collectives
from e2c_dl.trace.model import SPAN, ClockAlignment, Collective, Phase, RankTrace, Trace

WAY_S = 0.002
SHORT_S = 1e-5  # a wait for what is there
ITERATIONS = 6


class Rank:
    """One rank, span by span; times are seconds."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.now_s = 0.0
        self.iteration = 0
        self.rows: list[tuple[Any, ...]] = []

    def computes(self, seconds: float) -> None:
        self.span(Phase.FORWARD, self.now_s, self.now_s + seconds)
        self.now_s += seconds

    def waits(self, seq: int, joined_s: float, done_s: float, kind: Collective, group: int) -> None:
        start_s = self.now_s
        self.now_s = max(start_s + SHORT_S, done_s)
        self.span(Phase.AWAIT_COLLECTIVE, start_s, self.now_s, seq=seq, peer_task=group)
        self.span(Phase.COLLECTIVE, joined_s, self.now_s, seq=seq, peer_task=group, nbytes=1000, kind=kind)

    def span(self, phase: Phase, start_s: float, end_s: float, **fields: Any) -> None:
        none = {"task": 0, "peer_task": -2, "bucket": -1, "src": -1, "dst": -1, "seq": -1, "nbytes": 0, "kind": 0}
        times = dict.fromkeys(("posted_ns", "start_ns"), round(start_s * 1e9)) | {"end_ns": round(end_s * 1e9)}
        values = {**none, "staleness": 0, "iteration": self.iteration, **times, "phase": phase, **fields}
        self.rows.append(tuple(values[name] for name in SPAN.names or ()))


def pipeline(stage_s: float) -> Trace:
    """Rank 0 sends what it makes of each of four batches, and looks after the last whether they left."""
    first, second = Rank(0), Rank(1)
    for iteration in range(ITERATIONS):
        first.iteration = second.iteration = iteration
        sent_s, begun_s = [], max(first.now_s, second.now_s)
        first.now_s = second.now_s = begun_s
        for _ in range(4):
            first.computes(stage_s)
            sent_s.append(first.now_s)
        for number, joined_s in enumerate(sent_s):
            seq, received_s = 4 * iteration + number, second.now_s
            first.waits(seq, joined_s, joined_s, Collective.BROADCAST, 7)
            second.waits(seq, received_s, joined_s + WAY_S, Collective.BROADCAST, 7)
            second.computes(0.001)
        for rank in (first, second):
            rank.span(Phase.ITERATION, begun_s, rank.now_s)
    return trace_of(first, second)


def overlapped(stage_s: float) -> Trace:
    """Both ranks join a sum, compute something else, rank 0 for ``stage_s``, and look for the result afterwards."""
    ranks = Rank(0), Rank(1)
    for iteration in range(ITERATIONS):
        joined_s = [rank.now_s for rank in ranks]
        for rank, seconds in zip(ranks, (stage_s, 0.9 * stage_s), strict=True):
            rank.iteration = iteration
            rank.computes(seconds)
            rank.waits(2 * iteration, joined_s[rank.number], max(joined_s) + WAY_S, Collective.ALL_REDUCE, -2)
        together_s = [rank.now_s for rank in ranks]
        for rank in ranks:
            rank.waits(2 * iteration + 1, together_s[rank.number], max(together_s) + WAY_S, Collective.ALL_REDUCE, -2)
            rank.span(Phase.ITERATION, joined_s[rank.number], rank.now_s)
    return trace_of(*ranks)


def trace_of(*ranks: Rank) -> Trace:
    for rank in ranks:
        rank.iteration = -1
        rank.span(Phase.TRAINING, 0.0, rank.now_s)
    return Trace(
        ranks=tuple(
            RankTrace(
                rank=rank.number, host=f"node-{rank.number}", layer="all", spans=np.array(rank.rows, dtype=SPAN),
                clock=ClockAlignment(),
            )
            for rank in ranks
        ),
        facts={},
    )  # fmt: skip


def run_ns(trace: Trace, faster: float, hosts: Sequence[str]) -> tuple[int, int]:
    """(as it was, with ``hosts`` ``faster``)."""
    replay = prepare_library(trace, collectives(trace), observed_flows(trace, ITERATIONS))
    assert replay.replayed_ns == pytest.approx(replay.measured_ns, rel=1e-9)
    elements = [Element(kind=ElementKind.HOST, src=host) for host in hosts]
    return replay.replayed_ns, replay.run_ns(WhatIf.together(scaled(each, 1 / faster) for each in elements))


def test_who_sends_and_looks_later_is_held_up_by_nobody() -> None:
    slow, fast = pipeline(0.05), pipeline(0.005)
    was_ns, then_ns = run_ns(slow, 10, ["node-0"])
    wanted_ns = max(rank.spans["end_ns"].max() for rank in fast.ranks)
    assert then_ns == pytest.approx(wanted_ns, rel=0.05)
    assert was_ns > 5 * then_ns


def test_a_sum_that_nobody_waited_for_took_none_of_the_time_in_which_all_were_busy() -> None:
    slow, fast = overlapped(0.05), overlapped(0.01)
    _, then_ns = run_ns(slow, 5, slow.hosts)
    wanted_ns = max(rank.spans["end_ns"].max() for rank in fast.ranks)
    assert then_ns == pytest.approx(wanted_ns, rel=0.05)
