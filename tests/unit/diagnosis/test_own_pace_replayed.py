"""Runs whose ranks go at their own pace, and that cannot be simulated again: what is told of them, and that it is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl import strategies
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.prefix import at_own_pace
from e2c_dl.diagnosis.references import Reference
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.world import Layout
from e2c_dl.diagnosis.shown.heat import heat_of
from e2c_dl.diagnosis.window import CUT_BY_TIME, last_of
from e2c_dl.trace.model import Phase, Spans, Trace
from e2c_dl.worlds.allotment import SharedCount
from e2c_dl.worlds.virtual import LinkModel

SIZE, BUCKETS, LINK = 5, (8_000, 4_000), LinkModel(rate_bps=20e6, delay_s=0.005)
BUDGET = partial(SharedCount, 150.0, [1] * SIZE)
SLOW = ((2, 1), (2, 3))
SLOW_NAMES = ("edge-3 -> edge-2", "edge-3 -> edge-4")
REPLAYED = "cannot be simulated again ({}): savings and bottlenecks are of a replay, in which nobody decides otherwise."


@pytest.fixture(scope="module")
def run() -> tuple[Trace, Reference]:
    """AD-PSGD until all ranks together have done 150 iterations, both links of a host at a tenth of their rate."""
    links = vw.everywhere(SIZE, LINK) | dict.fromkeys(SLOW, replace(LINK, rate_bps=2e6))
    hosts = vw.hosts(SIZE, of=vw.profile(BUCKETS, per_sample_s=5e-3), noise=0.05)
    done = vw.run(strategies.load("adpsgd"), size=SIZE, seed=1, on_hosts=hosts, links=links, allotment=BUDGET())
    return done.trace, replace(done, links=vw.everywhere(SIZE, LINK)).reference()


def training() -> Retraining:
    return Retraining(
        strategy=strategies.load("adpsgd"), samples=[8] * SIZE, allotment=BUDGET, seed=1,
        layout=Layout(dtype="float32", buckets=BUCKETS),
    )  # fmt: skip


def test_who_can_be_simulated_again_is(run: tuple[Trace, Reference]) -> None:
    assert not any("again (" in each for each in analyse(*run, training()).limitations)


@pytest.mark.parametrize("broken_off", [False, True], ids=["an archive without bucket sizes", "a rank was killed"])
def test_links_that_cost_a_budget_are_named_by_all_ranks_together(
    run: tuple[Trace, Reference], broken_off: bool
) -> None:
    """By the last one's end they cost nothing: whoever has the budget's last iteration ends the run."""
    trace, reference = run
    if broken_off:
        trace = replace(trace, ranks=(*trace.ranks[:-1], replace(trace.ranks[-1], complete=False)))
        iterations = int((trace.ranks[-1].spans["phase"] == Phase.ITERATION).sum())
        why = f"trace of edge-5 ends after {iterations} of its iterations"
    else:
        why = "its archive does not tell all that it takes"
    report = analyse(trace, reference, training() if broken_off else None)
    assert any(REPLAYED.format(why) in each for each in report.limitations)
    assert {str(each.element) for each in report.culprits} == {"edge-3 -> edge-2", "edge-3 -> edge-4"}
    assert all(each.saved_s > 0 for each in report.culprits)


@pytest.mark.parametrize("until", [0.4, 0.8])
def test_where_all_broke_off_each_is_judged_by_all_that_it_has_finished(
    run: tuple[Trace, Reference], until: float
) -> None:
    """By as many iterations as the slowest has, next to nothing would be left of the others."""
    trace, reference = run
    stop_ns = round(until * max(int(rank.spans["end_ns"].max()) for rank in trace.ranks))
    ranks = tuple(replace(rank, spans=_so_far(rank.spans, stop_ns), complete=False) for rank in trace.ranks)
    broken = replace(trace, ranks=ranks)
    finished = [len(rank.of(Phase.ITERATION)) for rank in ranks]
    assert min(finished) < max(finished) / 2
    observed = observe(broken, replace(reference, own_pace=True))
    assert [len(rank.of(Phase.ITERATION)) for rank in observed.trace.ranks] == finished
    heat = heat_of(observed)
    slowest = [np.nanmedian(heat.slowdown[list(map(str, heat.elements)).index(name)]) for name in SLOW_NAMES]
    assert min(slowest) > 5  # its messages are in the iterations in which they were sent
    report = analyse(broken, reference, observed=observed)
    assert {str(each.element) for each in report.culprits} == {"edge-3 -> edge-2", "edge-3 -> edge-4"}
    assert f"figures per iteration are of the first {min(finished)} of each." in report.limitations[0]


@pytest.mark.parametrize("until", [0.7, 0.9])
def test_what_is_slow_costs_a_share_of_the_time_in_which_it_still_trains(until: float) -> None:
    """Others have done all their own iterations long before: those make the time that is judged no longer."""
    hosts = vw.hosts(SIZE, factors=[1, 1, 1, 3, 1], of=vw.profile(BUCKETS, per_sample_s=5e-3), noise=0.05)
    done = vw.run(
        strategies.load("adpsgd"), size=SIZE, seed=1, iterations=40, on_hosts=hosts, links=vw.everywhere(SIZE, LINK)
    )
    ends_ns = [int(rank.of(Phase.ITERATION)["end_ns"].max()) for rank in done.trace.ranks]
    now_ns = round(until * max(ends_ns))
    ranks = [replace(rank, spans=_so_far(rank.spans, now_ns)) for rank in done.trace.ranks]
    found = last_of(replace(done.trace, ranks=tuple(ranks)), last=12, fewest=4, own_pace=True)
    assert found is not None
    cut, _ = found
    assert cut.facts[CUT_BY_TIME] == (3,)
    own = cut.ranks[3].of(Phase.ITERATION)
    report = analyse(cut, replace(done, hosts=vw.hosts(SIZE)).reference())
    assert report.run_s == (own["end_ns"].max() - own["start_ns"].min()) / 1e9
    (slow,) = report.culprits
    assert str(slow.element) == "edge-4"
    assert slow.saved_s == pytest.approx(report.run_s * (1 - 1 / 3), rel=0.1)


def test_where_all_broke_off_those_that_had_done_all_their_own_make_it_no_longer() -> None:
    hosts = vw.hosts(SIZE, factors=[1, 1, 1, 3, 1], of=vw.profile(BUCKETS, per_sample_s=5e-3), noise=0.05)
    done = vw.run(
        strategies.load("adpsgd"), size=SIZE, seed=1, iterations=40, on_hosts=hosts, links=vw.everywhere(SIZE, LINK)
    )
    stop_ns = round(0.7 * max(int(rank.of(Phase.ITERATION)["end_ns"].max()) for rank in done.trace.ranks))
    ranks = [replace(rank, spans=_so_far(rank.spans, stop_ns), complete=False) for rank in done.trace.ranks]
    reference = replace(done, hosts=vw.hosts(SIZE)).reference()
    report = analyse(replace(done.trace, ranks=tuple(ranks)), replace(reference, own_pace=True))
    (slow,) = report.culprits
    assert str(slow.element) == "edge-4"
    assert slow.saved_s == pytest.approx(report.run_s * (1 - 1 / 3), rel=0.1)


def _so_far(spans: Spans, now_ns: int) -> Spans:
    return np.asarray(spans[(spans["end_ns"] <= now_ns) & (spans["phase"] != Phase.TRAINING)])


def test_a_rank_of_whose_trace_an_iteration_is_missing_goes_at_no_pace_of_its_own() -> None:
    done = vw.run(strategies.load("allreduce"), size=3, seed=1, iterations=5, on_hosts=vw.hosts(3))
    first, *others = done.trace.ranks
    lost = (first.spans["phase"] == Phase.ITERATION) & (first.spans["iteration"] == 2)
    assert not at_own_pace(replace(done.trace, ranks=(replace(first, spans=first.spans[~lost]), *others)))
