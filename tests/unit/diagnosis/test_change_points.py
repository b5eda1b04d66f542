"""Where levels change, how stretches are called, and what recurs: three series each, and what is found in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.change_points import noise_of, segments
from e2c_dl.diagnosis.detection.peers import peers
from e2c_dl.diagnosis.detection.recurrence import by_turns, plainly_by_turns, recurring
from e2c_dl.diagnosis.stretches import When, stretches, throughout, united


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        ((), [(0, 60)]),
        ((40, 60), [(0, 40), (40, 60)]),
        ((20, 30), [(0, 20), (20, 30), (30, 60)]),
    ],
)
def test_segments_are_of_one_level_each(raised: tuple[int, ...], expected: list[tuple[int, int]]) -> None:
    values = np.random.default_rng(1).normal(0.0, 0.1, 60)
    values[slice(*raised) if raised else slice(0)] += 0.7
    assert segments(values, 0.1) == expected
    assert noise_of(values) == pytest.approx(0.1, rel=0.4)


def test_a_last_third_is_told_though_the_median_of_all_is_nearer_to_it() -> None:
    took = [0.96, 0.81, 0.86, 1.02, 0.98, 0.84, 0.76, 0.85, 0.83, 1.03, 1.13, 0.89, 1.23, 1.94, 1.07, 1.50, 1.18, 1.50]
    assert segments(np.log(took), 0.185) == [(0, 12), (12, 18)]
    noise = (np.random.default_rng(seed).normal(0.0, 0.2, 18) for seed in range(1000))
    assert sum(len(segments(each, 0.2)) > 1 for each in noise) <= 2


def test_windows_that_are_slow_by_turns_are_told_by_their_values() -> None:
    draw = np.random.default_rng(4)
    slow = np.array([0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1], dtype=bool)
    noise = draw.normal(0.0, 0.08, len(slow))
    found = by_turns(noise + slow * draw.uniform(0.8, 1.6, len(slow)))
    assert found is not None
    assert (found == slow).all()
    assert not [seed for seed in range(200) if by_turns(np.random.default_rng(seed).normal(0.0, 0.2, 20)) is not None]


def test_of_windows_slow_by_turns_and_unevenly_others_that_are_alike_tell_the_noise() -> None:
    took_s = [13.56, 7.79, 3.73, 4.27, 11.48, 6.68, 3.32, 4.64, 13.87, 8.25, 4.19, 8.66, 11.78, 5.1, 5.02, 11.02, 10.8]
    values = np.log(took_s)  # each window is slow for more or less of its time: three times, at most
    assert by_turns(values) is None
    found = by_turns(values, known_noise=0.15)
    assert found is not None
    assert (found == (values > np.log(7))).all()
    for times in (1.0, 1.6):
        noise = (np.random.default_rng(seed).normal(0.0, times * 0.2, 17) for seed in range(500))
        assert not [each for each in noise if by_turns(each, known_noise=0.2) is not None], "noise like that of others"
    late = np.random.default_rng(7).normal(0.0, 0.1, 40)
    late[[5, 19, 30]] += 0.6
    assert by_turns(late, known_noise=0.1) is None, "few are late by far"


def test_few_windows_that_are_plainly_slow_by_turns_are_told() -> None:
    noise = np.random.default_rng(5).normal(0.0, 0.005, 9)
    slow = np.arange(9) % 2 == 1
    assert plainly_by_turns(noise + 1.6 * slow)
    found = by_turns(noise + 1.6 * slow)
    assert found is not None
    assert (found == slow).all()
    assert by_turns(noise + 0.3 * slow) is None, "hardly slower"
    assert by_turns(20 * noise + 1.6 * slow) is None, "not plainly"


def test_few_windows_far_beyond_others_are_told_by_turns_though_these_are_less_even_than_known() -> None:
    took = np.array([4.22, 1.07, 3.36, 1.0, 3.33, 1.02, 3.26, 1.02, 4.26])  # each is slow for more or less of its time
    found = by_turns(np.log(took), known_noise=0.005)
    assert found is not None
    assert (found == (took > 2)).all()
    uneven = took + np.where(took > 2, 0.0, [0.0, 0.5, 0.0, 0.0, 0.0, 0.3, 0.0, 0.8, 0.0])
    assert by_turns(np.log(uneven), known_noise=0.005) is None
    for known in (0.005, 0.05, 0.2):
        noise = (np.random.default_rng(seed).normal(0.0, 0.3, 9) for seed in range(2000))
        assert sum(by_turns(each, known_noise=known) is not None for each in noise) <= 2, "one in a thousand"


def test_few_windows_that_are_far_beyond_others_are_slow_by_turns_unevenly() -> None:
    values = np.array([1.19, 1.61, 0.02, 1.29, 0.01, 1.2, 0.0, 1.16])  # slow for more or less of each window
    assert by_turns(values) is None, "they may be as noisy"
    found = by_turns(values, known_noise=0.005)
    assert found is not None
    assert (found == (values > 1)).all()
    assert by_turns(values, known_noise=0.1) is None, "as noise of others has it"
    assert by_turns(values / 5, known_noise=0.005) is None, "hardly slower"
    for times in (1.0, 3.0):
        noise = (np.random.default_rng(seed).normal(0.0, times * 0.2, 9) for seed in range(500))
        assert not [each for each in noise if by_turns(each, known_noise=0.2) is not None]


def test_a_series_of_many_windows_is_pooled() -> None:
    values = np.zeros(20_000)
    values[3000:] = 1.0
    found = segments(values, 0.05)
    assert (found[0][0], found[-1][1]) == (0, 20_000)
    assert found[-1][0] == pytest.approx(3000, abs=3)


@pytest.mark.parametrize(
    ("found", "when", "said"),
    [
        ([(0, 40)], When.PERSISTENT, "all the time"),
        ([(20, 40)], When.SINCE, "since iteration 20 (second 40)"),
        ([(5, 7)], When.ONCE, "once, for 4.00 s from iteration 5 (second 10) on"),
        ([(5, 7), (15, 17), (25, 27)], When.PERIODIC, "every 20.0 s for 4.00 s, first in iteration 5 (second 10)"),
        ([(5, 7), (9, 11), (30, 32)], When.AT_TIMES, "3 times, for 4.00 s each, first in iteration 5 (second 10)"),
        (
            [(5, 6), (9, 19), (30, 32)],
            When.AT_TIMES,
            "3 times, for 2.00 s to 20.0 s, 26.0 s in all, first in iteration 5 (second 10)",
        ),
    ],
)
def test_stretches_are_called_by_their_pattern(found: list[tuple[int, int]], when: When, said: str) -> None:
    named = stretches(found, 40, np.arange(40), np.arange(40) * 2.0, 80.0)
    assert (named.when, named.described()) == (when, said)


def test_several_are_as_long_as_any_of_them() -> None:
    one, other, since = (
        stretches(found, 40, np.arange(40), np.arange(40) * 2.0, 80.0)
        for found in ([(5, 7), (15, 18)], [(6, 9), (17, 18), (25, 27)], [(35, 40)])
    )
    both = united([other, one])
    assert (both.when, both.onset_iteration) == (When.PERIODIC, 5)
    assert (both.begins_s, both.ends_s) == ((10.0, 30.0, 50.0), (18.0, 36.0, 54.0))
    assert united([since, replace(since, begins_s=(74.0,), ends_s=(78.0,))]) == since
    always = throughout(80.0)
    assert united([one, always]) == always


def test_what_recurs_too_briefly_for_itself_is_found_by_its_period() -> None:
    draw = np.random.default_rng(2)
    begins_s = np.cumsum(draw.uniform(0.9, 1.1, 60))
    hit = begins_s % 5.3 > 3.7
    touched = recurring(begins_s, draw.normal(0.0, 0.12, 60) + 0.5 * hit)
    assert touched is not None
    assert (touched == hit).mean() > 0.9
    assert recurring(begins_s, draw.normal(0.0, 0.12, 60)) is None


def test_windows_that_begin_together_ask_for_no_more_periods_than_there_are_windows_for() -> None:
    begins_s = np.repeat(np.arange(60) * 1.0, 4) + np.tile([0.0, 1e-9, 2e-9, 3e-9], 60)
    assert recurring(begins_s, np.random.default_rng(1).normal(0.0, 0.1, len(begins_s))) is None  # not 10^10 of them


def test_few_windows_recur_clearly_enough_where_peers_tell_their_noise() -> None:
    draw = np.random.default_rng(3)
    begins_s = np.cumsum(draw.uniform(0.9, 1.1, 17))
    hit = begins_s % 5.2 > 3.2
    values = draw.normal(0.0, 0.15, 17) + 0.42 * hit
    assert recurring(begins_s, values) is None
    touched = recurring(begins_s, values, 0.15)
    assert touched is not None
    assert (touched == hit).mean() > 0.85
    noises = [np.random.default_rng(seed).normal(0.0, 0.15, 17) for seed in range(300)]
    assert not [noise for noise in noises if recurring(begins_s, noise, 0.15) is not None]
    found = [noise for noise in noises if recurring(begins_s, noise, 0.03) is not None]
    assert not found, "that its peers are steadier tells nothing of one that is not"


@pytest.mark.parametrize(
    ("levels", "fastest", "settled"),
    [
        ([0.0, 0.01, 0.02, 0.7], (0, 1, 2), True),
        ([0.7, 0.0, 0.71, 0.72], (1,), False),
        ([0.0, 0.05, 0.1, 0.15], (0, 1, 2, 3), True),  # no gap: nobody is apart
    ],
)
def test_the_fastest_group_is_the_reference(levels: list[float], fastest: tuple[int, ...], settled: bool) -> None:
    found = peers(levels, [0.005] * 4)
    assert (found.fastest, found.settled) == (fastest, settled)
