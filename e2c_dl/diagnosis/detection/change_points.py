"""Change points: where the level of a series changes, from its values alone.

::

    value |        . .  .. .           segments of one level each; cost of one: squares about its mean,
          |      .  .    .             in units of the noise; each more costs PENALTY * log n, so that noise
          |.. . .          .. .  .     alone makes none
          '------|---------|------> window

Source: Killick, Fearnhead, Eckley, "Optimal detection of changepoints with a linear computational cost", JASA 2012
(PELT), Eq. (7); noise: the median of absolute differences of neighbours, which a few changes do not touch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Segments = list[tuple[int, int]]
"""(first, beyond the last) of each."""

PENALTY = 3.0  # two parameters more, level and place, and a margin
MOST_WINDOWS = 4096  # longer series are pooled: time grows by the square of a stretch without changes
MAD_OF_NORMAL = 0.6745
EXCITED = 4.0  # standard errors of a mean of 1, 2, 4, ... windows from the median, or of all before from all after


def noise_of(values: Doubles) -> float:
    """Standard deviation of one of ``values`` about its level, whose changes do not count; 0.0 of fewer than two."""
    if len(values) < 2:
        return 0.0
    steps = np.abs(np.diff(values))
    return float(np.median(steps) / MAD_OF_NORMAL / np.sqrt(2.0))


def segments(values: Doubles, noise: float) -> Segments:
    """The segments of ``values``, whose noise is ``noise`` (above 0); one, if nothing excites."""
    count = len(values)
    if count < 2 or not _excites(values, noise):
        return [(0, count)]
    pooled = -(-count // MOST_WINDOWS)
    if pooled == 1:
        return _optimal(values / noise)
    edges = np.arange(0, count, pooled)
    sizes = np.diff(np.append(edges, count))
    found = _optimal(np.add.reduceat(values, edges) / sizes / noise * np.sqrt(pooled))
    return [(start * pooled, min(stop * pooled, count)) for start, stop in found]


def _excites(values: Doubles, noise: float) -> bool:
    """Whether a mean of 1, 2, 4, ... neighbours is too far from the median to be noise, or all before one from others.

    Where it changes once, the median is moved by what it should show.
    """
    sums = np.concatenate([[0.0], np.cumsum(values - np.median(values))])
    length = 1
    while length <= len(values):
        if np.abs(sums[length:] - sums[:-length]).max() > EXCITED * noise * np.sqrt(length):
            return True
        length *= 2
    before = np.arange(1, len(values))
    after = len(values) - before
    apart = np.abs(sums[1:-1] / before - (sums[-1] - sums[1:-1]) / after)
    return bool((apart > EXCITED * noise * np.sqrt(1 / before + 1 / after)).any())


def _optimal(values: Doubles) -> Segments:
    """The segments of least cost of ``values``, in units of their noise."""
    count = len(values)
    penalty = PENALTY * np.log(count)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    squares = np.concatenate([[0.0], np.cumsum(values**2)])
    least = np.full(count + 1, -penalty)
    previous = np.zeros(count + 1, dtype=np.int64)
    starts = np.zeros(1, dtype=np.int64)
    for stop in range(1, count + 1):
        costs = squares[stop] - squares[starts] - (sums[stop] - sums[starts]) ** 2 / (stop - starts)
        costs = least[starts] + np.maximum(0.0, costs)
        best = int(np.argmin(costs))
        least[stop], previous[stop] = costs[best] + penalty, starts[best]
        starts = np.append(starts[costs <= least[stop]], stop)  # one that is dearer now, stays so
    found: Segments = []
    stop = count
    while stop > 0:
        found.append((int(previous[stop]), stop))
        stop = int(previous[stop])
    return found[::-1]
