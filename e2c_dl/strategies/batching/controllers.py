"""The controllers: when speeds are exchanged, and when what follows from them is applied.

Dynamic, every 2 iterations; speeds are exchanged beside one iteration and applied with the next, on all ranks alike::

    iteration    0      1      2      3      4      5      6
    exchange                 |=====>|      |=====>|      |=====>
    batches      as given           |1st          |2nd          |3rd

A speed is samples per second of computing, from the median of the last 3 iterations' seconds per sample: one outlier,
such as the first iteration, counts for nothing, and a change is believed when it has been seen twice. So from the
fourth iteration after a change at the latest, batches fit it.

Source: Hong and Chandra, HPDC 2021 (see division.py). Differences from the paper: the total stays as it is; a speed is
measured at the batch in use rather than fitted over several sizes, so a fixed cost per iteration is learnt in several
rounds (each removes the part of the error that is not fixed cost).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from statistics import median

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Pending, Worker
from e2c_dl.strategies.batching.division import divided
from e2c_dl.strategies.batching.wrapped import Wrapped
from e2c_dl.strategies.collectives import Tag, gather

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

    async def iterations(self) -> AsyncIterator[int]:
        speeds: Pending[list[float]] | None = None
        async for iteration in self._worker.iterations():
            if iteration > 0:
                self._seconds_per_sample.append(self.compute_s / self.samples)
            if speeds is not None:
                shares = divided(self.total_samples, await speeds)
                self.resize(shares[self.rank], self.total_samples)
                speeds = None
            if self._exchanges_in(iteration):
                tag = Tag(kind="speed", iteration=iteration)
                speeds = self.spawn(gather(self._worker, self._speed(), tag, range(self.size)))
            yield iteration
        if speeds is not None:  # others wait for what this rank hands on
            await speeds

    def _speed(self) -> float:
        """Samples per second of computing, lately. Raises: TrainingError, if computing takes no time."""
        seconds = median(self._seconds_per_sample)
        if seconds <= 0:
            raise TrainingError(f"rank {self.rank}: computing takes no time, so it has no speed; set batching to fixed")
        return 1 / seconds

    def _exchanges_in(self, iteration: int) -> bool:
        since = iteration - self._first
        return since == 0 if self._period is None else since >= 0 and since % self._period == 0
