"""The Worker of the live world: a strategy's verbs over sockets and a compute thread, each leaving its span.

::

    event loop        strategy's coroutines, sending, receiving, REDUCE, STEP
    compute thread    DATA, FORWARD, BACKWARD, EVALUATE; a bucket that is ready is announced to the loop

Which task of the strategy a span belongs to, and in which iteration, travels in context variables: a spawned coroutine
has a number of its own, and stays in the iteration that spawned it. A wait that ends by its time-out leaves no span: it
was a pause of the task's own choosing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Executor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from e2c_dl.strategies.base import (
    Array,
    Bucket,
    Compute,
    Evaluation,
    LinkEstimate,
    Message,
    Pending,
    Strategy,
    Vector,
    Verdict,
    Worker,
    bucket_of,
)
from e2c_dl.trace.model import MOST_STALENESS, Phase
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.worlds.deadlines import Deadline
from e2c_dl.worlds.live.computing import COMPUTE_TASK, Computing
from e2c_dl.worlds.live.mailbox import Mail, MailKey
from e2c_dl.worlds.live.network import Network
from e2c_dl.worlds.live.share import Share
from e2c_dl.worlds.live.tasks import StrategyTasks, Traced

T = TypeVar("T")

_ITERATION: ContextVar[int] = ContextVar("iteration", default=-1)


@dataclass(frozen=True, kw_only=True)
class IterationDone:
    """How one rank stands after an iteration. ``accuracy`` is None where it was not evaluated."""

    rank: int
    iteration: int  # the one that has ended, from 0
    loss: float  # mean over this rank's batch, before the step
    accuracy: float | None


class LiveWorker:
    """One rank; implements :class:`e2c_dl.strategies.base.Worker`.

    ``thread`` runs the gradient and the evaluation: it has exactly one thread. ``layers`` are all ranks', by rank.
    ``budget`` is this rank's share of what ends training. ``shapes``: vectors hold zeros, and nothing is calculated.
    Rank 0 evaluates every ``evaluate_every`` iterations (0: never), but for the last: whoever asked for training
    evaluates its end. ``on_iteration`` is called when an iteration begins, ``on_progress`` when it has ended, both in
    the event loop.
    """

    def __init__(
        self, *, network: Network, compute: Compute, thread: Executor, recorder: Recorder, samples: int,
        total_samples: int, layers: Sequence[str], seed: int, budget: Share, evaluate_every: int,
        on_progress: Callable[[IterationDone], None], on_iteration: Callable[[int], None] = lambda _: None,
        shapes: bool = False,
    ) -> None:  # fmt: skip
        self.rank, self.size = network.rank, network.size
        self.samples, self.total_samples = samples, total_samples
        self.layers = tuple(layers)
        self.random = np.random.default_rng([seed, self.rank])  # the same draws as in the virtual world
        self.parameters: Vector = compute.parameters
        self.gradients: Vector = compute.gradients
        self._network = network
        self._compute = compute
        self._computing = Computing(compute, thread, recorder)
        self._recorder = recorder
        self._budget = budget
        self._evaluate_every = evaluate_every
        self._on_progress, self._on_iteration = on_progress, on_iteration
        self._shapes = shapes
        self._idle = np.zeros_like(self.parameters) if shapes else self.parameters[:0]
        self._next = 0  # iteration
        self._deadlines: dict[str, Deadline] = {}
        self._tasks = StrategyTasks()
        self._verdicts: list[Verdict] = []  # not asked for yet

    async def run(
        self, strategy: Strategy, everybody: Callable[[], Awaitable[None]],
        as_seen: Callable[[Worker], Worker] | None = None,
    ) -> None:  # fmt: skip
        """Run ``strategy`` to its end on all ranks; the first failure of its tasks, or of the network, ends it.

        ``everybody()`` returns when all ranks have called it: background tasks serve until then. ``as_seen`` wraps the
        worker that the strategy sees. Raises: what failed first.
        """

        async def whole() -> None:
            await strategy.run(as_seen(self) if as_seen else self)
            if not self._tasks.serving:
                await self._network.farewell()  # whoever still waits for a message of this rank shall know
            await everybody()

        await self._tasks.run(whole(), self._network.failed)

    async def iterations(self) -> AsyncIterator[int]:
        begin_ns = start_ns = self._recorder.clock()
        iteration = 0
        while await self._budget.begins(iteration):
            _ITERATION.set(iteration)
            self._on_iteration(iteration)
            yield iteration
            accuracy = await self._evaluate_if_due(iteration)
            end_ns = self._recorder.clock()
            self._record(Phase.ITERATION, start_ns, start_ns, end_ns)
            start_ns = end_ns
            loss = self._computing.loss
            self._on_progress(IterationDone(rank=self.rank, iteration=iteration, loss=loss, accuracy=accuracy))
            iteration = max(iteration + 1, self._next)
        _ITERATION.set(-1)  # what follows, such as the last evaluation, belongs to no iteration
        self._record(Phase.TRAINING, begin_ns, begin_ns, start_ns)

    @property
    def compute_s(self) -> float:
        return self._computing.seconds

    @property
    def loss(self) -> float:
        return self._computing.loss

    def resize(self, samples: int, total_samples: int) -> None:
        self.samples, self.total_samples = samples, total_samples

    def skip_to(self, iteration: int) -> None:
        self._next = iteration

    def zeros(self, length: int | None = None, dtype: str | None = None) -> Array:
        return np.zeros(len(self.parameters) if length is None else length, dtype=dtype or self.parameters.dtype)

    async def gradient(self) -> AsyncIterator[Bucket]:
        now_ns = self._recorder.clock()
        self._record(Phase.SPAWN, now_ns, now_ns, now_ns, peer_task=COMPUTE_TASK)
        async for index, asked_ns in self._computing.gradient(_ITERATION.get(), self.samples):
            self._record(Phase.AWAIT_BUCKET, asked_ns, asked_ns, self._recorder.clock(), bucket=index)
            yield bucket_of(self._compute, index)

    async def step(self) -> None:
        start_ns = self._recorder.clock()
        self._compute.step()
        self._record(Phase.STEP, start_ns, start_ns, self._recorder.clock())

    async def evaluate(self) -> Evaluation:
        start_ns = self._recorder.clock()
        evaluation = await self._computing.evaluate()
        self._record(Phase.EVALUATE, start_ns, start_ns, self._recorder.clock())
        return evaluation

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        clock = self._recorder.clock
        future = self._network.post(dst, message, priority, clock(), self._tasks.current)

        def awaited(seq: int, posted_ns: int) -> None:
            self._record(
                Phase.AWAIT_SENT, posted_ns, posted_ns, clock(), src=self.rank, dst=dst, seq=seq, bucket=message.bucket
            )

        return Traced(future, clock, awaited)

    def queued_bytes(self, dst: int) -> int:
        return self._network.queued_bytes(dst)

    def link(self, dst: int) -> LinkEstimate | None:
        return self._network.link(dst)

    async def receive(self, kind: str, *, src: int, iteration: int = -1, bucket: int = -1, step: int = -1) -> Message:
        posted_ns = self._recorder.clock()
        return self._received(await self._network.mailboxes.get(MailKey(src, kind, iteration, bucket, step)), posted_ns)

    async def receive_any(
        self, kind: str, *, sources: Sequence[int] | None = None, timeout_s: float | None = None
    ) -> Message | None:
        posted_ns = self._recorder.clock()
        others = sources if sources is not None else [rank for rank in range(self.size) if rank != self.rank]
        coming = self._network.mailboxes.get_any(kind, others)
        deadline = self._deadlines.setdefault(kind, Deadline())
        try:
            await asyncio.wait({coming}, timeout=timeout_s)  # wait_for might cancel it just as its mail comes
            if not coming.done():
                deadline.gave_up((self._recorder.clock() - posted_ns) / 1e9)
                return None
            mail = coming.result()  # or raises: all sources are lost
        finally:
            coming.cancel()  # of one that has come: no effect
        deadline.came((self._recorder.clock() - posted_ns) / 1e9)
        return self._received(mail, posted_ns)

    def deadline_s(self, kind: str) -> float | None:
        """A ``timeout_s`` for the next ``receive_any`` of ``kind``, by how long the last ones took; None: unknown."""
        return self._deadlines[kind].seconds if kind in self._deadlines else None

    def arrived(self, kind: str) -> Sequence[Message]:
        now_ns = self._recorder.clock()
        return [self._received(mail, now_ns) for mail in self._network.mailboxes.take(kind)]

    def tell(self, verdict: Verdict) -> None:
        """``verdict`` is the next that the strategy hears."""
        self._verdicts.append(verdict)

    def verdicts(self) -> Sequence[Verdict]:
        new, self._verdicts = self._verdicts, []
        return new

    def spawn(self, coroutine: Coroutine[Any, Any, T], background: bool = False) -> Pending[T]:
        clock = self._recorder.clock
        now_ns = clock()
        number, task = self._tasks.spawn(coroutine, background)
        self._record(Phase.SPAWN, now_ns, now_ns, now_ns, peer_task=number)

        def awaited(result: T, posted_ns: int) -> T:
            self._record(Phase.AWAIT_TASK, posted_ns, posted_ns, clock(), peer_task=number)
            return result

        return Traced(task, clock, awaited)

    async def copy(self, into: Vector, values: Vector) -> None:
        start_ns = self._recorder.clock()
        into[:] = values
        self._record(Phase.REDUCE, start_ns, start_ns, self._recorder.clock())

    async def accumulate(self, into: Vector, values: Vector, factor: float = 1.0) -> None:
        start_ns = self._recorder.clock()
        into += values if factor == 1.0 else factor * values  # no temporary vector for the usual 1.0
        self._record(Phase.REDUCE, start_ns, start_ns, self._recorder.clock())

    async def scale(self, vector: Vector, factor: float) -> None:
        start_ns = self._recorder.clock()
        vector *= factor
        self._record(Phase.REDUCE, start_ns, start_ns, self._recorder.clock())

    async def apply(self, into: Vector, update: Vector, *, src: int, staleness: int) -> None:
        start_ns = self._recorder.clock()
        into += update
        told = min(staleness, MOST_STALENESS)
        self._record(Phase.REDUCE, start_ns, start_ns, self._recorder.clock(), src=src, staleness=told)

    async def round_as_sent(self, values: Vector) -> None:
        """Does nothing: messages are sent as they are."""

    async def calculate(self, work: Callable[[], T], *, nbytes: int, shapes: Callable[[], T]) -> T:
        start_ns = self._recorder.clock()
        result = shapes() if self._shapes else work()
        if self._shapes:  # for as long as the virtual world would, which knows no more of it
            for _ in range(round(nbytes / max(1, self.gradients.nbytes))):
                self._idle += self._idle
        self._record(Phase.REDUCE, start_ns, start_ns, self._recorder.clock())
        return result

    def _received(self, mail: Mail, posted_ns: int) -> Message:
        self._record(
            Phase.AWAIT_MESSAGE, posted_ns, posted_ns, self._recorder.clock(),
            src=mail.message.src, dst=self.rank, seq=mail.seq, bucket=mail.message.bucket,
        )  # fmt: skip
        return mail.message

    async def _evaluate_if_due(self, iteration: int) -> float | None:
        """The accuracy, if this iteration is one after which this rank evaluates."""
        done = iteration + 1
        if self.rank != 0 or not self._evaluate_every or done % self._evaluate_every or done == self._budget.iterations:
            return None
        return (await self.evaluate()).accuracy

    def _record(self, phase: Phase, posted_ns: int, start_ns: int, end_ns: int, **fields: int) -> None:
        """A span of the calling task, in its iteration."""
        self._recorder.record(
            phase, posted_ns, start_ns, end_ns, task=self._tasks.current, iteration=_ITERATION.get(), **fields
        )
