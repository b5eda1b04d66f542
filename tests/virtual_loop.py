"""An asyncio event loop whose time passes as fast as it can: what sleeps, and what is called later, waits for nobody.

For tests of code that runs over asyncio, with delays that are exact and take no time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in which time moves on only when nothing is ready, at once to what is due next."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.now_s


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("deadlock: everything waits, and nothing is due")
        self._loop.now_s += max(0.0, timeout)
        return super().select(0)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of ``coroutine``, in a loop of its own."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()
