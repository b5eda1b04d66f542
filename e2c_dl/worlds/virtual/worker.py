"""The Worker of the virtual world: a strategy's verbs under virtual time, each leaving the span that it leaves live.

What takes time is computed at once, when it is asked for, and its span lasts as long as the host's profile says. Spans
whose end is known already (a gradient's pieces, a message on its way) are recorded at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import (
    Array,
    Bucket,
    Compute,
    Evaluation,
    Pending,
    Strategy,
    Vector,
    Verdict,
    Worker,
    bucket_of,
)
from e2c_dl.trace.model import MOST_STALENESS, RECORD, Phase
from e2c_dl.worlds.virtual.kernel import Kernel, Task, suspend
from e2c_dl.worlds.virtual.links import RankPair
from e2c_dl.worlds.virtual.messenger import Messenger
from e2c_dl.worlds.virtual.pace import Pace
from e2c_dl.worlds.virtual.setting import Onset, Setting, SimulatedIteration
from e2c_dl.worlds.virtual.shape import Shape, shape
from e2c_dl.worlds.virtual.tasks import COMPUTE_TASK, NO_TASK, RankTasks
from e2c_dl.worlds.virtual.wire import Wire

T = TypeVar("T")

_SPAWN, _AWAIT_BUCKET = int(Phase.SPAWN), int(Phase.AWAIT_BUCKET)
_FORWARD, _BACKWARD = Phase.FORWARD, Phase.BACKWARD
_pack = RECORD.pack


class VirtualWorker(Messenger):
    """One rank; implements :class:`e2c_dl.strategies.base.Worker`.

    ``flush`` is called at the end of every iteration, ``ended`` when the strategy has returned here, or was killed
    before, ``changed`` with links whose conditions are others from now on.
    """

    def __init__(
        self, kernel: Kernel, setting: Setting, *, rank: int, compute: Compute, pace: Pace,
        open_wire: Callable[[Messenger, int], Wire], flush: Callable[[VirtualWorker], None],
        ended: Callable[[], None], changed: Callable[[Sequence[RankPair]], None],
    ) -> None:  # fmt: skip
        super().__init__(
            kernel, rank=rank, size=len(setting.layers), shapes=isinstance(compute.parameters, Shape),
            checked=setting.checked, pauses=pace.pauses, open_wire=open_wire,
        )  # fmt: skip
        self.layers = setting.layers
        self.samples, self.total_samples = setting.samples[rank], sum(setting.samples)
        self.parameters: Vector = compute.parameters
        self.gradients: Vector = compute.gradients
        self.compute_s = 0.0
        self.killed = False  # before the strategy had returned
        self._setting, self._compute, self._pace, self._flush, self._ended = setting, compute, pace, flush, ended
        self._changed = changed
        self._tasks = RankTasks(kernel, rank, self._main_ended, self._awaited_task)
        self._buckets = [bucket_of(compute, index) for index in range(len(compute.buckets))]
        self._random: np.random.Generator | None = None  # made when first asked for: most strategies draw nothing
        self.loss = float("nan")
        self._next = 0  # iteration
        self._loop_free_ns = 0
        self._thread_free_ns = 0

    @property
    def random(self) -> np.random.Generator:
        if self._random is None:
            self._random = np.random.default_rng([self._setting.seed, self.rank])
        return self._random

    def start(self, strategy: Strategy, seen: Worker) -> None:
        """Begin to run ``strategy`` over ``seen``: this worker, or a wrapper of it."""
        self._tasks.start(strategy.run(seen))
        for begin_ns, _ in self.pauses:
            self.kernel.at(begin_ns, self.stop, None)

    def kill(self, _: object) -> None:
        """End everything here, as kill -9 would; peers learn it from their connections."""
        if self._tasks.serving:
            self._end_at_once()
        if self._setting.on_kill is not None:  # of one that has ended its training, too: its process is there
            self._setting.on_kill(self.rank)

    def _end_at_once(self) -> None:
        self.killed = self._tasks.training
        self.die()
        now_ns = self.kernel.now_ns
        self._tasks.kill()
        # spans are recorded when their end is known, which may be after the kill
        self.records[:] = [record for record in self.records if RECORD.unpack(record)[2] <= now_ns]
        self.farewell("its process was killed", orderly=False)
        if self.killed:
            self._ended()

    def resize(self, samples: int, total_samples: int) -> None:
        self.samples, self.total_samples = samples, total_samples

    def skip_to(self, iteration: int) -> None:
        self._next = iteration

    def zeros(self, length: int | None = None, dtype: str | None = None) -> Array:
        length = len(self.parameters) if length is None else length
        dtype = dtype or str(self.parameters.dtype)
        return shape(length, dtype) if self.shapes else np.zeros(length, dtype=dtype)

    async def iterations(self) -> AsyncIterator[int]:
        kernel, setting = self.kernel, self._setting
        begin_ns = start_ns = kernel.now_ns
        task = kernel.current
        iteration = 0
        while setting.allotment.begins(self.rank, iteration, kernel.now_ns / 1e9):
            task.iteration = iteration
            if setting.on_iteration is not None:
                self._onset(setting.on_iteration(self.rank, iteration, kernel.now_ns))
                if self.deaf:
                    kernel.resume(task)  # held, as the rank is stopped, until it goes on
                    await suspend()
            yield iteration
            accuracy = await self._evaluate(iteration + 1) if setting.evaluate_every else None
            end_ns = kernel.now_ns
            self.span(Phase.ITERATION, start_ns, start_ns, end_ns, task)
            start_ns = end_ns
            self._flush(self)  # not per span: appending to a file is slow
            if setting.on_progress is not None:
                setting.on_progress(SimulatedIteration(
                    rank=self.rank, iteration=iteration, at_ns=end_ns, loss=self.loss, accuracy=accuracy,
                ))  # fmt: skip
            iteration = max(iteration + 1, self._next)
        task.iteration = -1
        self.span(Phase.TRAINING, begin_ns, begin_ns, start_ns, task)

    async def gradient(self) -> AsyncIterator[Bucket]:
        kernel, compute, record = self.kernel, self._compute, self.record
        task = kernel.current
        iteration, now_ns = task.iteration, kernel.now_ns
        record(_pack(
            now_ns, now_ns, now_ns, 0, -1, iteration, task.number, COMPUTE_TASK, -1, -1, -1, 0, _SPAWN, 0,
        ))  # fmt: skip
        begin_ns = self._thread_free_ns if self._thread_free_ns > now_ns else now_ns  # noqa: FURB136 - the hot path
        segments = self._pace.gradient(self.samples, begin_ns)
        # at once, its pieces unheard: when they end is the profile's to say
        self.loss = compute.gradient(iteration, self.samples, lambda *_: None)
        before = self.parameters.copy() if self.checked and not self.shapes else None
        for phase, bucket, from_ns, to_ns in segments:
            start_ns, seq = begin_ns + from_ns, self.samples if phase is _FORWARD else -1
            record(_pack(
                start_ns, start_ns, begin_ns + to_ns, 0, seq, iteration, COMPUTE_TASK, NO_TASK, bucket, -1, -1, 0,
                phase, 0,
            ))  # fmt: skip
        self._thread_free_ns = begin_ns + to_ns
        self.compute_s = to_ns / 1e9
        for phase, bucket, _, to_ns in segments:
            if phase is not _BACKWARD:
                continue
            posted_ns = kernel.now_ns
            if begin_ns + to_ns > posted_ns:
                kernel.resume_at(begin_ns + to_ns, task)
                await suspend()
            record(_pack(
                posted_ns, posted_ns, kernel.now_ns, 0, -1, iteration, task.number, NO_TASK, bucket, -1, -1, 0,
                _AWAIT_BUCKET, 0,
            ))  # fmt: skip
            yield self._buckets[bucket]
        if before is not None and not np.array_equal(before.view(np.uint8), self.parameters.view(np.uint8)):
            raise TrainingError(
                f"rank {self.rank} changed its parameters in iteration {iteration} while their gradient was computed; "
                "change them after the last bucket"
            )

    async def step(self) -> None:
        self._compute.step()
        await self._in_loop(Phase.STEP, self._pace.stepped_ns(self.kernel.now_ns))

    async def evaluate(self) -> Evaluation:
        """Loss and accuracy on the test samples, as the parameters are now."""
        kernel, task = self.kernel, self.kernel.current
        start_ns = max(kernel.now_ns, self._thread_free_ns)
        self._thread_free_ns = end_ns = self._pace.evaluated_ns(start_ns)
        evaluation = self._compute.evaluate()
        self.span(Phase.EVALUATE, kernel.now_ns, start_ns, end_ns, task)
        if end_ns > kernel.now_ns:
            kernel.resume_at(end_ns, task)
            await suspend()
        return evaluation

    def verdicts(self) -> Sequence[Verdict]:
        judging = self._setting.judging
        return () if judging is None else judging.heard(self.rank, self.kernel.now_ns)

    def spawn(self, coroutine: Coroutine[Any, Any, T], background: bool = False) -> Pending[T]:
        kernel, spawner = self.kernel, self.kernel.current
        background = background or spawner.background
        task = self._tasks.start(coroutine, background=background, iteration=spawner.iteration)
        self.span(Phase.SPAWN, kernel.now_ns, kernel.now_ns, kernel.now_ns, spawner, peer_task=task.number)
        return self._tasks.pending(task)

    async def copy(self, into: Vector, values: Vector) -> None:
        if not self.shapes:
            into[:] = values
        await self._in_loop(Phase.REDUCE, self._pace.copied_ns(into.nbytes, self.kernel.now_ns))

    async def accumulate(self, into: Vector, values: Vector, factor: float = 1.0) -> None:
        if not self.shapes:
            into += values if factor == 1.0 else factor * values
        await self._in_loop(Phase.REDUCE, self._pace.accumulated_ns(into.nbytes, self.kernel.now_ns))

    async def scale(self, vector: Vector, factor: float) -> None:
        if not self.shapes:
            vector *= factor
        await self._in_loop(Phase.REDUCE, self._pace.scaled_ns(vector.nbytes, self.kernel.now_ns))

    async def apply(self, into: Vector, update: Vector, *, src: int, staleness: int) -> None:
        if not self.shapes:
            into += update
        cost_ns = self._pace.accumulated_ns(into.nbytes, self.kernel.now_ns)
        await self._in_loop(Phase.REDUCE, cost_ns, src=src, staleness=min(staleness, MOST_STALENESS))

    async def round_as_sent(self, values: Vector) -> None:
        """Does nothing: messages are sent as they are."""

    async def calculate(self, work: Callable[[], T], *, nbytes: int, shapes: Callable[[], T]) -> T:
        result = shapes() if self.shapes else work()
        await self._in_loop(Phase.REDUCE, self._pace.accumulated_ns(nbytes, self.kernel.now_ns))
        return result

    def _onset(self, onset: Onset | None) -> None:
        if onset is None:
            return
        now_ns = self.kernel.now_ns
        if onset.links:
            self._changed(onset.links)  # they ask their schedules again
        if onset.paused_s:
            self.pauses.add(now_ns, now_ns + round(onset.paused_s * 1e9))
            self.stop(None)
        if onset.killed:
            self.kernel.at(now_ns, self.kill, None)  # not from within: a task cannot end itself

    async def _evaluate(self, done: int) -> float | None:
        """The accuracy, if this rank evaluates after ``done`` iterations, and there is something to evaluate."""
        if self.rank != 0 or done % self._setting.evaluate_every or done == self._setting.allotment.iterations:
            return None
        accuracy = (await self.evaluate()).accuracy
        return None if self.shapes else accuracy

    async def _in_loop(self, phase: Phase, cost_ns: int, **told: int) -> None:
        """Spend ``cost_ns`` in the rank's loop, one thing at a time."""
        kernel = self.kernel
        task, now_ns = kernel.current, kernel.now_ns
        start_ns = max(now_ns, self._loop_free_ns)
        self._loop_free_ns = end_ns = self.pauses.ends_ns(start_ns, cost_ns)
        self.span(phase, now_ns, start_ns, end_ns, task, **told)
        if end_ns > now_ns:
            kernel.resume_at(end_ns, task)
            await suspend()

    def _main_ended(self) -> None:
        """The strategy has returned: peers are told, unless background tasks go on serving them."""
        if not self._tasks.serving:
            self.farewell("it has ended its training; no more messages come from it", orderly=True)
        self._ended()

    def _awaited_task(self, number: int, task: Task, posted_ns: int) -> None:
        self.span(Phase.AWAIT_TASK, posted_ns, posted_ns, self.kernel.now_ns, task, peer_task=number)
