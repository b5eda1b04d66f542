"""Gradients of one rank, computed in a thread of their own, and announced to the event loop bucket by bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Compute, Evaluation
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.recorder import Recorder

COMPUTE_TASK = -1


class Computing:
    """Runs ``compute`` in ``thread``, which has exactly one thread, so that gradient and evaluation never overlap.

    ``loss`` and ``seconds`` are the last gradient's; NaN and 0.0 before the first.
    """

    def __init__(self, compute: Compute, thread: Executor, recorder: Recorder) -> None:
        self.compute = compute
        self.loss = float("nan")
        self.seconds = 0.0
        self._thread = thread
        self._recorder = recorder

    async def gradient(self, iteration: int, samples: int) -> AsyncIterator[tuple[int, int]]:
        """(bucket, when it was asked for, in ns of the recorder's clock) as buckets become complete.

        Raises: what the gradient raises; TrainingError if it ends before all buckets.
        """
        loop = asyncio.get_running_loop()
        ready: asyncio.Queue[int | None] = asyncio.Queue()  # None: the thread has ended

        def on_segment(phase: Phase, bucket: int, start_ns: int, end_ns: int) -> None:
            where = {"task": COMPUTE_TASK, "iteration": iteration, "bucket": bucket}
            where["seq"] = samples if phase is Phase.FORWARD else -1
            self._recorder.record(phase, start_ns, start_ns, end_ns, **where)
            if phase is Phase.BACKWARD:
                loop.call_soon_threadsafe(ready.put_nowait, bucket)  # asyncio's queues are not thread-safe

        def work() -> None:
            begin_ns = self._recorder.clock()  # in the thread: what waits for it is not computing
            self.loss = self.compute.gradient(iteration, samples, on_segment)
            self.seconds = (self._recorder.clock() - begin_ns) / 1e9

        working = loop.run_in_executor(self._thread, work)
        working.add_done_callback(lambda _: ready.put_nowait(None))  # also if it fails: somebody waits for a bucket
        for _ in self.compute.buckets:
            asked_ns = self._recorder.clock()
            bucket = await ready.get()
            if bucket is None:
                await working
                raise TrainingError("a gradient ended before all its buckets; the model is at fault")
            yield bucket, asked_ns
        await working

    async def evaluate(self) -> Evaluation:
        """Loss and accuracy on the test samples, now."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.compute.evaluate)
