"""A rate that a kernel saw once, and goes on telling, is no slower link: one that is slower is busy for longer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ddp import Ddp, run_s, simulate
from test_scripts import link, report_of

from e2c_dl.trace.model import Phase, Trace
from e2c_dl.trace.propagation.connections import Connections

RUN = Ddp(iterations=24, noise=0.05)


def telling(trace: Trace, src: int, times: float, since: int) -> Trace:
    """``trace``, in which the kernel of rank ``src`` tells ``times`` the rate from iteration ``since`` on.

    Its link is busy for longer than others all the time, as it is before a slow one.
    """
    links = []
    for own in trace.connections.links:
        rows = own.per_iteration.copy()
        if own.src == src:
            rows["delivery_rate_bps"][rows["iteration"] >= since] *= times
            rows["busy_ns"] *= 1.7
        links.append(replace(own, per_iteration=rows))
    return replace(trace, connections=Connections(links=tuple(links)))


@pytest.mark.parametrize("src", [0, 2])
def test_a_lower_rate_that_takes_no_longer_names_no_link(src: int) -> None:
    assert not report_of(telling(simulate(RUN), src, 0.6, since=10)).findings


def test_beside_a_link_that_is_slow_it_names_that_alone() -> None:
    slow = simulate(replace(RUN, slow_links={1: 0.4}))
    assert [each.element for each in report_of(telling(slow, 2, 0.6, since=10)).culprits] == [link(1)]


@pytest.mark.parametrize("rate", [0.4, 0.25])
def test_a_link_that_is_slow_since_some_time_is_named(rate: float) -> None:
    (culprit,) = report_of(simulate(replace(RUN, slow_links={1: rate}, since=12))).culprits
    assert culprit.element == link(1)
    assert culprit.when.onset_iteration == pytest.approx(12, abs=1)


@pytest.mark.parametrize("late_s", [0.2, 20.0])
def test_when_a_link_became_slow_is_told_however_long_all_waited_for_the_first_rank_to_begin(late_s: float) -> None:
    """Rank 0 still did something else, as it often does: the others' first iteration lasts longer."""
    ddp = replace(RUN, iterations=60, slow_links={1: 0.25}, since=30)
    trace, ranks = simulate(ddp), []
    for rank in trace.ranks:
        spans = rank.spans.copy()
        first = ((spans["phase"] == Phase.ITERATION) & (spans["iteration"] == 0)) | (spans["phase"] == Phase.TRAINING)
        for time in ("posted_ns", "start_ns"):
            spans[time][first] -= round(late_s * 1e9) if rank.rank else 0
        ranks.append(replace(rank, spans=spans))
    (culprit,) = report_of(replace(trace, ranks=tuple(ranks))).culprits
    iterations = trace.ranks[1].of(Phase.ITERATION)
    onset_s = float(iterations["start_ns"][30] - iterations["start_ns"][0]) / 1e9 + late_s
    assert culprit.when.onset_iteration == 30
    assert culprit.when.onset_s == pytest.approx(onset_s, abs=0.1)
    assert culprit.saved_s == pytest.approx(run_s(trace) - run_s(simulate(replace(ddp, slow_links={}))), rel=0.1)
