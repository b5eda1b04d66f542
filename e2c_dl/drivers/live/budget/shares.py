"""Shares of a budget whose account is at rank 0: what a rank asks for, and what it has been granted.

What the account says comes in by :meth:`AskedShare.hear`, in order; what is asked for goes out by ``say``.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from e2c_dl.scenario.model import Training
from e2c_dl.worlds.allotment import SharedCount, SharedTime, allotted
from e2c_dl.worlds.live.share import OwnShare, Share

MOST_AHEAD = 1000
"""Iterations that are asked for ahead of need: of a millisecond each, more than any way there and back."""


class AskedShare(ABC):
    """A share that is asked for. ``waits`` counts the iterations that had to wait for their grant."""

    iterations: int | None = None

    def __init__(self, say: Callable[[dict[str, Any]], None]) -> None:
        self.waits = 0
        self._say = say
        self._over = False
        self._heard = asyncio.Event()

    @abstractmethod
    async def begins(self, iteration: int) -> bool:
        """Whether this rank begins ``iteration`` (from 0) now; asked once for each."""

    @abstractmethod
    def used(self, iteration: int, at_s: float) -> float:
        """Part of the budget that is used, 0..1, as far as this rank knows."""

    def hear(self, said: dict[str, Any]) -> None:
        """Act on what the account says."""
        self._over = said.get("over", self._over)
        self._heard.set()

    async def _hears(self) -> None:
        """Wait until something more was said."""
        self._heard.clear()
        await self._heard.wait()


class GrantedShare(AskedShare):
    """Iterations by number: so many are held that have not begun."""

    def __init__(self, say: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(say)
        self._held = 1  # the first needs no asking
        self._asked = 0
        self._ahead = 1
        self._recalled = False
        self._waiting = False
        self._used = 0.0

    async def begins(self, iteration: int) -> bool:
        if not self._held and not self._over:
            await self._granted()
        if not self._held:
            return False
        self._held -= 1
        self._ask_ahead()
        return True

    def hear(self, said: dict[str, Any]) -> None:
        self._used = float(said.get("used", self._used))
        granted = int(said.get("grant", 0))
        self._held, self._asked = self._held + granted, self._asked - granted
        if said.get("recall"):
            self._recalled = True
            self._say({"back": self._held, "waits": self._waiting})
            self._held = 0
        super().hear(said)

    def used(self, iteration: int, at_s: float) -> float:
        return self._used

    async def _granted(self) -> None:
        self.waits += 1
        self._ahead = min(self._ahead + 1, MOST_AHEAD)
        if self._recalled:
            self._say({"ask": 1})
        else:
            self._ask_ahead()
        self._waiting = True
        while not self._held and not self._over:
            await self._hears()
        self._waiting = False

    def _ask_ahead(self) -> None:
        wanted = self._ahead - self._held - self._asked
        if wanted > 0 and not self._recalled:
            self._asked += wanted
            self._say({"ask": wanted})


class LimitedShare(AskedShare):
    """Iterations up to a limit, which is the same for all ranks, and raised as long as there is time."""

    def __init__(self, say: Callable[[dict[str, Any]], None], allotment: SharedTime) -> None:
        super().__init__(say)
        self._limit = 1
        self._allotment = allotment

    async def begins(self, iteration: int) -> bool:
        waited = iteration > self._limit and not self._over
        self.waits += waited
        while iteration > self._limit and not self._over:
            await self._hears()
        if iteration > self._limit:
            return False
        self._say({"begun": iteration, "waited": waited})
        return True

    def used(self, iteration: int, at_s: float) -> float:
        return self._allotment.used(iteration, at_s)

    def hear(self, said: dict[str, Any]) -> None:
        self._limit = int(said["limit"])
        super().hear(said)


def share_of(training: Training, rank: int, clock: Callable[[], int], say: Callable[[dict[str, Any]], None]) -> Share:
    """The share of ``rank`` in the budget of ``training``; an AskedShare asks by ``say``. ``clock`` is in ns."""
    own = allotted(training)
    if isinstance(own, SharedCount):
        return GrantedShare(say)
    return LimitedShare(say, own) if isinstance(own, SharedTime) else OwnShare(own, rank, clock)
