"""Shares of a budget, one rank's each: whether it begins another iteration, which it may have to ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from e2c_dl.worlds.allotment import Allotment


class Share(Protocol):
    """One rank's share of a budget."""

    @property
    def iterations(self) -> int | None:
        """Of this rank in all, if that is known beforehand."""
        ...

    def used(self, iteration: int, at_s: float) -> float:
        """Part of the budget that is used, 0..1, as far as this rank knows, which has ended so many by then."""
        ...

    async def begins(self, iteration: int) -> bool:
        """Whether this rank begins ``iteration`` (from 0) now; asked once for each."""
        ...


class OwnShare:
    """A share that ``rank`` can tell by itself: ``allotment`` looks at its iterations, and at ``clock`` (ns), alone."""

    def __init__(self, allotment: Allotment, rank: int, clock: Callable[[], int]) -> None:
        self.iterations = allotment.iterations
        self._allotment, self._rank, self._clock = allotment, rank, clock
        self._begun_ns = 0

    async def begins(self, iteration: int) -> bool:
        if iteration == 0:
            self._begun_ns = self._clock()
        return self._allotment.begins(self._rank, iteration, (self._clock() - self._begun_ns) / 1e9)

    def used(self, iteration: int, at_s: float) -> float:
        return self._allotment.used(iteration, at_s)
