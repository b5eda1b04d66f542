"""Times of day on a host's own clock: one that nobody sets, one that is set forth or back, one that is slewed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from e2c_dl.trace.clocks.time_of_day import MOST_PAIRS, Pair, PairsKept, TimesOfDay

SECOND = 1_000_000_000
DAY_NS = 1_795_000_000 * SECOND  # when own clocks show 0
MS = 1_000_000


def kept(of_day: Callable[[float], float], seconds: int, every_s: float = 2.0) -> PairsKept:
    """``of_day``: own clock -> ns by which the time of day is ahead of DAY_NS + own clock; own clock in s."""
    now_s = 0.0
    pairs = PairsKept(lambda: round(now_s * SECOND), lambda: DAY_NS + round(now_s * SECOND + of_day(now_s)))
    for look in range(int(seconds / every_s) + 1):
        now_s = look * every_s
        pairs.look()
    return pairs


def apart_ns(pairs: tuple[Pair, ...], of_day: Callable[[float], float], own_s: float) -> int:
    """How far ``own_s`` lies from where its time of day is put."""
    own_ns = round(own_s * SECOND)
    (found,) = TimesOfDay(pairs).own_ns(np.array([DAY_NS + own_ns + round(of_day(own_s))]))
    return abs(int(found) - own_ns)


def test_of_an_even_clock_the_first_and_the_newest_pair_tell_all() -> None:
    pairs = kept(lambda _: 0.0, 100).pairs()
    assert pairs == ((0, DAY_NS), (100 * SECOND, DAY_NS + 100 * SECOND))
    for own_s in (-3.0, 0.0, 50.5, 100.0, 107.25):
        assert apart_ns(pairs, lambda _: 0.0, own_s) == 0
    assert apart_ns(pairs[:1], lambda _: 0.0, 50.5) == 0, "one pair will do"


@pytest.mark.parametrize("by_s", [30.0, 0.05, 3600.0, -0.05, -30.0])
def test_a_jump_moves_nothing_but_what_nobody_can_tell(by_s: float) -> None:
    def of_day(own_s: float) -> float:
        return by_s * SECOND if own_s >= 51 else 0.0

    pairs = kept(of_day, 100).pairs()
    assert [own // SECOND for own, _ in pairs] == [0, 50, 52, 100]
    for own_s in (-5.0, 10.0, 49.9, 50.9, 90.0, 104.0):
        shown_before = by_s < 0 and own_s > 51 and own_s + by_s < 52  # that time of day was shown twice
        assert apart_ns(pairs, of_day, own_s) <= (-by_s * SECOND if shown_before else 0)


def test_it_may_be_set_again_and_again() -> None:
    def of_day(own_s: float) -> float:
        return SECOND * (0 if own_s < 101 else -1000 if own_s < 201 else 500 if own_s < 301 else 700)

    pairs = kept(of_day, 400).pairs()
    for own_s in (50.0, 100.0, 150.0, 199.0, 250.0, 350.0):
        assert apart_ns(pairs, of_day, own_s) == 0, own_s


def test_a_clock_that_is_slewed_is_followed() -> None:
    def of_day(own_s: float) -> float:
        return own_s * 500e-6 * SECOND if own_s < 100 else 50 * MS

    kept_pairs = kept(of_day, 200)
    for own_s in np.linspace(0, 200, 41):
        assert apart_ns(kept_pairs.pairs(), of_day, float(own_s)) <= 1 * MS, "what a look sees"


def test_pairs_are_bounded_and_a_jump_is_among_them() -> None:
    def of_day(own_s: float) -> float:
        return own_s * 200e-6 * SECOND + (60 * SECOND if own_s >= 1001 else 0)

    pairs = kept(of_day, 20_000).pairs()
    assert len(pairs) <= MOST_PAIRS + 1
    for own_s in (10.0, 900.0, 1000.0, 1010.0, 15_000.0):
        assert apart_ns(pairs, of_day, own_s) <= 20 * MS


def test_a_look_says_whether_the_time_of_day_was_set() -> None:
    ahead_ns = 0
    pairs = PairsKept(iter(range(0, 10**12, 1000)).__next__, lambda: DAY_NS + ahead_ns)
    assert [pairs.look() for _ in range(3)] == [False] * 3
    ahead_ns = SECOND
    assert [pairs.look() for _ in range(3)] == [True, False, False]
