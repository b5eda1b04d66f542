"""Interval of a mean difference: of a series whose neighbours resemble each other, and of independent values.

* A series, such as the differences of two runs iteration by iteration: circular block bootstrap (Politis and Romano
  1992), blocks as long as the series' correlation asks for (Politis and White 2004, corrected by Patton, Politis and
  White 2009). Iterations drawn one by one would take a slow spell of ten for ten pieces of news. A short series hides
  its correlation, and blocks are too short for it: so an interval is at least as wide as that of a first-order
  autoregression, whose correlation is freed of what a short series takes off it (Marriott and Pope 1954, Kendall 1954).
  What became slow while a run went on, and stayed so or came back, is an event of that run, and no noise: up to two
  steps that are nearly all of how a series varies are taken off before its noise is looked at.
* Values of several runs: Student's t of the differences of pairs; Welch's for two sides that are not paired.

What is called different though nothing is, in percent of series x[i] = c x[i - 1] + noise of ``n`` values::

    n        8    12    20    30    60   200        blocks alone, n = 20
    c = 0    2     2     3     4     4     5          4
    c = .3   4     5     6     6     4     6         10
    c = .5   7     7     7     6     5     6         17
    c = .8  14    11    10     7     6     6         33

A mean is different from 0 if 0 lies outside of its interval of 95 %. What the same data would have shown in four of
five cases had it been there is :attr:`Interval.smallest`: 2.8 standard errors instead of 1.96.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import noise_of, segments

Floats = npt.NDArray[np.float64]

CONFIDENCE, POWER = 0.95, 0.8
REPLICATES = 4000
LEAST = 8
"""Values of a series: of fewer no correlation can be told."""
MOST_CORRELATED = 0.95
"""A series may look like a walk by chance; none of a run is one."""
LEAST_INDEPENDENT = 3.0
"""Values that a series is worth: with 2, what is 12 standard errors off would be no difference."""
STEPS, CLEAR, LEAST_LEVEL = 2, 0.9, 3
"""Steps of a series, what part of its variance they are at least (of few values more), and values between them."""

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_SEEN = (_Z + NormalDist().inv_cdf(POWER)) / _Z  # times half an interval


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean, and where it lies with 95 % confidence."""

    mean: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """Whether 0 lies outside."""
        return not self.low <= 0 <= self.high

    @property
    def smallest(self) -> float:
        """Smallest difference that these data show with a power of 80 %."""
        return (self.high - self.low) / 2 * _SEEN


def of_series(values: Floats, seed: int = 0) -> Interval | None:
    """The mean of ``values`` (in order of time), by block bootstrap; None of fewer than LEAST."""
    count = len(values)
    if count < LEAST:
        return None
    noise = without_steps(values)
    length = block_length(noise)
    blocks = math.ceil(count / length)
    around = np.cumsum(np.concatenate([[0.0], noise, noise[: length - 1]]))
    of_blocks = (around[length:] - around[:-length]) / length  # means, of a block that begins at each place
    drawn = np.random.default_rng(seed).integers(0, count, (REPLICATES, blocks))
    mean = float(values.mean())
    # A replicate is of whole blocks; a mean is estimated from the same data; and few blocks are few values.
    wider = math.sqrt(blocks * length / count * count / (count - length)) * _student(count / length - 1) / _Z
    deviations = (of_blocks[drawn].mean(axis=1) - of_blocks.mean()) * wider
    low, high = np.quantile(deviations, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()
    half = (high - low) / 2
    times = max(1.0, _autoregressive_half(noise) / half) if half > 0 else 1.0
    return Interval(mean=mean, low=mean - high * times, high=mean - low * times)  # the basic interval: mirrored


def without_steps(values: Floats) -> Floats:
    """``values`` less their steps, if those are nearly all of how they vary; the mean is theirs."""
    noise, mean = noise_of(values), values.mean()
    parts = segments(values, noise) if noise > 0 else [(0, len(values))]
    if not 1 < len(parts) <= STEPS + 1 or min(end - begin for begin, end in parts) < LEAST_LEVEL:
        return values
    left = np.concatenate([values[begin:end] - values[begin:end].mean() for begin, end in parts])
    clear = max(CLEAR, 1 - len(values) / 200)
    return left + mean if np.square(left).sum() < (1 - clear) * np.square(values - mean).sum() else values


def _autoregressive_half(values: Floats) -> float:
    """Half the interval of the mean of ``values``, were each the one before times a constant, plus noise."""
    count = len(values)
    deviations = values - values.mean()
    variance = float(deviations @ deviations) / count
    if variance <= (1e-9 * float(np.abs(values).max())) ** 2:
        return 0.0
    seen = float(deviations[1:] @ deviations[:-1]) / count / variance
    correlation = min(MOST_CORRELATED, max(0.0, (count * seen + 1) / (count - 4)))  # seen is (1 + 4 times it) / n low
    independent = max(LEAST_INDEPENDENT, count * (1 - correlation) / (1 + correlation))
    unbiased = variance / (1 - 1 / independent)
    return math.sqrt(unbiased / independent) * _student(independent - 1)


def of_pairs(differences: Sequence[float]) -> Interval | None:
    """The mean of ``differences`` of independent pairs; None of fewer than two."""
    if len(differences) < 2:
        return None
    mean, error = float(np.mean(differences)), float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
    return _around(mean, error, len(differences) - 1)


def of_sides(before: Sequence[float], after: Sequence[float]) -> Interval | None:
    """The mean of ``after`` less that of ``before``, values of independent runs; None of fewer than two on a side."""
    if min(len(before), len(after)) < 2:
        return None
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (before, after)]
    squares = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (before, after), strict=True))
    freedom = sum(parts) ** 2 / squares if squares > 0 else 1.0
    return _around(float(np.mean(after) - np.mean(before)), math.sqrt(sum(parts)), freedom)


def block_length(values: Floats) -> int:
    """How many neighbours a block takes so that blocks, not values, are as good as independent; at least 1.

    Source: Politis and White 2004, section 3.2; for circular blocks, with the correction of 2009.
    """
    count = len(values)
    deviations = values - values.mean()
    variance = float(deviations @ deviations) / count
    if variance <= (1e-9 * float(np.abs(values).max())) ** 2:  # all alike, but for rounding
        return 1
    needed = max(5, math.ceil(math.sqrt(math.log10(count))))
    furthest = min(count - 1, math.ceil(math.sqrt(count)) + needed)
    lags = [float(deviations[lag:] @ deviations[: count - lag]) / count for lag in range(furthest + 1)]
    noise = 2 * math.sqrt(math.log10(count) / count) * variance
    window = 2 * max(1, _last_before_silence([abs(lag) > noise for lag in lags], needed))
    weighted = [_flat_top(lag / window) * value for lag, value in enumerate(lags) if lag <= window]
    slope = 2 * sum(lag * value for lag, value in enumerate(weighted))
    at_zero = weighted[0] + 2 * sum(weighted[1:])
    if at_zero <= 0:  # a window as short as this series has can be that wrong
        return 1
    best: float = (2 * slope**2 / (4 / 3 * at_zero**2)) ** (1 / 3) * count ** (1 / 3)
    return max(1, min(math.ceil(best), math.ceil(min(3 * math.sqrt(count), count / 3))))


def _last_before_silence(significant: Sequence[bool], needed: int) -> int:
    """The lag after which ``needed`` in a row are not significant; the last significant one if there is no such."""
    for lag in range(len(significant)):
        following = significant[lag + 1 : lag + 1 + needed]
        if len(following) == needed and not any(following):
            return lag
    return max(lag for lag, is_significant in enumerate(significant) if is_significant)


def _flat_top(share: float) -> float:
    return 1.0 if abs(share) <= 0.5 else max(0.0, 2 * (1 - abs(share)))


def _student(freedom: float) -> float:
    from scipy import special  # where it is needed: it takes long to import

    return float(special.stdtrit(max(1.0, freedom), (1 + CONFIDENCE) / 2))


def _around(mean: float, error: float, freedom: float) -> Interval:
    half = error * _student(freedom)
    return Interval(mean=mean, low=mean - half, high=mean + half)
