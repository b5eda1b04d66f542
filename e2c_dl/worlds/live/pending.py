"""What a verb of the live world returns: a future whose awaiting leaves a span."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from e2c_dl.strategies.base import Pending

S = TypeVar("S")
R = TypeVar("R")


class Traced(Pending[R], Generic[S, R]):
    """``future``, seen through ``finish``: called as finish(result, posted_ns) once an await of it has ended.

    A failure that nobody awaits is not reported by asyncio: the loss of a peer fails many futures at once, and whoever
    ends the run names it.
    """

    def __init__(self, future: asyncio.Future[S], clock: Callable[[], int], finish: Callable[[S, int], R]) -> None:
        self._future = future
        self._clock = clock
        self._finish = finish
        future.add_done_callback(seen)

    @property
    def done(self) -> bool:
        return self._future.done()

    def __await__(self) -> Generator[Any, None, R]:
        posted_ns = self._clock()
        result = yield from self._future.__await__()
        return self._finish(result, posted_ns)


def seen(future: asyncio.Future[Any]) -> None:
    """Mark what ``future`` failed with as known, so that asyncio does not report it when the future goes."""
    if not future.cancelled():
        future.exception()
