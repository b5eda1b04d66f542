"""Intervals of mean differences: how often they hold what they should, on series whose truth is known."""

import numpy as np
import pytest

from e2c_dl.diagnosis.comparing.resampling import Floats, block_length, of_pairs, of_series, of_sides, without_steps


def autoregressive(count: int, memory: float, seed: int) -> Floats:
    """A series of mean 0 in which each value keeps ``memory`` of the one before."""
    noise = np.random.default_rng(seed).normal(size=count + 50)
    values = np.zeros(count + 50)
    for i in range(1, len(values)):
        values[i] = memory * values[i - 1] + noise[i]
    return values[50:]


@pytest.mark.parametrize(("count", "memory"), [(30, 0.0), (60, 0.0), (100, 0.5), (300, 0.7)])
def test_an_interval_holds_the_truth_in_about_95_of_100_series(count: int, memory: float) -> None:
    intervals = [of_series(autoregressive(count, memory, seed)) for seed in range(300)]
    covered = np.mean([not interval.differs for interval in intervals])
    assert 0.90 <= covered <= 0.99  # 300 series: two standard errors are 0.025


@pytest.mark.parametrize(("count", "memory"), [(8, 0.3), (8, 0.5), (12, 0.5), (20, 0.5), (20, 0.8), (60, 0.8)])
def test_a_short_series_that_hides_its_correlation_is_not_sure_either(count: int, memory: float) -> None:
    covered = np.mean([not of_series(autoregressive(count, memory, seed)).differs for seed in range(300)])
    assert covered >= 0.87  # 0.61 to 0.91 by blocks alone


@pytest.mark.parametrize("count", [20, 30, 60, 300])
@pytest.mark.parametrize(("begin", "end"), [(0.25, 1.0), (0.5, 1.0), (0.75, 1.0), (0.4, 0.6)])
def test_what_became_slow_in_a_run_is_no_noise_of_it(count: int, begin: float, end: float) -> None:
    places = np.arange(count)
    slow = 1.7 * ((places >= begin * count) & (places < end * count))
    found = [of_series(0.2 * autoregressive(count, 0.0, seed) + slow) for seed in range(60)]
    assert np.mean([each.differs for each in found]) >= 0.8
    means = [interval.mean for interval in found]
    assert np.mean(means) == pytest.approx(slow.mean(), abs=0.05)


@pytest.mark.parametrize(("count", "memory"), [(8, 0.0), (20, 0.0), (20, 0.5)])
def test_what_is_far_off_is_different_however_short_the_series(count: int, memory: float) -> None:
    deviation = 1 / np.sqrt(1 - memory**2)
    found = [of_series(autoregressive(count, memory, seed) + 3 * deviation) for seed in range(200)]
    assert np.mean([each.differs for each in found]) >= 0.8


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_noise_has_no_steps(memory: float) -> None:
    for seed in range(100):
        values = autoregressive(60, memory, seed)
        assert without_steps(values) is values


def test_iterations_one_by_one_would_be_too_sure() -> None:
    series = [autoregressive(300, 0.7, seed) for seed in range(200)]
    errors = [1.96 * values.std(ddof=1) / np.sqrt(300) for values in series]
    assert np.mean([abs(values.mean()) <= error for values, error in zip(series, errors, strict=True)]) < 0.8


def test_the_smallest_difference_is_seen_in_four_of_five_cases() -> None:
    smallest = np.median([of_series(autoregressive(100, 0.3, seed)).smallest for seed in range(100)])
    seen = [of_series(autoregressive(100, 0.3, seed) + smallest).differs for seed in range(100, 300)]
    assert 0.7 <= np.mean(seen) <= 0.9


@pytest.mark.parametrize(("memory", "expected"), [(0.0, (1, 3)), (0.3, (5, 16)), (0.7, (15, 32))])
def test_blocks_are_as_long_as_the_correlation_asks(memory: float, expected: tuple[int, int]) -> None:
    # Of an autoregressive series of 1000 the formula gives 0, 8.7 and 22.4.
    lengths = [block_length(autoregressive(1000, memory, seed)) for seed in range(40)]
    assert expected[0] <= np.median(lengths) <= expected[1]


@pytest.mark.parametrize("value", [0.0, -0.1, 1e6])
def test_a_difference_that_is_always_the_same_is_certain(value: float) -> None:
    interval = of_series(np.full(20, value))
    assert (interval.mean, interval.low, interval.high) == pytest.approx((value, value, value))
    assert interval.differs == (value != 0) and interval.smallest == pytest.approx(0, abs=1e-6)


def test_seven_iterations_are_too_few() -> None:
    assert of_series(np.arange(7.0)) is None


def test_the_same_series_gives_the_same_interval() -> None:
    assert of_series(autoregressive(50, 0.5, 1)) == of_series(autoregressive(50, 0.5, 1))


def test_pairs() -> None:
    interval = of_pairs([1.0, 2.0, 3.0])  # 2, +- 4.3027 / sqrt(3)
    assert (interval.mean, interval.low, interval.high) == pytest.approx((2.0, -0.4841, 4.4841), abs=1e-4)
    assert of_pairs([1.0]) is None


def test_two_sides() -> None:
    interval = of_sides([1.0, 2.0, 3.0], [11.0, 12.0, 13.0])  # Welch: 4 degrees of freedom, error sqrt(2/3)
    half = 2.7764 * np.sqrt(2 / 3)
    assert (interval.low, interval.high) == pytest.approx((10 - half, 10 + half), abs=1e-3)
    assert of_sides([1.0, 1.0], [2.0, 2.0]).differs
    assert of_sides([1.0], [2.0, 3.0]) is None
