"""Since when a host is slow, and beside what, where its noise is not small or it is slow by turns."""

from __future__ import annotations

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.series import Judged, Series
from e2c_dl.diagnosis.stretches import When

FIRST, ITERATIONS, SLOW_FROM = 3, 60, 40
USUAL_S = 0.117


def judged(values: np.ndarray) -> Judged:
    """A host whose iterations from FIRST on take e to the power of ``values`` times as long as USUAL_S."""
    spent_s = USUAL_S * np.exp(values)
    ends_s = np.cumsum(spent_s)
    series = Series(
        values=np.log(spent_s), iterations=np.arange(FIRST, FIRST + len(values)), begins_s=ends_s - spent_s,
        until_s=float(ends_s[-1]), spent_s=spent_s,
    )  # fmt: skip
    return levelled([series], turns=True)[0].judged(float(np.log(USUAL_S))).clear


@pytest.mark.parametrize("times", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("noise", [0.05, 0.10, 0.15])
def test_an_early_stretch_of_noise_is_not_when_a_host_became_slow(noise: float, times: float) -> None:
    early = 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        values = draw.normal(0, noise, ITERATIONS - FIRST)
        values[:5] *= 2  # a noisy stretch
        values[SLOW_FROM - FIRST :] += np.log(times)
        when = judged(values).stretches
        early += when.onset_iteration < SLOW_FROM - 3
    assert early <= 1


@pytest.mark.parametrize("lengths", [(3, 12), (12, 3), (6, 6, 6)])
def test_stretches_that_are_clear_are_all_told(lengths: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).normal(0, 0.05, ITERATIONS - FIRST)
    for place, length in enumerate(lengths):
        values[4 + 18 * place :][:length] += np.log(2.0)
    when = judged(values).stretches
    assert when.onset_iteration == FIRST + 4
    assert when.when is not When.ONCE
    assert len(when.begins_s) == len(lengths)


def test_a_host_that_is_slow_by_turns_is_held_to_what_it_is_designed_to_take() -> None:
    place = np.arange(ITERATIONS - FIRST)
    slow = np.where(place // 6 % 2 == 0, 0.0, np.where(place % 3 == 1, np.log(4.0), np.log(2.0)))
    found = judged(slow + np.random.default_rng(1).normal(0, 0.05, len(place)))
    observed_s, expected_s = found.usual_s
    assert expected_s == pytest.approx(USUAL_S, rel=1e-6)
    assert observed_s == pytest.approx(2 * USUAL_S, rel=0.05)
    assert observed_s / found.slowdown < 0.85 * USUAL_S, "a mean tells what it took in all"


@pytest.mark.parametrize(("early", "onset"), [(5.0, SLOW_FROM), (300.0, FIRST + 5)])
def test_what_is_many_times_longer_for_next_to_no_time_is_not_when_a_host_became_slow(early: float, onset: int) -> None:
    values = np.random.default_rng(1).normal(0, 0.05, ITERATIONS - FIRST)
    values[5:7] += np.log(early)
    values[SLOW_FROM - FIRST :] += np.log(3000.0)  # data of microseconds: who loads some takes as many times longer
    assert judged(values).stretches.onset_iteration == onset


def test_what_recurs_is_told_beside_one_iteration_that_takes_most_of_the_time() -> None:
    values = np.random.default_rng(1).normal(0, 0.05, 400)
    for first in range(20, 400, 40):
        values[first : first + 8] += np.log(1.5)
    values[7] += np.log(800.0)
    assert len(judged(values).stretches.begins_s) == 11
