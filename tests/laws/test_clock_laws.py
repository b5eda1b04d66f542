"""Laws of alignment: whatever delays answers meet, times are within the uncertainty; bounds are as tight as can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from e2c_dl.trace.clocks.alignment import GRAIN_NS, MOST_DRIFT, Alignment, Exchange, Stretch, align
from e2c_dl.trace.model import ClockAlignment

S = 10**9
ROUNDING_NS = 3

Delays = tuple[int, int, int]
delays = st.tuples(st.integers(1, 2 * S), st.integers(0, 40_000_000), st.integers(0, 40_000_000))
"""(own clock since the last, the question's way, the answer's way), ns."""
quick = st.tuples(st.integers(S // 10, S), st.integers(10_000, 60_000), st.integers(10_000, 60_000))
paces = st.sampled_from([-2e-4, -5e-5, 0.0, 1e-6, 5e-5, 2e-4])
offsets = st.integers(-(10**15), 10**15)


def asked(ways: Sequence[Delays], offset_at: Callable[[float], float], begin_ns: int = 10**12) -> list[Exchange]:
    """What exchanges tell of a clock whose reference is ``offset_at`` of its time further; answers are made at once."""
    seen, own_ns = [], begin_ns
    for apart_ns, there_ns, back_ns in ways:
        own_ns += apart_ns
        told_ns = own_ns + there_ns + offset_at(own_ns + there_ns)
        answered_ns = own_ns + there_ns + back_ns
        middle_ns = (own_ns + answered_ns) // 2
        uncertain_ns = (answered_ns - own_ns + 1) // 2
        seen.append(Exchange(offset_ns=round(told_ns) - middle_ns, at_ns=middle_ns, uncertainty_ns=uncertain_ns))
        own_ns = answered_ns
    return seen


def even(offset_ns: int, pace: float) -> Callable[[float], float]:
    return lambda own_ns: offset_ns + pace * (own_ns - 10**12)


def errors_ns(found: ClockAlignment, own_ns: np.ndarray, offset_at: Callable[[float], float]) -> np.ndarray:
    true = np.array([offset_at(float(each)) for each in own_ns])
    return np.abs((found.align(own_ns) - own_ns) - true)


def moments(seen: Sequence[Exchange]) -> np.ndarray:
    return np.linspace(seen[0].at_ns, seen[-1].at_ns, 50).astype(np.int64)


@given(st.lists(delays, min_size=1, max_size=30), offsets, paces)
def test_the_uncertainty_covers_whatever_delays_answers_meet(ways: list[Delays], offset_ns: int, pace: float) -> None:
    offset_at = even(offset_ns, pace)
    seen = asked(ways, offset_at)
    found = align(*seen)
    assert (found.knots, found.steps) == ((), ()), "an even clock is never called uneven"
    assert errors_ns(found, moments(seen), offset_at).max() <= found.uncertainty_ns + ROUNDING_NS


@given(st.lists(delays, min_size=2, max_size=30), offsets, paces, st.integers(0, 20 * S))
def test_it_covers_what_comes_after_the_last_exchange_too(
    ways: list[Delays], offset_ns: int, pace: float, later_ns: int
) -> None:
    offset_at = even(offset_ns, pace)
    seen = asked(ways, offset_at)
    until_ns = seen[-1].at_ns + later_ns
    found = Alignment(seen).value(until_ns)
    own_ns = np.linspace(seen[0].at_ns, until_ns, 50).astype(np.int64)
    assert errors_ns(found, own_ns, offset_at).max() <= found.uncertainty_ns + ROUNDING_NS


@settings(max_examples=25)
@given(st.lists(delays, min_size=2, max_size=15), offsets, paces)
def test_bounds_are_those_of_a_linear_programme(ways: list[Delays], offset_ns: int, pace: float) -> None:
    seen = asked(ways, even(offset_ns, pace))
    stretch = Stretch(seen[0])
    for each in seen[1:]:
        assert stretch.explains(each)
        stretch.add(each)
    for own_ns in (seen[0].at_ns, seen[-1].at_ns, seen[-1].at_ns + 3 * S):
        bounds = np.array(stretch.bounds_ns(own_ns)) - seen[0].offset_ns
        np.testing.assert_allclose(bounds, programmed(seen, own_ns), rtol=1e-4, atol=50)


def programmed(seen: Sequence[Exchange], own_ns: int) -> tuple[float, float]:
    """Least and most that a line may be at ``own_ns``, relative to the first exchange; for the solver in us and s."""
    at_s = np.array([each.at_ns - own_ns for each in seen]) / S
    middle_us = np.array([each.offset_ns - seen[0].offset_ns for each in seen]) / 1e3
    open_us = np.array([each.uncertainty_ns * (1 + MOST_DRIFT) + GRAIN_NS for each in seen]) / 1e3
    lines = np.stack([np.ones(len(seen)), at_s], axis=1)
    limits = {"A_ub": np.vstack([lines, -lines]), "b_ub": np.concatenate([middle_us + open_us, open_us - middle_us])}
    within = [(None, None), (-MOST_DRIFT * 1e6, MOST_DRIFT * 1e6)]
    least, most = (linprog([sign, 0.0], **limits, bounds=within) for sign in (1.0, -1.0))
    assert least.status == most.status == 0
    return least.fun * 1e3, -most.fun * 1e3


@given(st.lists(quick, min_size=6, max_size=40), offsets, paces)
def test_quick_answers_leave_little_open(ways: list[Delays], offset_ns: int, pace: float) -> None:
    seen = asked(ways, even(offset_ns, pace))
    found = align(*seen)
    apart_ns = seen[-1].at_ns - seen[0].at_ns
    if apart_ns > S:
        assert (
            found.uncertainty_ns
            <= max(seen[0].uncertainty_ns, seen[-1].uncertainty_ns) * (1 + MOST_DRIFT) + GRAIN_NS + 1
        )


@given(st.lists(delays, min_size=3, max_size=20), offsets, paces, st.data())
def test_another_exchange_never_opens_the_bounds(
    ways: list[Delays], offset_ns: int, pace: float, data: st.DataObject
) -> None:
    seen = asked(ways, even(offset_ns, pace))
    left_out = data.draw(st.integers(1, len(seen) - 2))
    all_of_them, fewer = _stretch(seen), _stretch([*seen[:left_out], *seen[left_out + 1 :]])
    for own_ns in (seen[0].at_ns, seen[-1].at_ns):
        least, most = all_of_them.bounds_ns(own_ns)
        without_least, without_most = fewer.bounds_ns(own_ns)
        assert without_least - 1 <= least <= most <= without_most + 1


def _stretch(seen: Sequence[Exchange]) -> Stretch:
    stretch = Stretch(seen[0])
    for each in seen[1:]:
        stretch.add(each)
    return stretch


@settings(max_examples=40)
@given(
    st.lists(quick, min_size=8, max_size=40), offsets, paces,
    st.floats(0.1, 0.9), st.integers(400_000, S), st.sampled_from([1, -1]),
)  # fmt: skip
def test_a_step_is_within_a_window_and_all_else_as_certain_as_ever(
    ways: list[Delays], offset_ns: int, pace: float, share: float, step_ns: int, sign: int
) -> None:
    before = even(offset_ns, pace)
    length_ns = sum(apart_ns for apart_ns, _, _ in ways)
    when_ns = 10**12 + share * length_ns
    offset_at = lambda own_ns: before(own_ns) - (sign * step_ns if own_ns >= when_ns else 0)  # noqa: E731
    seen = asked(ways, offset_at)
    own_ns = moments(seen)
    found = align(*seen)
    assert (errors_ns(found, own_ns, offset_at) <= found.uncertainties_ns(own_ns) + ROUNDING_NS).all()
    if found.steps:
        (step,) = found.steps
        assert step.from_ns <= when_ns + 100_000 and when_ns - 100_000 <= step.to_ns


@settings(max_examples=15)
@given(st.lists(quick, min_size=8, max_size=40), offsets, paces, paces, st.floats(0.1, 0.9))
def test_a_change_of_pace_is_covered(
    ways: list[Delays], offset_ns: int, pace: float, later_pace: float, share: float
) -> None:
    before = even(offset_ns, pace)
    when_ns = 10**12 + share * sum(apart_ns for apart_ns, _, _ in ways)
    offset_at = lambda own_ns: before(own_ns) + (later_pace - pace) * max(0.0, own_ns - when_ns)  # noqa: E731
    seen = asked(ways, offset_at)
    found = align(*seen)
    own_ns = moments(seen)
    room_ns = 2 * max(each.uncertainty_ns for each in seen)  # what its exchanges cannot tell from an even clock
    assert (errors_ns(found, own_ns, offset_at) <= found.uncertainties_ns(own_ns) + room_ns + ROUNDING_NS).all()


@settings(max_examples=40)
@given(
    st.lists(quick, min_size=4, max_size=20), st.lists(quick, min_size=4, max_size=20),
    st.integers(S // 10, 20 * S), paces,
)  # fmt: skip
@example(  # set back beyond all that was seen: what it showed before lies after its last exchange
    [(S // 10, 10_000, 10_000)] * 4, [*[(S // 10, 10_000, 10_000)] * 3, (799_918_130, 53_740, 10_000)],
    2_062_309_955, 0.0,
)  # fmt: skip
@example(  # set back to just after what it had shown: a step by as much as the whole trace lasts
    [(S // 10, 10_000, 10_000)] * 4, [(300_039_818, 10_000, 10_000), *[(S // 10, 10_000, 10_000)] * 3],
    300_049_815, 5e-5,
)  # fmt: skip
def test_a_clock_set_back_shows_some_times_twice(
    ways: list[Delays], later_ways: list[Delays], back_ns: int, pace: float
) -> None:
    before, after = even(0, pace), even(back_ns, pace)
    seen = asked(ways, before)
    later = asked(later_ways, after, begin_ns=seen[-1].at_ns - back_ns)
    found = align(*seen, *later)
    assert found.problem() is None
    for own_ns, offset_at in ((moments(seen), before), (moments(later), after)):
        assert errors_ns(found, own_ns, offset_at).max() <= found.uncertainty_ns + ROUNDING_NS


@given(st.lists(delays, min_size=1, max_size=30), offsets, paces, st.integers(-(10**12), 10**12))
def test_who_is_ahead_does_not_matter(ways: list[Delays], offset_ns: int, pace: float, moved_ns: int) -> None:
    seen = asked(ways, even(offset_ns, pace))
    found, moved = align(*seen), align(*(replace(each, offset_ns=each.offset_ns + moved_ns) for each in seen))
    assert abs(moved.offset_ns - found.offset_ns - moved_ns) <= 1
    assert abs(moved.uncertainty_ns - found.uncertainty_ns) <= 1
