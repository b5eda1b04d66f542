"""Laws of clocks that step and drift while training runs: exchanges in between straighten a trace out."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import Ring, simulate

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.topology import Link
from e2c_dl.trace.clocks.alignment import Alignment, Exchange, align
from e2c_dl.trace.clocks.certainty import in_steps
from e2c_dl.trace.clocks.skew import Skew, TraceClock
from e2c_dl.trace.model import ClockAlignment, RankTrace, Trace

S = 10**9
TIMES = ("posted_ns", "start_ns", "end_ns")
BEGIN = 10**12  # when synthetic runs begin

skews = st.lists(
    st.builds(
        Skew, begin_ns=st.integers(BEGIN, BEGIN + 20 * S), step_ns=st.integers(-S, S),
        drift=st.sampled_from([0.0, 1e-4, -1e-4]),
    ),
    max_size=3,
)  # fmt: skip


def exchanges(clock: TraceClock, moments_ns: list[int], uncertainty_ns: int = 0) -> list[Exchange]:
    return [
        Exchange(offset_ns=at_ns - clock.own_ns(at_ns), at_ns=clock.own_ns(at_ns), uncertainty_ns=uncertainty_ns)
        for at_ns in moments_ns
    ]


@given(skews, st.integers(1, 4), st.integers(BEGIN, BEGIN + 20 * S))
def test_no_moment_is_misplaced_beyond_the_uncertainty(found: list[Skew], every_s: int, moment_ns: int) -> None:
    clock = TraceClock(time.monotonic_ns)
    clock.reset(found)
    alignment = align(*exchanges(clock, list(range(BEGIN - S, BEGIN + 22 * S, every_s * S))))
    placed_ns = int(alignment.align(np.array([clock.own_ns(moment_ns)], dtype=np.int64))[0])
    # Beside what the clock did, a drift that changed within an interval may bend by as much as it could gain there.
    bend_ns = every_s * S * 6e-4
    assert abs(placed_ns - moment_ns) <= 2 * alignment.uncertainty_ns + bend_ns


@given(st.integers(-(10**6), 10**6), st.floats(-1e-4, 1e-4), st.integers(0, 10**5))
def test_an_even_clock_needs_no_knots(offset_ns: int, drift: float, uncertainty_ns: int) -> None:
    clock = TraceClock(lambda: 0)
    clock.skew(Skew(begin_ns=0, step_ns=offset_ns, drift=drift))
    seen = exchanges(clock, [BEGIN + second * S for second in (0, 3, 6, 9, 12)], uncertainty_ns + 2)
    alignment = align(*seen)
    assert alignment.knots == ()
    assert alignment == align(seen[0], seen[-1])


def test_a_step_is_bounded_by_the_exchanges_around_it() -> None:
    clock = TraceClock(time.monotonic_ns)
    clock.skew(Skew(begin_ns=BEGIN + 7 * S, step_ns=50_000_000))
    alignment = align(*exchanges(clock, [BEGIN + second * S for second in (0, 3, 6, 9, 12)], 1000))
    own_ns = np.array([clock.own_ns(BEGIN + second * S) for second in (1, 5, 10, 12)], dtype=np.int64)
    assert (alignment.align(own_ns) - BEGIN).tolist() == [S, 5 * S, 10 * S, 12 * S]
    assert 50_001_000 <= alignment.uncertainty_ns <= 50_010_000
    assert alignment.uncertainties_ns(own_ns).max() < 5_000, "outside of the window as certain as ever"


@pytest.mark.parametrize("late", [1, -1])  # the question, the answer
@pytest.mark.parametrize("step_ns", [26_000_000, -26_000_000])
def test_of_two_exchanges_after_a_step_the_one_that_was_late_does_not_hide_it(late: int, step_ns: int) -> None:
    """By itself it could be of before the step: its bounds are wide."""
    clock = TraceClock(time.monotonic_ns)
    clock.skew(Skew(begin_ns=BEGIN + 5 * S + 1, step_ns=step_ns))
    seen = Alignment(exchanges(clock, [BEGIN + second * S for second in range(6)], 10_000))
    wide, tight = exchanges(clock, [BEGIN + 6 * S, BEGIN + 6 * S + 10**6], 10_000)
    wide = replace(wide, offset_ns=wide.offset_ns + late * 35_000_000, uncertainty_ns=35_010_000)
    seen.add(wide, tight)
    own_ns = np.array([clock.own_ns(BEGIN + 5 * S + each * S // 10) for each in range(1, 10)], dtype=np.int64)
    found = seen.value()
    off_ns = np.abs(found.align(own_ns) - BEGIN - 5 * S - np.arange(1, 10) * S // 10)
    assert (off_ns <= found.uncertainties_ns(own_ns)).all()


def test_a_clock_set_back_is_bounded_too() -> None:
    clock = TraceClock(time.monotonic_ns)
    clock.skew(Skew(begin_ns=BEGIN + 5 * S, step_ns=-5 * S))
    alignment = align(*exchanges(clock, [BEGIN + second * S for second in (0, 3, 6, 9, 12)], 1000))
    assert 2 * S <= alignment.uncertainty_ns <= 5 * S + 1000
    assert list(alignment.knots) == sorted(alignment.knots)


def stepped(trace: Trace, skew: Skew, *, exchanged: bool) -> Trace:
    """``trace`` with the clock of rank 1 skewed; ``exchanged``: then aligned again, by an exchange every second."""
    clock = TraceClock(time.monotonic_ns)
    clock.skew(skew)
    alignment = align(*exchanges(clock, [BEGIN - S + second * S for second in range(30)], 1000))

    def told(rank: RankTrace) -> RankTrace:
        if rank.rank != 1:
            return rank
        spans = rank.spans.copy()
        for name in TIMES:
            own_ns = np.array([clock.own_ns(int(each)) for each in spans[name]], dtype=np.int64)
            spans[name] = alignment.align(own_ns) if exchanged else own_ns
        return replace(rank, spans=spans, clock=alignment if exchanged else ClockAlignment())

    return replace(trace, ranks=tuple(told(rank) for rank in trace.ranks))


@pytest.mark.parametrize("exchanged", [True, False])
@settings(max_examples=8, deadline=None)
@given(st.integers(-800, 800), st.floats(0.05, 0.95), st.integers(0, 100))
def test_messages_that_come_before_they_are_sent_are_analysed(
    exchanged: bool, step_ms: int, share: float, seed: int
) -> None:
    ring = Ring(
        compute_s=(0.1, 0.1, 0.2), links=(Link(rate_bps=40e6, delay_s=0.005),) * 3, bucket_bytes=(200_000,),
        iterations=8, seed=seed,
    )  # fmt: skip
    trace = simulate(ring)
    length_ns = int(max(rank.spans["end_ns"].max() for rank in trace.ranks)) - BEGIN
    skew = Skew(begin_ns=BEGIN + round(share * length_ns), step_ns=step_ms * 1_000_000)
    report = analyse(stepped(trace, skew, exchanged=exchanged), ring.reference())
    assert report.iterations > 0
    assert report.culprits == (), "nothing is slow here but a clock is wrong"


@pytest.mark.parametrize("step_ms", [-300, 50])
def test_a_slow_host_is_named_though_its_clock_stepped(step_ms: int) -> None:
    ring = Ring(
        compute_s=(0.1, 0.1, 0.1, 0.1), links=(Link(rate_bps=400e6, delay_s=0.001),) * 4, bucket_bytes=(200_000,),
        iterations=30, slow_hosts={1: 3.0},
    )  # fmt: skip
    trace = simulate(ring)
    report = analyse(
        stepped(trace, Skew(begin_ns=BEGIN + 3 * S, step_ns=step_ms * 1_000_000), exchanged=True), ring.reference()
    )
    slow = trace.ranks[1].host
    assert [each.element.src for each in report.culprits] == [slow]
    assert any("stepped" in each and slow in each for each in report.limitations), report.limitations


def test_spans_within_a_step_are_marked() -> None:
    ring = Ring(compute_s=(0.1, 0.1), links=(Link(rate_bps=40e6, delay_s=0.005),) * 2, bucket_bytes=(200_000,))
    plain = simulate(ring).ranks[1]
    assert not in_steps(plain).any()
    rank = stepped(simulate(ring), Skew(begin_ns=BEGIN + S // 2, step_ns=300_000_000), exchanged=True).ranks[1]
    assert in_steps(rank).any()
