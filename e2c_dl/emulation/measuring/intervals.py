"""Intervals around what was measured, without assuming how it is spread.

::

    median of n values     between the order statistics that a binomial(n, 1/2) count stays between
    fraction k of n        Wilson's score interval: sensible for k = 0 and k = n too

Pure functions on a few thousand values at most.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

Interval = tuple[float, float]
"""(lower, upper) end."""

CONFIDENCE = 0.95
"""Of the intervals that are shown."""

VERDICT_CONFIDENCE = 0.9999
"""Of the interval that a requested loss must lie in: a matrix of hundreds of links must not accuse one by chance."""


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Where the median lies of what ``values`` are independent samples of; from least to greatest if they are few.

    Source: order-statistics interval; Hahn and Meeker, Statistical Intervals, 5.2.
    """
    ordered = sorted(values)
    n = len(ordered)
    outside, below, rank = (1 - confidence) / 2, 0.0, 0
    while rank < n // 2:
        below += math.comb(n, rank) / 2**n
        if below > outside:
            break
        rank += 1
    lowest = max(0, rank - 1)
    return ordered[lowest], ordered[n - 1 - lowest]


def fraction_interval(hits: float, samples: float, confidence: float = CONFIDENCE) -> Interval:
    """Where a probability lies that gave ``hits`` in ``samples``; samples that depend on each other count as fewer.

    Source: Wilson, JASA 22 (1927), 209-212.
    """
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = hits / samples, z * z / samples
    centre = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / samples + weight / (4 * samples))
    return max(0.0, centre - half), min(1.0, centre + half)
