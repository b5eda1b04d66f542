"""The Worker of the live world: a strategy's verbs over sockets and a compute thread, each leaving its span.

::

    event loop        strategy's coroutines, sending, receiving, REDUCE, STEP
    compute thread    DATA, FORWARD, BACKWARD, EVALUATE; a bucket that is ready is announced to the loop

Which task of the strategy a span belongs to, and in which iteration, travels in context variables: a spawned coroutine
has a number of its own, and stays in the iteration that spawned it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Bucket, Compute, Evaluation, Message, Pending, Strategy, Vector
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recorder import Recorder
from e2c_dl.worlds.live.mailbox import Key
from e2c_dl.worlds.live.network import Network
from e2c_dl.worlds.live.pending import Traced, seen

T = TypeVar("T")

COMPUTE_TASK = -1
_TASK: ContextVar[int] = ContextVar("task", default=0)
_ITERATION: ContextVar[int] = ContextVar("iteration", default=-1)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How one rank stands after an iteration. ``accuracy`` is None where it was not evaluated."""

    rank: int
    iteration: int  # the one that has ended, from 0
    loss: float  # mean over this rank's batch, before the step
    accuracy: float | None


class LiveWorker:
    """One rank; implements :class:`e2c_dl.strategies.base.Worker`.

    ``thread`` runs the gradient and the evaluation: it has exactly one thread, so that they never overlap. Rank 0
    evaluates every ``evaluate_every`` iterations (0: never), but for the last: whoever asked for training evaluates its
    end. ``on_progress`` is called in the event loop.
    """

    def __init__(
        self, *, network: Network, compute: Compute, thread: Executor, recorder: Recorder, samples: int,
        total_samples: int, iterations: int, evaluate_every: int, on_progress: Callable[[Progress], None],
    ) -> None:  # fmt: skip
        self.rank, self.size = network.rank, network.size
        self.samples, self.total_samples = samples, total_samples
        self.parameters: Vector = compute.parameters
        self.gradients: Vector = compute.gradients
        self._network = network
        self._compute = compute
        self._thread = thread
        self._recorder = recorder
        self._iterations = iterations
        self._evaluate_every = evaluate_every
        self._on_progress = on_progress
        self._loss = float("nan")
        self._spawned: dict[int, asyncio.Task[Any]] = {}
        self._last_task = 0
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._failed.add_done_callback(seen)

    async def run(self, strategy: Strategy) -> None:
        """Run ``strategy`` to its end; the first failure of any of its tasks, or of the network, ends it.

        Raises: what failed first.
        """
        main = asyncio.get_running_loop().create_task(strategy.run(self))
        try:
            await asyncio.wait({main, self._failed, self._network.failed}, return_when=asyncio.FIRST_COMPLETED)
            for ended in (self._network.failed, self._failed, main):
                if ended.done():
                    await ended
        finally:
            unfinished = {task for task in (main, *self._spawned.values()) if not task.done()}
            for task in unfinished:
                task.cancel()
            if unfinished:
                await asyncio.wait(unfinished)
            self._failed.cancel()

    async def iterations(self) -> AsyncIterator[int]:
        begin_ns = start_ns = self._recorder.clock()
        for iteration in range(self._iterations):
            _ITERATION.set(iteration)
            yield iteration
            accuracy = await self._evaluate_if_due(iteration)
            end_ns = self._recorder.clock()
            self._record(Phase.ITERATION, start_ns, start_ns, end_ns)
            start_ns = end_ns
            self._on_progress(Progress(rank=self.rank, iteration=iteration, loss=self._loss, accuracy=accuracy))
        _ITERATION.set(-1)
        self._record(Phase.TRAINING, begin_ns, begin_ns, start_ns)

    async def gradient(self) -> AsyncIterator[Bucket]:
        loop = asyncio.get_running_loop()
        iteration, clock = _ITERATION.get(), self._recorder.clock
        ready: asyncio.Queue[int | None] = asyncio.Queue()  # None: the thread has ended

        def on_segment(phase: Phase, bucket: int, start_ns: int, end_ns: int) -> None:
            self._recorder.record(
                phase, start_ns, start_ns, end_ns, task=COMPUTE_TASK, iteration=iteration, bucket=bucket
            )
            if phase is Phase.BACKWARD:
                loop.call_soon_threadsafe(ready.put_nowait, bucket)

        now_ns = clock()
        self._record(Phase.SPAWN, now_ns, now_ns, now_ns, peer_task=COMPUTE_TASK)
        computing = loop.run_in_executor(self._thread, self._compute.gradient, iteration, on_segment)
        computing.add_done_callback(lambda _: ready.put_nowait(None))
        for _ in self._compute.buckets:
            posted_ns = clock()
            index = await ready.get()
            if index is None:
                await computing
                raise TrainingError(f"rank {self.rank}: a gradient ended before all its buckets; the model is at fault")
            self._record(Phase.AWAIT_BUCKET, posted_ns, posted_ns, clock(), bucket=index)
            where = self._compute.buckets[index]
            yield Bucket(index=index, where=where, values=self.gradients[where])
        self._loss = await computing

    async def step(self) -> None:
        start_ns = self._recorder.clock()
        self._compute.step()
        self._record(Phase.STEP, start_ns, start_ns, self._recorder.clock())

    async def evaluate(self) -> Evaluation:
        """Loss and accuracy on the test samples, now."""
        start_ns = self._recorder.clock()
        evaluation = await asyncio.get_running_loop().run_in_executor(self._thread, self._compute.evaluate)
        self._record(Phase.EVALUATE, start_ns, start_ns, self._recorder.clock())
        return evaluation

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        clock = self._recorder.clock
        future = self._network.post(dst, message, priority, clock(), _TASK.get())

        def awaited(seq: int, posted_ns: int) -> None:
            self._record(
                Phase.AWAIT_SENT, posted_ns, posted_ns, clock(), src=self.rank, dst=dst, seq=seq, bucket=message.bucket
            )

        return Traced(future, clock, awaited)

    async def receive(self, kind: str, *, src: int, iteration: int = -1, bucket: int = -1, step: int = -1) -> Message:
        posted_ns = self._recorder.clock()
        mail = await self._network.mailboxes.get(Key(src, kind, iteration, bucket, step))
        self._record(
            Phase.AWAIT_MESSAGE, posted_ns, posted_ns, self._recorder.clock(),
            src=src, dst=self.rank, seq=mail.seq, bucket=bucket,
        )  # fmt: skip
        return mail.message

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Pending[T]:
        clock = self._recorder.clock
        self._last_task += 1
        number = self._last_task
        now_ns = clock()
        self._record(Phase.SPAWN, now_ns, now_ns, now_ns, peer_task=number)
        task = asyncio.get_running_loop().create_task(_numbered(number, coroutine))
        self._spawned[number] = task
        task.add_done_callback(lambda ended: self._ended(number, ended))

        def awaited(result: T, posted_ns: int) -> T:
            self._record(Phase.AWAIT_TASK, posted_ns, posted_ns, clock(), peer_task=number)
            return result

        return Traced(task, clock, awaited)

    async def accumulate(self, into: Vector, values: Vector) -> None:
        start_ns = self._recorder.clock()
        into += values
        self._record(Phase.REDUCE, start_ns, start_ns, self._recorder.clock())

    async def scale(self, vector: Vector, factor: float) -> None:
        start_ns = self._recorder.clock()
        vector *= factor
        self._record(Phase.REDUCE, start_ns, start_ns, self._recorder.clock())

    async def _evaluate_if_due(self, iteration: int) -> float | None:
        """The accuracy, if this iteration is one after which this rank evaluates."""
        done = iteration + 1
        if self.rank != 0 or not self._evaluate_every or done % self._evaluate_every or done == self._iterations:
            return None
        return (await self.evaluate()).accuracy

    def _ended(self, number: int, task: asyncio.Task[Any]) -> None:
        """A spawned task has ended; that nobody may be waiting for it must not hide its failure."""
        del self._spawned[number]
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _record(self, phase: Phase, posted_ns: int, start_ns: int, end_ns: int, **fields: int) -> None:
        """A span of the calling task, in its iteration."""
        self._recorder.record(
            phase, posted_ns, start_ns, end_ns, task=_TASK.get(), iteration=_ITERATION.get(), **fields
        )


async def _numbered(number: int, coroutine: Coroutine[Any, Any, T]) -> T:
    _TASK.set(number)
    return await coroutine
