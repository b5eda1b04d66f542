"""How much noise a series has, by itself and by others that are comparable: few windows tell little of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEAST_NOISE = 0.005  # a model without noise must not make the smallest rounding significant
POOLED_AS, MOST_POOLED = 20, 200  # windows: as much as the noise of comparable series counts beside a series' own
LEAST_POOLED = 6  # series: fewer do not tell how much their noises differ
NOISE_OF_NOISE = 1.7  # variance of the logarithm of a series' noise, times its windows, if it is normal; by drawing


def pooled(noise: float, count: int, usual: float, as_many: float) -> float:
    """``noise``, of ``count`` windows, with the ``usual`` one of comparable series, counted ``as_many`` windows."""
    return max(LEAST_NOISE, float(np.sqrt((noise**2 * count + usual**2 * as_many) / (count + as_many))))


def pooled_as(noises: Sequence[float], counts: Sequence[int]) -> float:
    """POOLED_AS, or more, where the noises of many series differ by hardly more than so few windows let them."""
    known = np.array([(noise, count) for noise, count in zip(noises, counts, strict=True) if noise > LEAST_NOISE])
    if len(known) < LEAST_POOLED:
        return POOLED_AS
    by_chance = NOISE_OF_NOISE * float((1 / known[:, 1]).mean())
    beyond = max(0.0, float(np.log(known[:, 0]).var(ddof=1)) - by_chance)
    return float(np.clip(NOISE_OF_NOISE / max(beyond, NOISE_OF_NOISE / MOST_POOLED), POOLED_AS, MOST_POOLED))
