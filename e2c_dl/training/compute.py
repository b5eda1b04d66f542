"""The mathematics of one rank on torch: gradient bucket by bucket, optimizer, evaluation.

Implements :class:`e2c_dl.strategies.base.Compute`. One torch thread and deterministic algorithms: the same batches give
the same bits on the same torch build and processor; several threads are slower on small models, and reorder sums.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from e2c_dl.errors import TrainingError
from e2c_dl.scenario.model import Training
from e2c_dl.strategies.base import Evaluation, OnSegment
from e2c_dl.trace.model import Phase
from e2c_dl.training import datasets, models
from e2c_dl.training.flat import FlatModel
from e2c_dl.training.pacing import Pacing, typical
from e2c_dl.training.partitions import batch_indices

CALIBRATIONS = 12
_WARM_UPS = 3  # the first gradients allocate, and choose kernels

Vector = npt.NDArray[np.floating[Any]]


def make_deterministic() -> None:
    """One thread, deterministic algorithms, in this whole process; once, before any gradient."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def torch_facts() -> dict[str, str | int]:
    """What of torch decides the bits of a result: version, CPU capability, threads; as it is now."""
    return {
        "version": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


class TorchCompute:
    """One rank's model, data and optimizer, as ``training`` says. Its vectors share torch's memory.

    Raises: InputError, TrainingError: an unknown model or data set, too few samples for a batch.
    """

    def __init__(self, training: Training, *, rank: int, size: int, pacing: Pacing | None = None) -> None:
        self._training, self._rank, self._size = training, rank, size
        self.pacing = pacing or Pacing()
        dtype = models.dtype_of(training.dtype)
        data = datasets.load(training.dataset, dtype=training.dtype)
        self._train = (torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels))
        self._test = (torch.from_numpy(data.test_images), torch.from_numpy(data.test_labels))
        self._indices(0)  # a batch that cannot be drawn is an error now, not in the middle
        self._flat = FlatModel(models.build(training.model, seed=training.seed, dtype=dtype), training.bucket_bytes)
        self._missing = [0] * len(self.buckets)  # parameters of each bucket that backward has yet to reach
        self._complete: Callable[[int], None] | None = None  # called with a bucket when it is complete
        for index, parameter in enumerate(self._flat.tensors):
            hook = self._hook(self._flat.bucket_of[index])
            parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        self._optimizer = torch.optim.SGD(
            [self._flat.vector], lr=training.learning_rate, momentum=training.momentum, foreach=False
        )

    @property
    def parameters(self) -> Vector:
        return self._flat.parameters

    @property
    def gradients(self) -> Vector:
        return self._flat.gradients

    @property
    def buckets(self) -> Sequence[slice]:
        return self._flat.buckets

    def gradient(self, iteration: int, on_segment: OnSegment) -> float:
        """Mean loss over the batch of ``iteration``; its gradient is written into ``gradients``, bucket by bucket.

        Each segment is held back as pacing says before it is reported.
        """
        begin_ns = last_ns = time.monotonic_ns()
        images, labels = self._batch(iteration)
        self._flat.gradient.zero_()
        drawn_ns = time.monotonic_ns()
        on_segment(Phase.DATA, -1, last_ns, drawn_ns)
        loss = functional.cross_entropy(self._flat.model(images), labels)
        self.pacing.segment(0, begin_ns)
        last_ns = time.monotonic_ns()
        on_segment(Phase.FORWARD, -1, drawn_ns, last_ns)
        segment = 0

        def complete(bucket: int) -> None:
            nonlocal last_ns, segment
            segment += 1
            self.pacing.segment(segment, begin_ns)
            started_ns, last_ns = last_ns, time.monotonic_ns()
            on_segment(Phase.BACKWARD, bucket, started_ns, last_ns)

        self._backward(loss, complete)
        return float(loss.detach())

    def step(self) -> None:
        self._optimizer.step()

    @torch.no_grad()
    def evaluate(self) -> Evaluation:
        begin_ns, begin_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        images, labels = self._test
        scores = self._flat.model(images)
        loss = float(functional.cross_entropy(scores, labels))
        accuracy = float((scores.argmax(dim=1) == labels).to(torch.float64).mean())
        self.pacing.once(begin_ns, time.thread_time_ns() - begin_cpu_ns)
        return Evaluation(loss=loss, accuracy=accuracy)

    def calibrate(self, repetitions: int = CALIBRATIONS) -> tuple[float, ...]:
        """CPU seconds of forward and of each bucket's backward, measured now; the parameters stay as they are.

        Takes ``repetitions`` and a few more gradients, in the calling thread. Pacing goes by it from then on.
        """
        measured = [self._measure() for _ in range(_WARM_UPS + repetitions)]
        self._flat.gradient.zero_()
        segments_s = typical(measured[_WARM_UPS:])
        self.pace(segments_s)
        return segments_s

    def pace(self, segments_s: Sequence[float]) -> None:
        """Let pacing go by ``segments_s``, in the order of :meth:`calibrate`."""
        self.pacing.calibrated(segments_s)

    def _measure(self) -> list[float]:
        marks_ns = [time.thread_time_ns()]
        images, labels = self._batch(0)
        self._flat.gradient.zero_()
        loss = functional.cross_entropy(self._flat.model(images), labels)
        marks_ns.append(time.thread_time_ns())
        self._backward(loss, lambda _: marks_ns.append(time.thread_time_ns()))
        return [seconds / 1e9 for seconds in np.diff(marks_ns)]

    def _backward(self, loss: torch.Tensor, complete: Callable[[int], None]) -> None:
        for bucket in range(len(self.buckets)):
            self._missing[bucket] = self._flat.bucket_of.count(bucket)
        self._complete = complete
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            self._complete = None
        if any(self._missing):
            raise TrainingError(f"model {self._training.model}: some parameters have no gradient; use all of them")

    def _hook(self, bucket: int) -> Callable[[torch.Tensor], None]:
        def accumulated(_: torch.Tensor) -> None:
            self._missing[bucket] -= 1
            if not self._missing[bucket] and self._complete is not None:
                self._complete(bucket)

        return accumulated

    def _batch(self, iteration: int) -> tuple[torch.Tensor, torch.Tensor]:
        indices = torch.from_numpy(self._indices(iteration))
        return self._train[0][indices], self._train[1][indices]

    def _indices(self, iteration: int) -> npt.NDArray[np.int64]:
        return batch_indices(
            len(self._train[1]), seed=self._training.seed, rank=self._rank, size=self._size,
            batch_size=self._training.batch_sizes[self._rank], iteration=iteration,
        )  # fmt: skip
