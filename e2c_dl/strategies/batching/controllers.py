"""Controllers of batches: when speeds are exchanged, how samples are divided by them, and when that is applied.

Dynamic, every 2 iterations; speeds are exchanged beside one iteration and applied with the next, on all ranks alike::

    iteration    0      1      2      3      4      5      6
    exchange                 |=====>|      |=====>|      |=====>
    batches      as given           |1st          |2nd          |3rd

A speed is samples per second of computing, from the median of the last 3 iterations' seconds per sample: one outlier,
such as the first iteration, counts for nothing, and a change is believed when it has been seen twice. So from the
fourth iteration after a change at the latest, batches fit it.

Samples are divided by speed: LBS_i = GBS * RCP_i / sum_j RCP_j, in whole samples, where RCP_i (relative compute power)
is samples per unit of time.

Source: Hong and Chandra, "DLion: Decentralized Distributed Deep Learning in Micro-Clouds", HPDC 2021, weighted dynamic
batching. Differences from the paper: the total stays as it is; a speed is measured at the batch in use rather than
fitted over several sizes, so a fixed cost per iteration is learnt in several rounds (each removes the part of the error
that is not fixed cost).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from statistics import median

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Bucket, Pending, Worker
from e2c_dl.strategies.collectives import Tag, gather
from e2c_dl.strategies.seam.wrapped import Wrapped

WINDOW = 3  # iterations that a speed is the median of
PERIOD = 2  # iterations from one exchange to the next; dynamic


def fixed(worker: Worker) -> Worker:
    """Batches as the scenario says."""
    return worker


def proportional(worker: Worker) -> Worker:
    """Batches by the speeds of the first :data:`WINDOW` iterations, from then on fixed."""
    return Controlled(worker, first=WINDOW, period=None)


def dynamic(worker: Worker) -> Worker:
    """Batches by the speeds of the last :data:`WINDOW` iterations, again every :data:`PERIOD`."""
    return Controlled(worker, first=PERIOD, period=PERIOD)


class Controlled(Wrapped):
    """``worker``, with batches divided by speed: first exchanged in iteration ``first``, then every ``period``.

    All ranks run the same number of iterations and exchange in the same ones. A rank that needs a division waits until
    the slowest has told its speed of the iteration before: so ranks are at most ``period`` iterations apart, also under
    a strategy that would let them drift further.
    """

    def __init__(self, worker: Worker, *, first: int, period: int | None) -> None:
        super().__init__(worker)
        self._first, self._period = first, period
        self._seconds_per_sample: deque[float] = deque(maxlen=WINDOW)
        self._computed = 0  # samples of the gradient since the last iteration began; 0: there was none

    async def iterations(self) -> AsyncIterator[int]:
        speeds: Pending[list[float]] | None = None
        async for iteration in self._worker.iterations():
            if self._computed:  # an iteration that the strategy leaves out tells nothing
                self._seconds_per_sample.append(self.compute_s / self._computed)  # per sample: batches differ
                self._computed = 0
            if speeds is not None:
                shares = divided(self.total_samples, await speeds)  # awaited by all in the same iteration: one total
                self.resize(shares[self.rank], self.total_samples)
                speeds = None
            if self._exchanges_in(iteration):
                tag = Tag(kind="speed", iteration=iteration)
                speeds = self.spawn(gather(self._worker, self._speed(), tag, range(self.size)))
            yield iteration
        if speeds is not None:  # others wait for what this rank hands on
            await speeds

    def gradient(self) -> AsyncIterator[Bucket]:
        self._computed = self.samples
        return super().gradient()

    def _speed(self) -> float:
        """Samples per second of computing, lately. Raises: TrainingError, if computing takes no time."""
        seconds = median(self._seconds_per_sample) if self._seconds_per_sample else 0.0
        if seconds <= 0:
            raise TrainingError(f"rank {self.rank}: computing takes no time, so it has no speed; set batching to fixed")
        return 1 / seconds

    def _exchanges_in(self, iteration: int) -> bool:
        since = iteration - self._first
        return since == 0 if self._period is None else since >= 0 and since % self._period == 0


def divided(total: int, speeds: Sequence[float]) -> list[int]:
    """``total`` samples, one share per speed: proportional, rounded by largest remainder, none below 1.

    One sample each is set aside; the rest goes where the proportional share exceeds it: a share that is less than one
    sample is rounded up, at the expense of the others. Of equal remainders the first is rounded up.

    Raises: TrainingError, if there are less samples than shares, or a speed is not a positive number.
    """
    if total < len(speeds) or not all(math.isfinite(speed) and speed > 0 for speed in speeds):
        problem = f"{total} samples cannot be divided among ranks of speeds {list(speeds)}"
        raise TrainingError(f"{problem}; give every rank a batch of at least one sample")
    quotas = _at_least_one(total, speeds)
    shares = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda index: shares[index] - quotas[index])  # of equals the first
    for index in by_remainder[: total - sum(shares)]:
        shares[index] += 1
    return shares


def _at_least_one(total: int, speeds: Sequence[float]) -> list[float]:
    """Proportional shares of ``total``, where those that would be below 1 are 1 and the others share what is left."""
    small: list[int] = []
    while True:  # raising one leaves less for the others, which may fall below 1 in turn
        rest = math.fsum(speed for index, speed in enumerate(speeds) if index not in small)
        quotas = [1.0 if index in small else (total - len(small)) * speed / rest for index, speed in enumerate(speeds)]
        below = [index for index, quota in enumerate(quotas) if quota < 1 and index not in small]
        if not below:
            return quotas
        small += below
