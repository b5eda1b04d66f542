"""One rank of a world without time: its strategy's own file, run step by step in the order that a scheduler chooses.

A step resumes one task until it waits: for a message, or for what takes time (a gradient, a step, vector mathematics,
a message's leaving), which may take any. Messages come when the scheduler says. Vectors are shapes alone; what is drawn
at random is one of several outcomes, which the scheduler chooses, too.

All that a rank will ever do depends on its steps and what came, so the same history gives the same rank: a rank is
stored as its history, and made again by it.
"""

from __future__ import annotations

import itertools
import math
import types
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.schedules.state import canonical
from e2c_dl.strategies.base import Bucket, Message, Strategy, Vector
from e2c_dl.worlds.virtual.shape import shape

LENGTH = 4  # of the parameters: a chunk for each rank of a ring of four


class Sent(NamedTuple):
    """A message as it travels; ``payload``: its numbers, of one that has some."""

    kind: str
    iteration: int
    bucket: int
    step: int
    payload: tuple[int, ...] | None
    src: int

    def message(self) -> Message:
        payload: Any = None if self.payload is None else np.array(self.payload) if self.payload else _values()
        return Message(
            kind=self.kind, iteration=self.iteration, bucket=self.bucket, step=self.step, payload=payload, src=self.src
        )


@dataclass(frozen=True, kw_only=True)
class World:
    """What is run: ``strategy()`` on ``size`` ranks, ``iterations`` each. ``lost`` messages never arrive."""

    strategy: Callable[[], Strategy]
    size: int
    iterations: int
    lost: Callable[[int, Sent], bool] = lambda dst, sent: False


class Step(NamedTuple):
    """The scheduler's choice: ``came`` arrive, in this order; then task ``task`` goes on, and draws ``draws``."""

    task: int
    came: tuple[Sent, ...] = ()
    draws: tuple[int, ...] = ()  # numbers of outcomes


class NeedsDraw(Exception):
    """A step draws more than was chosen for it: one of ``outcomes``."""

    def __init__(self, outcomes: int) -> None:
        super().__init__(outcomes)
        self.outcomes = outcomes


class Rank:
    """Rank ``rank`` of ``world``. Its tasks are numbered; 0 is the strategy's own."""

    def __init__(self, world: World, rank: int) -> None:
        self.worker = ExploredWorker(world, rank, self)
        self.tasks: list[_Task | None] = []  # None: ended
        self.start(world.strategy().run(self.worker))  # type: ignore[arg-type]
        self.happen(Step(0))

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> int:
        self.tasks.append(_Task(coroutine))
        return len(self.tasks) - 1

    @property
    def done(self) -> bool:
        """Whether its strategy has returned."""
        return self.tasks[0] is None

    def waits(self) -> dict[int, Wait]:
        """What each task that has not ended waits for; the end of another that has ended: nothing any more."""
        running = {number: task.waits for number, task in enumerate(self.tasks) if task is not None}
        return {
            number: None if waits is not None and waits[0] == "task" and waits[1][0] not in running else waits
            for number, waits in running.items()
        }

    def happen(self, step: Step) -> None:
        """Let ``step`` happen. Raises: NeedsDraw; then this rank is of no use any more."""
        worker = self.worker
        worker.sent, worker.looked, worker.random.script = [], set(), list(step.draws)
        worker.mail += step.came
        task = self.tasks[step.task]
        assert task is not None
        try:
            task.waits = task.coroutine.send(None)
        except StopIteration:
            self.tasks[step.task] = None

    def states(self) -> dict[int, object]:
        """What each task that has not ended waits for, and all that it can reach."""
        waits = self.waits()
        running = ((number, task) for number, task in enumerate(self.tasks) if task is not None)
        return {number: (waits[number], canonical(task.coroutine, self.worker)) for number, task in running}

    def unread(self) -> object:
        """Messages that came and were not taken: in order, those of one kind."""
        mail = self.worker.mail
        return tuple(
            (kind, tuple(each for each in mail if each.kind == kind)) for kind in sorted({m.kind for m in mail})
        )


class _Task:
    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine
        self.waits: Wait = None

    def __del__(self) -> None:
        self.coroutine.close()  # most are given up before their end, some before they have begun


Wait = tuple[str, tuple[Any, ...]] | None
"""None: for what takes time; ("key", ...), ("any", ...): for such a message; ("task", (n,)): for task n to end."""


def fits(waits: Wait, sent: Sent) -> bool:
    """Whether ``sent`` is what a task waits for."""
    if waits is None or waits[0] == "task":
        return False
    how, wanted = waits
    if how == "key":
        return (sent.src, sent.kind, sent.iteration, sent.bucket, sent.step) == wanted
    return sent.kind == wanted[0] and sent.src in wanted[1:]


def matters_to(waits: Wait, looked: Collection[str], src: int, kind: str) -> bool:
    """Whether a task that ``waits`` so, and then looks at what is ``looked``, can tell if more of ``kind`` came from
    ``src``."""
    if kind in looked:
        return True
    if waits is None or waits[0] == "task":
        return False
    return bool(waits[1][:2] == (src, kind) if waits[0] == "key" else waits[1][0] == kind)


@types.coroutine
def _pause(waits: Wait) -> Generator[Wait, None, None]:
    yield waits


def _values() -> Vector:
    return shape(LENGTH, "float32")


class ExploredWorker:
    """The verbs of e2c_dl.strategies.base.Worker that strategies over shapes use.

    ``looked``: at what has come, whichever it is; who waits for one message by its key looks at no other.
    """

    def __init__(self, world: World, rank: int, tasks: Rank) -> None:
        self.rank, self.size, self.samples, self.total_samples = rank, world.size, 1, world.size
        self.layers = ["edge"] * world.size
        self.parameters, self.gradients = _values(), _values()
        self.random = Draws()
        self.compute_s = 1.0
        self.iteration = 0  # that it has begun last, or begins with
        self.mail: list[Sent] = []
        self.sent: list[tuple[int, Sent]] = []  # in this step, with their destinations
        self.looked: set[str] = set()  # in this step, at what has come of these kinds
        self._iterations, self._lost, self._tasks = world.iterations, world.lost, tasks

    async def iterations(self) -> AsyncIterator[int]:
        for iteration in range(self._iterations):
            self.iteration = iteration
            yield iteration

    def zeros(self) -> Vector:
        return _values()

    async def gradient(self) -> AsyncIterator[Bucket]:
        await _pause(None)
        yield Bucket(index=0, where=slice(0, LENGTH), values=self.gradients)

    async def step(self) -> None:
        await _pause(None)

    async def copy(self, into: Vector, values: Vector) -> None:
        await _pause(None)

    async def accumulate(self, into: Vector, values: Vector, factor: float = 1.0) -> None:
        await _pause(None)

    async def scale(self, vector: Vector, factor: float) -> None:
        await _pause(None)

    async def apply(self, into: Vector, update: Vector, *, src: int, staleness: int) -> None:
        await _pause(None)

    async def round_as_sent(self, values: Vector) -> None:
        pass

    def send(self, dst: int, message: Message, priority: int = 0) -> Leaving:
        payload = message.payload
        numbers = None if payload is None else tuple(payload.tolist()) if isinstance(payload, np.ndarray) else ()
        sent = Sent(message.kind, message.iteration, message.bucket, message.step, numbers, self.rank)
        if not self._lost(dst, sent):
            self.sent.append((dst, sent))
        return Leaving()

    async def receive(self, kind: str, *, src: int, iteration: int = -1, bucket: int = -1, step: int = -1) -> Message:
        return await self._taken(("key", (src, kind, iteration, bucket, step)))

    async def receive_any(
        self, kind: str, *, sources: Sequence[int] | None = None, timeout_s: float | None = None
    ) -> Message | None:
        if timeout_s is not None:
            raise NotImplementedError("there is no time here: no timeouts are explored")
        return await self._taken(("any", (kind, *(range(self.size) if sources is None else sources))))

    def arrived(self, kind: str) -> list[Message]:
        self.looked.add(kind)
        found = [each for each in self.mail if each.kind == kind]
        self.mail = [each for each in self.mail if each.kind != kind]
        return [each.message() for each in found]

    def spawn(self, coroutine: Coroutine[Any, Any, Any], background: bool = False) -> Spawned:
        return Spawned(self._tasks, self._tasks.start(coroutine))

    def _first(self, waits: tuple[str, tuple[Any, ...]]) -> Sent | None:
        return next((each for each in self.mail if fits(waits, each)), None)

    async def _taken(self, waits: tuple[str, tuple[Any, ...]]) -> Message:
        any_of_them = {waits[1][0]} if waits[0] == "any" else set()
        self.looked |= any_of_them
        if self._first(waits) is None:
            await _pause(waits)
            self.looked |= any_of_them
        found = self._first(waits)
        assert found is not None
        self.mail.remove(found)
        return found.message()


class Leaving:
    """A message on its way out."""

    done = True

    def __await__(self) -> Generator[Any, None, None]:
        yield None


class Spawned:
    """Task ``number``, whose end may be awaited; what it returns is nobody's."""

    def __init__(self, of: Rank, number: int) -> None:
        self._of, self._number = of, number

    @property
    def done(self) -> bool:
        return self._of.tasks[self._number] is None

    def __await__(self) -> Generator[Any, None, None]:
        while not self.done:
            yield "task", (self._number,)


class Draws:
    """Outcomes that were chosen, in place of a generator of random numbers."""

    def __init__(self) -> None:
        self.script: list[int] = []

    def permutation(self, count: int) -> list[int]:
        if count < 2:
            return list(range(count))
        return list(
            next(itertools.islice(itertools.permutations(range(count)), self._drawn(math.factorial(count)), None))
        )

    def integers(self, count: int) -> int:
        return self._drawn(count) if count > 1 else 0

    def _drawn(self, outcomes: int) -> int:
        if not self.script:
            raise NeedsDraw(outcomes)
        return self.script.pop(0)
