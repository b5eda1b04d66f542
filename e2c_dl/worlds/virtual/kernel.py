"""Virtual time: a heap of events, and a trampoline that resumes coroutines; no event loop, no clock.

::

    heap of (time_ns, number, action, argument)    the earliest is taken, ties in order of being asked for
    ready: tasks to resume now, in order           a task runs until it suspends; then the next
    now_ns moves only when nothing is ready

A coroutine that has to wait registers itself (``kernel.current``) with whoever will resume it, and awaits
:func:`suspend`. When the heap is empty and tasks are unfinished, nothing can ever happen again: a deadlock, which names
who waits for what.

Tasks belong to an owner, a rank. While it is stopped, what would happen in it is kept, and happens in the same order
when it goes on.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any

from e2c_dl.errors import TrainingError

FOREVER = 1 << 62
"""A time that never comes, in ns."""

_NAMED = 6  # waits that a deadlock's message names


class Task:
    """One coroutine under way. ``waits`` says for what, while it is suspended: a text, or a key that has one."""

    __slots__ = (
        "background", "close", "done", "iteration", "joiners", "number", "on_end", "owner", "result", "send", "throw",
        "waits",
    )  # fmt: skip

    def __init__(
        self, coroutine: Coroutine[Any, Any, Any], *, owner: int, number: int, iteration: int, background: bool,
        on_end: Callable[[Task], None],
    ) -> None:  # fmt: skip
        self.send, self.throw, self.close = coroutine.send, coroutine.throw, coroutine.close
        self.owner, self.number, self.iteration, self.background = owner, number, iteration, background
        self.on_end = on_end
        self.done = False
        self.result: Any = None
        self.joiners: list[Task] = []
        self.waits: object = "its turn"


class Failure:
    """What a task is resumed with to have ``error`` raised where it waits."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


@types.coroutine
def suspend() -> Generator[None, Any, Any]:
    """Wait to be resumed; returns what :meth:`Kernel.resume` gives."""
    return (yield)


class Pauses:
    """Pauses of one rank's process, as by kill -STOP: what it does takes no step meanwhile.

    ::

        process   |===runs===|   stopped   |===runs===       pauses: [begin, end) in ns, in order, none touches another
        work      |--- 3 ----|             |- 2 -|           5 ns of work, begun at 0, end 2 ns after the pause

    ``planned`` as (from s, until s) in any order; others may be added when they begin.
    """

    def __init__(self, planned: Iterable[tuple[float, float]] = ()) -> None:
        self._pauses: list[tuple[int, int]] = []
        for from_s, until_s in planned:
            self.add(round(from_s * 1e9), round(until_s * 1e9))

    def __bool__(self) -> bool:
        return bool(self._pauses)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._pauses)

    def add(self, begin_ns: int, end_ns: int) -> None:
        touched = [pause for pause in self._pauses if pause[0] <= end_ns and begin_ns <= pause[1]]
        apart = [pause for pause in self._pauses if pause not in touched]
        begins, ends = zip((begin_ns, end_ns), *touched, strict=True)
        self._pauses = sorted([*apart, (min(begins), max(ends))])

    def runs_ns(self, time_ns: int) -> int:
        """``time_ns``, or, if it is stopped then, when it goes on."""
        for begin_ns, end_ns in self._pauses:
            if begin_ns <= time_ns < end_ns:
                return end_ns
        return time_ns

    def ends_ns(self, begin_ns: int, work_ns: int) -> int:
        """When what begins at ``begin_ns``, and takes ``work_ns`` of running, ends."""
        end_ns = begin_ns + work_ns
        for stopped_ns, goes_on_ns in self._pauses:
            if end_ns <= stopped_ns:
                break
            if begin_ns < goes_on_ns:  # one that was over before does not count
                end_ns += goes_on_ns - max(stopped_ns, begin_ns)
        return end_ns


class Kernel:
    """Time and tasks of one simulation. ``current`` is the task that runs.

    ``heap`` and ``numbers`` are for the hottest callers, which push what :meth:`at` would.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.current: Task
        self.ready: deque[tuple[Task, Any]] = deque()
        self.heap: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self.idle = 0  # events in the heap that are no reason to go on, should there be no others
        self.numbers = count()  # breaks ties in order of asking; without it, the heap would compare actions
        self._tasks: dict[Task, None] = {}  # a set would not keep their order
        self._stopped: dict[int, list[tuple[Callable[[Any], None], Any]]] = {}  # by owner: what waits for it

    def at(self, time_ns: int, action: Callable[[Any], None], argument: Any) -> None:
        """Call ``action(argument)`` at ``time_ns``, not before now; one that never comes is forgotten."""
        if time_ns < FOREVER:  # kept in the heap, it would hide a deadlock
            heappush(self.heap, (time_ns, next(self.numbers), action, argument))

    def start(self, task: Task) -> None:
        """Run ``task`` as soon as whoever runs now suspends."""
        self._tasks[task] = None
        self.ready.append((task, None))

    def resume(self, task: Task, value: Any = None) -> None:
        """Let ``task`` go on with ``value``, or with a Failure's error, after those that are ready already."""
        self.ready.append((task, value))

    def resume_at(self, time_ns: int, task: Task) -> None:
        if time_ns < FOREVER:
            heappush(self.heap, (time_ns, next(self.numbers), self.ready.append, (task, None)))

    def stop(self, owner: int) -> None:
        """No task of ``owner`` runs until it goes on."""
        self._stopped[owner] = []

    def held(self, owner: int, action: Callable[[Any], None], argument: Any) -> bool:
        """Whether ``owner`` is stopped: then ``action(argument)`` is called when it goes on."""
        waiting = self._stopped.get(owner)
        if waiting is not None:
            waiting.append((action, argument))
        return waiting is not None

    def go_on(self, owner: int, *, dead: bool = False) -> None:
        """Do what was held of ``owner``, in order; if it is ``dead``, nothing of it."""
        for action, argument in self._stopped.pop(owner):
            if not dead:
                action(argument)

    def cancel(self, task: Task) -> None:
        """End ``task`` where it waits."""
        if not task.done:
            task.done = True
            self._tasks.pop(task, None)
            task.close()  # runs its finally clauses
            self.ready.append((task, None))  # so that run learns of its end

    def cancel_all(self) -> None:
        """End every task where it waits."""
        for task in list(self._tasks):
            self.cancel(task)

    def run(self, unfinished: Callable[[], bool]) -> None:
        """Let time pass while ``unfinished()``, which is asked whenever a task has ended, or was ended.

        Raises: TrainingError, if nothing can happen any more; whatever a task or an action raises.
        """
        heap, ready, take, stopped = self.heap, self.ready, self.ready.popleft, self._stopped
        while unfinished():
            ended = False
            while not ended:  # only an end can change what unfinished() says
                while ready:
                    task, value = take()
                    if task.done:  # it was ended while it waited for its turn
                        ended = True
                        continue
                    # asked first whether any is: most runs have no pauses
                    if stopped and self.held(task.owner, ready.append, (task, value)):
                        continue
                    self.current = task
                    try:
                        if value.__class__ is Failure:  # no isinstance: this is the hottest place
                            task.throw(value.error)
                        else:
                            task.send(value)
                    except StopIteration as stop:
                        self._end(task, stop.value)
                        ended = True
                if not ended:
                    if not heap:
                        raise self._deadlock()
                    self.now_ns, _, action, argument = heappop(heap)
                    action(argument)

    def drain(self) -> None:
        """Let everything happen that is still under way, such as messages; no task runs any more."""
        while self.heap:
            self.now_ns, _, action, argument = heappop(self.heap)
            action(argument)
            self.ready.clear()  # tasks are over: what would resume them is dropped

    def _end(self, task: Task, result: Any) -> None:
        task.done = True
        task.result = result
        del self._tasks[task]
        for joiner in task.joiners:
            self.resume(joiner, result)
        task.on_end(task)

    def _deadlock(self) -> TrainingError:
        waits = [
            f"rank {task.owner} task {task.number} for {_told(task.waits)}"
            for task in self._tasks
            if not task.background
        ]
        more = f", and {len(waits) - _NAMED} more" if len(waits) > _NAMED else ""
        return TrainingError(
            f"deadlock at {self.now_ns / 1e9:.6f} s of virtual time, all wait: {'; '.join(waits[:_NAMED])}{more}; "
            "send what they wait for"
        )


def _told(waits: object) -> str:
    if isinstance(waits, tuple):
        src, kind, iteration, bucket, step = waits
        return f"message {kind!r} from rank {src}, iteration {iteration}, bucket {bucket}, step {step}"
    return str(waits)
