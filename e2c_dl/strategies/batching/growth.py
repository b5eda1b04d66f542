"""Growth of the global batch: by equal steps while it is small, by equal factors from then on, up to a bound.

Of 6,000 training samples, by 32 and then by 2, with bounds of 1 % and 10 %::

    growth        0     1     2     3     4     5     6
    samples      16    48    60   120   240   480   600   600 ...
                  by steps |<-  by factors  ->| bound

Source: Hong and Chandra, "DLion: Decentralized Distributed Deep Learning in Micro-Clouds", HPDC 2021. Which steps,
factors and bounds the paper has is not verified against its text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Worker
from e2c_dl.strategies.batching.controllers import divided
from e2c_dl.strategies.collectives import Tag, gather


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How the samples of an iteration, of all ranks together, become more.

    Raises: InputError, without the strategy's name, for values out of range.
    """

    period: int = 0  # iterations from one growth to the next; 0: never
    training_samples: int = 0  # what the two shares are of
    step: int = 32  # samples more, below ``slow_until``
    factor: float = 2.0  # times as many, from there
    slow_until: float = 0.01  # share of the training samples
    until: float = 0.1  # share of the training samples

    def __post_init__(self) -> None:
        if self.period < 0:
            raise InputError(f"growth_period is {self.period}; write 0 (never) or more")
        if self.period and self.training_samples < 1:
            raise InputError(
                f"growth_samples is {self.training_samples}; write how many samples all ranks have to train on"
            )
        if self.step < 1:
            raise InputError(f"growth_step is {self.step}; write 1 or more")
        if not (self.factor > 1 and math.isfinite(self.factor)):
            raise InputError(f"growth_factor is {self.factor}; write a number above 1")
        if not 0 <= self.slow_until <= self.until <= 1:
            bounds = f"growth_slow_until is {self.slow_until}, growth_until {self.until}"
            raise InputError(f"{bounds}; write shares from 0 to 1, the second no smaller")

    def due(self, iteration: int) -> bool:
        """Whether batches grow before ``iteration`` (from 0)."""
        return self.period > 0 and iteration > 0 and iteration % self.period == 0

    def after(self, total: int) -> int:
        """Samples of all ranks after ``total``: never fewer."""
        slow, most = int(self.slow_until * self.training_samples), int(self.until * self.training_samples)
        if total < slow:
            return min(total + self.step, slow)
        return max(total, min(math.ceil(total * self.factor), most))


async def grow(worker: Worker, growth: Growth, iteration: int) -> None:
    """Batches of ``iteration`` are those of the one before, grown: all ranks call it in the same ones.

    Shares stay in proportion, in whole samples, and sum to the new total.
    """
    total = growth.after(worker.total_samples)
    if total == worker.total_samples:  # as it is on all ranks
        return
    shares: Sequence[float] = await gather(
        worker, float(worker.samples), Tag(kind="share", iteration=iteration), range(worker.size)
    )
    worker.resize(divided(total, shares)[worker.rank], total)
