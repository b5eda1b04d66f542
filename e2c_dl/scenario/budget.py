"""Budget of a training: what ends it, for all ranks together or for each.

::

    iterations: 100    each rank's                                   asynchronous ranks may take shares as they can:
    updates: 600       gradients applied, all ranks together           rank 0  |--|--|--|--|--|--|     fast
    samples: 20000     trained on, all ranks together                  rank 1  |--------|--------|     slow
    seconds: 90        of training

Where ranks go in step (:func:`e2c_dl.strategies.batching.own_pace` says which do), all stop after the same iteration,
whatever the budget: the first with which it is reached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from e2c_dl import formatting


class Unit(Enum):
    """What a budget counts."""

    ITERATIONS = "iterations"
    UPDATES = "updates"
    SAMPLES = "samples"
    SECONDS = "seconds"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """``amount`` of ``unit``: a whole number, but for seconds."""

    unit: Unit
    amount: float

    def costs(self, batch_sizes: Sequence[int]) -> tuple[int, ...]:
        """What one iteration of each rank takes from a shared budget, by rank; nothing of time, or of its own."""
        by_unit = {Unit.UPDATES: (1,) * len(batch_sizes), Unit.SAMPLES: tuple(batch_sizes)}
        return by_unit.get(self.unit, (0,) * len(batch_sizes))

    def in_step(self, batch_sizes: Sequence[int]) -> int | None:
        """Iterations of each rank, if all have the same number; None: time decides."""
        if self.unit is Unit.SECONDS:
            return None
        return math.ceil(self.amount / (sum(self.costs(batch_sizes)) or 1))

    def most(self, batch_sizes: Sequence[int]) -> int | None:
        """Iterations that one rank may come to, if the others do one each; None: time decides."""
        costs = self.costs(batch_sizes)
        if self.unit is Unit.SECONDS or not sum(costs):
            return self.in_step(batch_sizes)
        return max(1 + math.ceil((self.amount - sum(costs)) / cost) for cost in costs)

    def described(self) -> str:
        """In a few words: ``600 updates of all ranks together``."""
        if self.unit is Unit.SECONDS:
            return formatting.seconds(self.amount)
        counted = formatting.count(int(self.amount), self.unit.value.removesuffix("s"))
        return counted if self.unit is Unit.ITERATIONS else f"{counted} of all ranks together"
