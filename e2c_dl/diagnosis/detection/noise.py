"""How much noise a series has, by itself and by others that are comparable: few windows tell little of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEAST_NOISE = 0.005  # a model without noise must not make the smallest rounding significant
POOLED_AS, MOST_POOLED = 20, 200  # windows: as much as the noise of comparable series counts beside a series' own
LEAST_POOLED = 6  # series: fewer do not tell how much their noises differ
BY_CHANCE = 2.0  # times the variance that is usual by chance: of 10 series alike one in thirty is further apart
UPPER = 0.75  # quantile
NOISE_OF_NOISE = 1.7  # variance of the logarithm of a series' noise, times its windows, if it is normal; by drawing


def pooled(noise: float, count: int, usual: float, as_many: float) -> float:
    """``noise``, of ``count`` windows, with the ``usual`` one of comparable series, counted ``as_many`` windows."""
    return max(LEAST_NOISE, float(np.sqrt((noise**2 * count + usual**2 * as_many) / (count + as_many))))


def pooled_as(noises: Sequence[float], counts: Sequence[int]) -> float:
    """POOLED_AS, or more, where the noises of many series differ by hardly more than so few windows let them."""
    apart = _apart(noises, counts)
    if apart is None:
        return POOLED_AS
    beyond = max(0.0, apart.found - apart.by_chance)
    return float(np.clip(NOISE_OF_NOISE / max(beyond, NOISE_OF_NOISE / MOST_POOLED), POOLED_AS, MOST_POOLED))


def in_common(noises: Sequence[float], counts: Sequence[int]) -> float | None:
    """Noise that none of many series has clearly more of, if all may have the same but for chance; None: they differ.

    Not the usual one: too low a noise makes a recurrence of what is none.
    """
    apart = _apart(noises, counts)
    if apart is None or apart.found > BY_CHANCE * apart.by_chance:
        return None
    return float(np.quantile(noises, UPPER))


class _Apart(NamedTuple):
    """How far noises of several series are apart: variance of their logarithms, and what so few windows make of it."""

    found: float
    by_chance: float


def _apart(noises: Sequence[float], counts: Sequence[int]) -> _Apart | None:
    """None: they are too few to tell."""
    known = np.array([(noise, count) for noise, count in zip(noises, counts, strict=True) if noise > LEAST_NOISE])
    if len(known) < LEAST_POOLED:
        return None
    return _Apart(float(np.log(known[:, 0]).var(ddof=1)), NOISE_OF_NOISE * float((1 / known[:, 1]).mean()))
