from dataclasses import replace

import numpy as np
import pytest
import virtual_world
from synthetic import Ring, simulate

from e2c_dl import strategies
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.prefix import at_own_pace, common_prefix, most_iterations
from e2c_dl.diagnosis.replay.replay import prepare
from e2c_dl.diagnosis.replay.whatif import scaled
from e2c_dl.diagnosis.states import training_ns
from e2c_dl.topology import Link
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import Phase, RankTrace, Trace
from e2c_dl.worlds.virtual import LinkModel

RING = Ring(
    compute_s=(0.1, 0.1, 0.1, 0.1), links=(Link(rate_bps=40e6, delay_s=0.002),) * 4, bucket_bytes=(20_000, 200_000),
    iterations=8, seed=7, slow_hosts={1: 3.0},
)  # fmt: skip


def torn(trace: Trace, rank: int, iteration: int) -> Trace:
    """``trace`` if the file of ``rank`` ended in the middle of ``iteration``."""

    def short(one: RankTrace) -> RankTrace:
        begins = one.spans[(one.spans["phase"] == Phase.ITERATION) & (one.spans["iteration"] == iteration)]
        middle = int(begins["start_ns"][0] + begins["end_ns"][0]) // 2
        return replace(one, spans=one.spans[one.spans["end_ns"] <= middle], complete=False)

    return replace(trace, ranks=tuple(short(one) if one.rank == rank else one for one in trace.ranks))


def asynchronous() -> virtual_world.Run:
    """A server and three workers, of which the second is killed half-way; the others finish."""
    links = virtual_world.everywhere(4, LinkModel(rate_bps=50e6, delay_s=0.005))
    hosts = virtual_world.hosts(4, of=virtual_world.profile((20_000, 10_000), per_sample_s=5e-3))
    return virtual_world.run(
        strategies.load("asyncparameterserver"), size=4, links=links, on_hosts=hosts, iterations=12
    )


def without_messages_after(trace: Trace, rank: int, time_ns: int) -> Trace:
    """``trace`` if ``rank`` had been killed at ``time_ns``: nobody heard of it later."""

    def deaf(one: RankTrace) -> RankTrace:
        later = one.spans["posted_ns"] > time_ns
        of_it = np.isin(one.spans["phase"], [Phase.RECEIVE, Phase.AWAIT_MESSAGE]) & (one.spans["src"] == rank)
        return replace(one, spans=one.spans[~(of_it & later)])

    return replace(trace, ranks=tuple(one if one.rank == rank else deaf(one) for one in trace.ranks))


def test_a_whole_run_is_left_as_it_is() -> None:
    trace = simulate(RING)
    assert all(a.spans is b.spans for a, b in zip(common_prefix(trace).ranks, trace.ranks, strict=True))


def test_a_rank_that_finished_keeps_all_it_did_if_another_was_killed() -> None:
    trace = asynchronous().trace
    killed = torn(trace, 2, 6)
    killed = without_messages_after(killed, 2, int(killed.ranks[2].spans["end_ns"].max()))
    prefix = common_prefix(killed)
    assert [len(rank.spans) for rank in prefix.ranks if rank.rank != 2] == [
        len(rank.spans) for rank in killed.ranks if rank.rank != 2
    ]
    assert prefix.ranks[2].spans["iteration"].max() <= 6
    assert max(training_ns(rank)[1] for rank in prefix.ranks) == max(training_ns(rank)[1] for rank in trace.ranks)


def test_where_only_the_trace_was_torn_all_are_cut() -> None:
    prefix = common_prefix(torn(simulate(RING), 3, 5))
    for rank in prefix.ranks:
        assert (rank.spans["phase"] == Phase.ITERATION).sum() == 5


def test_a_trace_that_lacks_its_last_iteration_is_of_ranks_in_step() -> None:
    whole = simulate(RING)
    lacking = torn(whole, 3, 7)
    assert not at_own_pace(lacking)
    assert [len(rank.rows(Phase.ITERATION)) for rank in common_prefix(lacking).ranks] == [7] * 4
    (found,), (expected,) = (analyse(trace, RING.reference()).culprits for trace in (lacking, whole))
    assert found.element == expected.element
    assert found.saved_s == pytest.approx(expected.saved_s * 7 / 8, rel=0.1)


def test_a_cut_run_is_replayed_from_its_begin_to_its_end() -> None:
    ring = replace(RING, iterations=5)
    whole = simulate(ring)
    prefix = common_prefix(torn(simulate(RING), 3, 5))
    of_whole, of_prefix = (prepare(trace, join(trace), {}) for trace in (whole, prefix))
    assert of_prefix.uncaused == 0
    assert of_prefix.measured_ns == pytest.approx(of_whole.measured_ns, rel=0.01)
    host = of_whole.elements[1]
    saved_ns = [replay.measured_ns - replay.run_ns(scaled(host, 0.5)) for replay in (of_whole, of_prefix)]
    assert saved_ns[1] == pytest.approx(saved_ns[0], rel=0.03)


@pytest.mark.parametrize("left", [(0, 1, 3), (0, 1), (1,)])
def test_without_some_ranks_no_saving_is_claimed_that_they_might_prevent(left: tuple[int, ...]) -> None:
    whole = simulate(RING)
    part = replace(whole, ranks=tuple(rank for rank in whole.ranks if rank.rank in left))
    of_whole, of_part = (prepare(trace, join(trace), {}) for trace in (whole, part))
    for element in of_part.elements:
        saved_ns = [replay.measured_ns - replay.run_ns(scaled(element, 0.5)) for replay in (of_whole, of_part)]
        assert saved_ns[1] <= saved_ns[0] + 1
    limitations = " ".join(analyse(part, RING.reference()).limitations)
    assert "what happened there is not known" in limitations
    assert "savings are lower bounds" in limitations


def test_missing_iterations_are_told() -> None:
    trace = simulate(RING)
    ranks = [
        replace(rank, spans=rank.spans[rank.spans["iteration"] != 4]) if rank.rank == 1 else rank
        for rank in trace.ranks
    ]
    report = analyse(replace(trace, ranks=tuple(ranks)), RING.reference())
    assert "The trace of edge-2 lacks iterations: figures per iteration are of the first 4." in report.limitations


def test_most_iterations_are_of_whole_ranks_at_their_own_pace() -> None:
    trace = simulate(
        Ring(compute_s=(0.05,) * 2, links=(Link(rate_bps=40e6),) * 2, bucket_bytes=(20_000,), iterations=5)
    )
    assert most_iterations(trace) == 0
    spans = trace.ranks[1].spans
    fewer = spans[(spans["phase"] != Phase.ITERATION) | (spans["iteration"] < 3)]
    unlike = replace(trace, ranks=(trace.ranks[0], replace(trace.ranks[1], spans=fewer)))
    assert most_iterations(unlike) == 5
    broken = replace(trace, ranks=(trace.ranks[0], replace(trace.ranks[1], spans=fewer, complete=False)))
    assert most_iterations(broken) == 0
    gap = replace(trace.ranks[1], spans=spans[(spans["phase"] != Phase.ITERATION) | (spans["iteration"] != 3)])
    assert most_iterations(replace(trace, ranks=(trace.ranks[0], gap))) == 0
