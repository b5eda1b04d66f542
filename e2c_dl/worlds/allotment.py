"""Allotments of a budget: whether a rank may begin another iteration. Both worlds stop by them.

::

    Equal         each rank the same number                              in step, or each its own
    SharedTime    until a time; then up to the last that any has begun   in step
    SharedCount   from one account, which each iteration draws on        at each rank's own pace
    OwnTime       whatever is begun before a time                        at each rank's own pace

Ranks in step depend on each other's messages: whichever stops first, the others would wait for it for ever. So there
all stop after the same iteration. Ranks at their own pace have at least one iteration each.

Pure: the virtual world asks these; in the live one the ranks are apart, and rank 0 keeps a shared account for all
(:mod:`e2c_dl.drivers.live.budget`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from e2c_dl import strategies
from e2c_dl.scenario.budget import Unit
from e2c_dl.scenario.model import Training
from e2c_dl.strategies import batching


class Allotment(Protocol):
    """Of one run, for all of its ranks; asked once per iteration and rank, in order of time."""

    @property
    def iterations(self) -> int | None:
        """Of every rank, if that is known beforehand."""
        ...

    def begins(self, rank: int, iteration: int, at_s: float) -> bool:
        """Whether ``rank`` begins ``iteration`` (from 0) now, ``at_s`` seconds after training began."""
        ...

    def used(self, iteration: int, at_s: float) -> float:
        """Part of the budget that is used, 0..1, for a rank that has ended so many iterations by then."""
        ...


class Equal:
    """``iterations`` each."""

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations

    def begins(self, rank: int, iteration: int, at_s: float) -> bool:
        return iteration < self.iterations

    def used(self, iteration: int, at_s: float) -> float:
        return iteration / self.iterations


class OwnTime:
    """Each rank's clock decides."""

    iterations = None

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def begins(self, rank: int, iteration: int, at_s: float) -> bool:
        return at_s < self._seconds

    def used(self, iteration: int, at_s: float) -> float:
        return min(1.0, at_s / self._seconds)


class SharedTime(OwnTime):
    """All stop after the last iteration that any of them had begun in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self._last = 0

    def begins(self, rank: int, iteration: int, at_s: float) -> bool:
        if super().begins(rank, iteration, at_s):
            self._last = max(self._last, iteration)
        return iteration <= self._last


class SharedCount:
    """An account of ``amount``, on which an iteration of rank r draws ``costs[r]``; the last may overdraw it."""

    iterations = None

    def __init__(self, amount: float, costs: Sequence[int]) -> None:
        self._amount, self._costs = amount, costs
        self._left = amount - sum(costs)  # the first iteration of each is set aside

    def begins(self, rank: int, iteration: int, at_s: float) -> bool:
        if iteration == 0:
            return True
        if self._left <= 0:
            return False
        self._left -= self._costs[rank]
        return True

    def used(self, iteration: int, at_s: float) -> float:
        return min(1.0, 1 - self._left / self._amount)


def own_pace(training: Training) -> bool:
    """Whether ranks go at their own pace in ``training``, and may have unlike numbers of iterations."""
    return batching.own_pace(strategies.load(training.strategy)(**training.strategy_settings), training.batching)


def allotted(training: Training) -> Allotment:
    """How the ranks of ``training`` draw on its budget."""
    budget, own = training.ends, own_pace(training)
    if budget.unit is Unit.SECONDS:
        return OwnTime(budget.amount) if own else SharedTime(budget.amount)
    if own and budget.unit is not Unit.ITERATIONS:
        return SharedCount(budget.amount, budget.costs(training.batch_sizes))
    return Equal(training.iterations)
