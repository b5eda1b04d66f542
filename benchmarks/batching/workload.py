"""Six ranks of speeds 4:4:2:2:1:1, turned round half way; what they do, and what came of it.

With equal batches an iteration takes as long as the slowest rank's, (G/6)/1; fitted to the speeds, G/14: 14/6 = 2.33
times less, for G samples in all. That is the bound.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from e2c_dl.strategies.base import Evaluation, OnSegment, Vector
from e2c_dl.trace.model import Phase

SPEEDS = (4.0, 4.0, 2.0, 2.0, 1.0, 1.0)
BOUND = sum(SPEEDS) / len(SPEEDS) / min(SPEEDS)
BATCH = 140
SAMPLE_S = 2e-3  # of a rank of speed 1
PARAMETERS = 4096
WITHIN = 1.05  # batches fit if they take at most so many times the best
LAST = 10  # iterations that a settled time is the median of


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run: per iteration, its time and every rank's batch; speeds are turned round with iteration ``changed``."""

    world: str
    controller: str
    repeat: int
    changed: int
    iteration_s: tuple[float, ...]
    batches: tuple[tuple[int, ...], ...]  # by iteration, then rank

    @property
    def before_s(self) -> float:
        """The time of an iteration, settled, before the change."""
        return median(self.iteration_s[self.changed - LAST : self.changed])

    @property
    def after_s(self) -> float:
        return median(self.iteration_s[-LAST:])

    @property
    def converged_after(self) -> int | None:
        """Iterations after the change until batches fit the new speeds, and stay so; None: never."""
        misfits = [index for index, batches in enumerate(self.batches) if not _fits(batches, SPEEDS[::-1])]
        last = max(misfits, default=-1)
        return None if last == len(self.batches) - 1 else max(0, last + 1 - self.changed)


class Sleeping:
    """A Compute that takes its time by sleeping, if it takes any, and remembers its batches."""

    def __init__(self, speeds: tuple[float, float] | None = None, changed: int = 0) -> None:
        self.parameters: Vector = np.zeros(PARAMETERS, dtype=np.float32)
        self.gradients: Vector = np.zeros(PARAMETERS, dtype=np.float32)
        self.buckets: Sequence[slice] = [slice(0, PARAMETERS)]
        self.tensor_shapes = ()
        self.batches: list[int] = []
        self._speeds, self._changed = speeds, changed

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        self.batches.append(samples)
        begin_ns = time.monotonic_ns()
        if self._speeds is not None:
            time.sleep(samples * SAMPLE_S / self._speeds[iteration >= self._changed])
        on_segment(Phase.BACKWARD, 0, begin_ns, time.monotonic_ns())
        return 0.0

    def step(self) -> None:
        """Nothing is learnt."""

    def evaluate(self) -> Evaluation:
        return Evaluation(loss=0.0, accuracy=0.0)


def by_iteration(computes: Sequence[Sleeping]) -> tuple[tuple[int, ...], ...]:
    """The batches of all ranks, iteration by iteration."""
    return tuple(zip(*(compute.batches for compute in computes), strict=True))


def _fits(batches: Sequence[int], speeds: Sequence[float]) -> bool:
    slowest = max(batch / speed for batch, speed in zip(batches, speeds, strict=True))
    return slowest <= WITHIN * sum(batches) / sum(speeds)
