"""The tasks of one rank: its strategy's coroutine, and those that it spawns.

A spawned task stays in the iteration that spawned it. When the strategy has returned, tasks that nobody joined end with
it; background tasks go on until it has returned on all ranks. What a background task spawns is in the background, too.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from e2c_dl.strategies.base import Pending
from e2c_dl.worlds.virtual.kernel import Kernel, Task, suspend

T = TypeVar("T")

MAIN, COMPUTE_TASK, NO_TASK = 0, -1, -2

Awaited = Callable[[int, Task, int], None]
"""Told of an await that has ended: of the task of this number, by that task, begun at that time in ns."""


class RankTasks:
    """All tasks of ``rank`` that have not ended. ``on_main_end`` is called when the strategy's own has."""

    def __init__(self, kernel: Kernel, rank: int, on_main_end: Callable[[], None], awaited: Awaited) -> None:
        self._kernel, self._rank, self._on_main_end, self._awaited = kernel, rank, on_main_end, awaited
        self._tasks: dict[int, Task] = {}
        self._next = MAIN

    @property
    def serving(self) -> bool:
        """Whether there are any; once the strategy has returned, those in the background."""
        return bool(self._tasks)

    @property
    def training(self) -> bool:
        return MAIN in self._tasks

    def start(self, coroutine: Coroutine[Any, Any, Any], *, background: bool = False, iteration: int = -1) -> Task:
        """Run ``coroutine``; the first is the strategy's own."""
        task = Task(
            coroutine, owner=self._rank, number=self._next, iteration=iteration, background=background,
            on_end=self._on_end,
        )  # fmt: skip
        self._tasks[self._next] = task
        self._next += 1
        self._kernel.start(task)
        return task

    def pending(self, task: Task) -> Pending[Any]:
        return _Join(self._kernel, task, self._awaited)

    def kill(self) -> None:
        """End them all, where they wait."""
        for task in self._tasks.values():
            self._kernel.cancel(task)
        self._tasks.clear()

    def _on_end(self, task: Task) -> None:
        del self._tasks[task.number]
        if task.number == MAIN:
            # a list: what is cancelled is taken out
            for other in [other for other in self._tasks.values() if not other.background]:
                self._kernel.cancel(other)
                del self._tasks[other.number]
            self._on_main_end()  # last: it asks whether any task still serves


class _Join(Pending[T]):
    """A spawned task, to be awaited."""

    def __init__(self, kernel: Kernel, task: Task, awaited: Awaited) -> None:
        self._kernel, self._task, self._awaited = kernel, task, awaited

    @property
    def done(self) -> bool:
        return self._task.done

    def __await__(self) -> Generator[Any, None, T]:
        kernel, task = self._kernel, self._task
        waiting, posted_ns = kernel.current, kernel.now_ns
        if not task.done:
            task.joiners.append(waiting)
            waiting.waits = f"its task {task.number}"
            yield from suspend()
        self._awaited(task.number, waiting, posted_ns)
        result: T = task.result
        return result
