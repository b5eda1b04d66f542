"""Tasks of one rank's strategy, numbered and ended together, and what its verbs return: futures that leave spans."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from e2c_dl.errors import PeerLost
from e2c_dl.strategies.base import Pending

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")

_TASK: ContextVar[int] = ContextVar("task", default=0)


class StrategyTasks:
    """The main task, 0, and those it spawned, numbered from 1. Made and used in one running event loop."""

    def __init__(self) -> None:
        self.serving = False  # whether a background task was ever spawned
        self._spawned: dict[int, asyncio.Task[Any]] = {}
        self._last = 0
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._failed.add_done_callback(seen)

    @property
    def current(self) -> int:
        """The number of the task that asks."""
        return _TASK.get()

    async def run(self, main: Coroutine[Any, Any, None], failed: asyncio.Future[None]) -> None:
        """Run ``main`` to its end, or until a spawned task fails, or ``failed`` does; then nothing of them runs on.

        Raises: what failed first.
        """
        task = asyncio.get_running_loop().create_task(main)
        task.add_done_callback(seen)  # what it raised is raised below, or something that came before
        try:
            await asyncio.wait({task, self._failed, failed}, return_when=asyncio.FIRST_COMPLETED)
            for ended in (failed, self._failed, task):  # the network first: tasks fail in consequence of it
                if ended.done():
                    await ended
        finally:
            unfinished = {each for each in (task, *self._spawned.values()) if not each.done()}
            for each in unfinished:
                each.cancel()
            if unfinished:  # wait() of nothing raises
                await asyncio.wait(unfinished)
            self._failed.cancel()

    def spawn(self, coroutine: Coroutine[Any, Any, T], background: bool) -> tuple[int, asyncio.Task[T]]:
        """(the number of the new task, the task).

        A ``background`` task that finds a peer lost ends, and no more: the loss is told to whoever awaits that peer.
        """
        self._last += 1
        number = self._last
        self.serving = self.serving or background
        task = asyncio.get_running_loop().create_task(_numbered(number, coroutine))
        self._spawned[number] = task  # the event loop itself holds tasks weakly
        task.add_done_callback(lambda ended: self._ended(number, ended, background))
        return number, task

    def _ended(self, number: int, task: asyncio.Task[Any], background: bool) -> None:
        """A spawned task has ended; that nobody may be waiting for it must not hide its failure."""
        del self._spawned[number]
        error = None if task.cancelled() else task.exception()
        if error is None or self._failed.done() or (background and isinstance(error, PeerLost)):
            return
        self._failed.set_exception(error)


async def _numbered(number: int, coroutine: Coroutine[Any, Any, T]) -> T:
    _TASK.set(number)  # in this task's own context, a copy of its parent's
    return await coroutine


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
        posted_ns = self._clock()  # of the await, not of the posting: the span is the time that was waited
        result = yield from self._future.__await__()
        return self._finish(result, posted_ns)


def seen(future: asyncio.Future[Any]) -> None:
    """Mark what ``future`` failed with as known, so that asyncio does not report it when the future goes."""
    if not future.cancelled():
        future.exception()
