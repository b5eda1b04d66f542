"""Samples divided by speed: LBS_i = GBS * RCP_i / sum_j RCP_j, in whole samples.

Source: Hong and Chandra, "DLion: Decentralized Distributed Deep Learning in Micro-Clouds", HPDC 2021, weighted dynamic
batching. RCP_i: relative compute power, samples per unit of time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from e2c_dl.errors import TrainingError


def divided(total: int, speeds: Sequence[float]) -> list[int]:
    """``total`` samples, one share per speed: proportional, rounded by largest remainder, none below 1.

    One sample each is set aside; the rest goes where the proportional share exceeds it: a share that is less than one
    sample is rounded up, at the expense of the others. Of equal remainders the first is rounded up.

    Raises: TrainingError, if there are less samples than shares, or a speed is not a positive number.
    """
    if total < len(speeds) or not all(math.isfinite(speed) and speed > 0 for speed in speeds):
        raise TrainingError(
            f"{total} samples cannot be divided among ranks of speeds {list(speeds)}; "
            "give every rank a batch of at least one sample"
        )
    quotas = _at_least_one(total, speeds)
    shares = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda index: shares[index] - quotas[index])
    for index in by_remainder[: total - sum(shares)]:
        shares[index] += 1
    return shares


def _at_least_one(total: int, speeds: Sequence[float]) -> list[float]:
    """Proportional shares of ``total``, where those that would be below 1 are 1 and the others share what is left."""
    small: list[int] = []
    while True:
        rest = math.fsum(speed for index, speed in enumerate(speeds) if index not in small)
        quotas = [1.0 if index in small else (total - len(small)) * speed / rest for index, speed in enumerate(speeds)]
        below = [index for index, quota in enumerate(quotas) if quota < 1 and index not in small]
        if not below:
            return quotas
        small += below
