"""What a script does between its phases, as loading data by hand: on whom it lasts longer, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ddp import Ddp, name, run_s, simulate

from e2c_dl.archive.records import HostFacts
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.detection.unnamed import SHORTEST_NS, with_unnamed
from e2c_dl.diagnosis.model import Part, Report
from e2c_dl.diagnosis.scripts import script_reference
from e2c_dl.diagnosis.states import timelines
from e2c_dl.diagnosis.stretches import When
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, State, Trace

BY_HAND = Ddp(noise=0.1, iterations=40, seconds={**Ddp().seconds, Phase.EVALUATE: 0.02})
"""EVALUATE stands for what a script does by itself, once its step is over."""


def by_hand(ddp: Ddp) -> Trace:
    """``ddp`` by a script that draws its batches by hand, and evaluates so."""
    trace = simulate(ddp)
    ranks = []
    for rank in trace.ranks:
        spans = rank.spans
        hidden = np.isin(spans["phase"], (Phase.DATA, Phase.EVALUATE))
        ranks.append(replace(rank, spans=spans[~hidden]))
    return replace(trace, ranks=tuple(ranks))


def report_of(trace: Trace, cpus: tuple[str, ...] = (), **others: Any) -> Report:
    models = dict(zip((rank.host for rank in trace.ranks), cpus or ("any",) * len(trace.ranks), strict=True))
    facts = {host: HostFacts(cpu_model=model, cores=2, **others) for host, model in models.items()}
    return analyse(trace, script_reference(trace, facts))


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_that_is_slow_in_what_no_phase_names_is_named_with_what_it_costs(ranks: int) -> None:
    slow = replace(BY_HAND, ranks=ranks, extra_s={(1, Phase.DATA): 0.1})
    report = report_of(by_hand(slow))
    (found,) = report.culprits
    assert (found.element.src, found.part, found.when.when) == (name(1), Part.OTHER, When.PERSISTENT)
    saves_s = run_s(simulate(slow)) - run_s(simulate(replace(slow, extra_s={})))
    assert found.saved_s == pytest.approx(saves_s, rel=0.03)
    assert "or a wait that no hook sees" in found.evidence


@pytest.mark.parametrize("seed", range(4))
def test_what_all_ranks_do_by_hand_names_nobody(seed: int) -> None:
    assert not report_of(by_hand(replace(BY_HAND, seed=seed))).findings


def test_states_are_as_before() -> None:
    trace = by_hand(BY_HAND)
    before, after = (timelines(each, join(each)) for each in (trace, with_unnamed(trace)))
    assert [each.totals_ns() for each in before] == [each.totals_ns() for each in after]
    for rank, states in zip(with_unnamed(trace).ranks, before, strict=True):
        own = rank.of(Phase.OTHER)
        assert (own["end_ns"] - own["start_ns"]).sum() >= 0.95 * states.totals_ns()[State.OTHER]  # but for the shortest


def test_of_a_rank_whose_phases_are_hidden_nobody_knows() -> None:
    trace = by_hand(BY_HAND)
    blind, *others = trace.ranks
    kept = replace(blind, spans=blind.spans[~np.isin(blind.spans["phase"], (Phase.FORWARD, Phase.BACKWARD))])
    assert not report_of(replace(trace, ranks=(kept, *others))).findings


def test_a_rank_alone_is_held_to_nobody() -> None:
    trace = by_hand(replace(BY_HAND, ranks=2, extra_s={(0, Phase.DATA): 0.1}))
    alone = replace(trace, ranks=trace.ranks[:1])
    assert all(finding.part is not Part.OTHER for finding in report_of(alone).findings)


def test_ranks_on_unlike_machines_are_not_held_to_each_other() -> None:
    report = report_of(by_hand(replace(BY_HAND, ranks=2, extra_s={(1, Phase.DATA): 0.1})), ("one", "other"))
    assert not report.culprits


def test_where_ranks_compute_on_gpus_they_may_have_waited_for_these() -> None:
    trace = by_hand(replace(BY_HAND, ranks=2, extra_s={(1, Phase.DATA): 0.1}))
    assert not report_of(trace, gpu={"device": "cuda:0"}).culprits


def spans_of(*rows: tuple[Phase, int, int, int]) -> RankTrace:
    """A rank with spans of (phase, iteration, start, end), in ms."""
    spans = np.zeros(len(rows), dtype=SPAN)
    for row, (phase, iteration, start_ms, end_ms) in zip(spans, rows, strict=True):
        row["phase"], row["iteration"] = phase, iteration
        row["start_ns"], row["end_ns"] = start_ms * 1_000_000, end_ms * 1_000_000
    return RankTrace(rank=0, host="a", layer="all", spans=spans, clock=ClockAlignment())


def unnamed_ms(rank: RankTrace) -> list[tuple[int, float, float]]:
    (found,) = with_unnamed(Trace(ranks=(rank,), facts={})).ranks
    own = found.of(Phase.OTHER)
    return [(int(each["iteration"]), each["start_ns"] / 1e6, each["end_ns"] / 1e6) for each in own]


def test_it_is_what_phases_leave_of_an_iteration() -> None:
    rank = spans_of(
        (Phase.ITERATION, 0, 0, 10), (Phase.FORWARD, 0, 2, 4), (Phase.BACKWARD, 0, 4, 5), (Phase.STEP, 0, 8, 10),
        (Phase.ITERATION, 1, 10, 20), (Phase.FORWARD, 1, 9, 12), (Phase.AWAIT_COLLECTIVE, 1, 15, 16),
        (Phase.ITERATION, 2, 20, 30),
    )  # fmt: skip
    assert unnamed_ms(rank) == [(0, 0, 2), (0, 5, 8), (1, 12, 15), (1, 16, 20), (2, 20, 30)]


def test_a_collective_that_is_joined_cuts_it_and_takes_none_of_it() -> None:
    rank = spans_of((Phase.ITERATION, 0, 0, 10), (Phase.COLLECTIVE, 0, 3, 9))
    assert unnamed_ms(rank) == [(0, 0, 3), (0, 3, 10)]


def test_what_is_outside_of_iterations_or_short_is_none() -> None:
    rank = spans_of((Phase.ITERATION, 0, 5, 10), (Phase.STEP, 0, 5, 10), (Phase.EVALUATE, -1, 12, 13))
    assert unnamed_ms(rank) == []
    gap = spans_of((Phase.ITERATION, 0, 0, 10), (Phase.STEP, 0, 0, 10))
    gap.spans["end_ns"][1] -= SHORTEST_NS - 1
    assert unnamed_ms(gap) == []
    gap.spans["end_ns"][1] -= 1
    assert len(unnamed_ms(gap)) == 1
