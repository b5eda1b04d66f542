"""Series of thousands of windows: short bursts are seen as they are in short ones, noise is as silent."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from e2c_dl.diagnosis.detection.change_points import segments
from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.recurrence import recurring_of_many
from e2c_dl.diagnosis.detection.series import WORTH, Judged, Series

NOISE = 0.05


def judged(values: npt.NDArray[np.float64]) -> Judged:
    """Of a host whose iterations take e to the power of ``values`` seconds."""
    spent_s = np.exp(values)
    ends_s = np.cumsum(spent_s)
    series = Series(
        values=values, iterations=np.arange(len(values)), begins_s=ends_s - spent_s, until_s=float(ends_s[-1]),
        spent_s=spent_s,
    )  # fmt: skip
    return levelled([series], turns=True)[0].judged(0.0)


def noise(windows: int, seed: int = 1) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0.0, NOISE, windows)


@pytest.mark.parametrize("windows", [240, 300, 1000, 5000])
@pytest.mark.parametrize(("every", "times"), [(10, 3.0), (4, 1.8), (4, 1.4), (100, 8.0)])
def test_short_bursts_are_seen_in_runs_of_any_length(windows: int, every: int, times: float) -> None:
    slow = np.arange(windows) % every == every - 1
    if slow.sum() < 3:
        return
    found = judged(noise(windows) + slow * np.log(times))
    assert (found.windows == slow).mean() > 0.98
    assert found.slowdown == pytest.approx(times, rel=0.06)


@pytest.mark.parametrize("windows", [300, 1000, 3000])
def test_what_recurs_every_few_seconds_is_seen_in_long_runs(windows: int) -> None:
    values, at_s = noise(windows), 0.0
    slow = np.zeros(windows, dtype=bool)
    for place in range(windows):
        slow[place] = at_s % 5.3 > 3.5
        values[place] += 0.3 * slow[place]
        at_s += np.exp(values[place])
    assert (judged(values).windows == slow).mean() > 0.9


def test_noise_of_many_windows_does_not_recur() -> None:
    assert not [seed for seed in range(60) if recurring_of_many(np.arange(700.0), noise(700, seed)) is not None]
    for seed in range(12):
        tailed = noise(1500, seed) + np.random.default_rng(seed).exponential(0.05, 1500)
        found = judged(tailed - np.median(tailed))
        assert found.windows.mean() < WORTH, "some are late by far"


def test_single_slow_windows_of_thousands_are_segments_of_their_own() -> None:
    values = noise(4000)
    values[[700, 2100, 3900]] += 1.0
    assert [start for start, stop in segments(values, NOISE) if stop - start == 1] == [700, 2100, 3900]
