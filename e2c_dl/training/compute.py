"""The mathematics of one rank on torch: gradient bucket by bucket, optimizer, evaluation.

Implements :class:`e2c_dl.strategies.base.Compute`. One torch thread and deterministic algorithms: the same batches give
the same bits on the same torch build and processor; several threads are slower on small models, and reorder sums.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

from e2c_dl.errors import InputError, TrainingError
from e2c_dl.scenario.model import Training
from e2c_dl.strategies.base import Evaluation, OnSegment, TensorShapes
from e2c_dl.trace.model import Phase
from e2c_dl.training import datasets, models
from e2c_dl.training.flat import FlatModel
from e2c_dl.training.optimizers import optimizer
from e2c_dl.training.pacing import Pacing, SegmentTimes, segment_times, typical
from e2c_dl.training.samples import Samples

CALIBRATIONS = 12
_WARM_UPS = 3  # the first gradients allocate, and choose kernels

Vector = npt.NDArray[np.floating[Any]]


def make_deterministic() -> None:
    """One thread, deterministic algorithms, in this whole process; once, before any gradient.

    torch.use_deterministic_algorithms(True) sets the same, but imports torch's compiler to tell it: CPU time of each
    worker, for what nobody here uses.
    """
    torch.set_num_threads(1)  # two were ten times slower than one on small models
    torch.set_deterministic_debug_mode("error")  # what has no such algorithm raises, rather than differ


def torch_facts() -> dict[str, str | int]:
    """What of torch decides the bits of a result: version, CPU capability, threads; as it is now."""
    return {
        "version": str(torch.__version__),  # a kind of str of its own, which the codec of records refuses
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


class TorchCompute:
    """One rank's model, data and optimizer, as ``training`` says. Its vectors share torch's memory.

    Batches come one after the other from the rank's stream of samples, in the order in which gradients are asked for.

    Raises: InputError, TrainingError: an unknown model or data set, too few samples for a batch.
    """

    def __init__(self, training: Training, *, rank: int, size: int, pacing: Pacing | None = None) -> None:
        self._training = training
        self._batch_size = training.batch_sizes[rank]
        self.pacing = pacing or Pacing()
        dtype = models.dtype_of(training.dtype)
        data = datasets.load(training.dataset, dtype=training.dtype, data_dir=training.data_dir, code=training.code)
        self._samples = Samples(data, training, rank=rank, size=size)
        self._classes = data.classes
        model = models.build(
            training.model, seed=training.seed, dtype=dtype, shape=data.shape, classes=data.classes, code=training.code
        )
        self._flat, self._model = self._placed(model)
        self._missing = [0] * len(self.buckets)  # parameters of each bucket that backward has yet to reach
        self._complete: Callable[[int], None] | None = None  # called with a bucket when it is complete
        for index, parameter in enumerate(self._model.tensors):
            hook = self._hook(self._flat.bucket_of[index])
            parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        self._check_fit()  # torch's own message, later, would name neither model nor data set
        self._optimizer = optimizer(training, self._flat.vector)
        self._times: SegmentTimes | None = None  # until calibrated: pacing knows nothing to pace by

    def _placed(self, model: nn.Module) -> tuple[FlatModel, FlatModel]:
        """(whose vectors others see, what computes): one and the same here."""
        flat = FlatModel(model, self._training.bucket_bytes)
        return flat, flat

    def _there(self, images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch where the model computes."""
        return images, labels

    def _load(self) -> None:
        """The model computes with the parameters as others see them now: it always does here."""

    @property
    def parameters(self) -> Vector:
        return self._flat.parameters

    @property
    def gradients(self) -> Vector:
        return self._flat.gradients

    @property
    def buckets(self) -> Sequence[slice]:
        return self._flat.buckets

    @property
    def tensor_shapes(self) -> Sequence[TensorShapes]:
        return self._flat.tensor_shapes

    @property
    def samples(self) -> int:
        """How many samples this rank trains on, in each epoch."""
        return len(self._samples)

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        """Mean loss over the next ``samples`` samples; its gradient is written into ``gradients``, bucket by bucket.

        Each segment is held back as pacing says before it is reported. ``iteration`` is the caller's, and not used:
        what is drawn depends on what was drawn before.
        """
        return self._computed(lambda: self._samples.draw(samples), samples, on_segment)

    def trial(self) -> float:
        """Seconds that a gradient takes at the speed of training; parameters and samples stay as they are."""
        begin_ns = time.monotonic_ns()
        self._computed(lambda: self._samples.ahead(self._batch_size), self._batch_size, lambda *_: None)
        self._flat.gradient.zero_()
        return (time.monotonic_ns() - begin_ns) / 1e9

    def _computed(
        self, draw: Callable[[], tuple[torch.Tensor, torch.Tensor]], samples: int, on_segment: OnSegment
    ) -> float:
        begin_ns = last_ns = time.monotonic_ns()
        paced = self.pacing.gradient(begin_ns, samples)
        images, labels = draw()
        self._flat.gradient.zero_()  # in place: the parameters' gradients are views of it
        drawn_ns = time.monotonic_ns()
        on_segment(Phase.DATA, -1, last_ns, drawn_ns)
        loss = self._loss(images, labels)
        paced.segment(0)  # before its end is looked at: the span shall show the emulated speed
        last_ns = time.monotonic_ns()
        on_segment(Phase.FORWARD, -1, drawn_ns, last_ns)
        segment = 0

        def complete(bucket: int) -> None:
            nonlocal last_ns, segment
            segment += 1
            paced.segment(segment)
            started_ns, last_ns = last_ns, time.monotonic_ns()
            on_segment(Phase.BACKWARD, bucket, started_ns, last_ns)

        self._backward(loss, complete)
        return float(loss.detach())

    def step(self) -> None:
        self._optimizer.step()

    @torch.no_grad()
    def evaluate(self) -> Evaluation:
        """Loss and accuracy on the test samples; a model that behaves otherwise in evaluation does so."""
        begin_ns, begin_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        loss, right, count = 0.0, 0, 0
        self._load()
        self._model.model.eval()  # a model of the user's own may have dropout, or batch normalisation
        for batch in self._samples.tests():
            images, labels = self._there(*batch)
            scores = self._model.model(images)
            loss += float(functional.cross_entropy(scores, labels)) * len(labels)
            right += int((scores.argmax(dim=1) == labels).sum())
            count += len(labels)
        self._model.model.train()
        self.pacing.once(begin_ns, time.thread_time_ns() - begin_cpu_ns)  # not calibrated: paced by what it took
        return Evaluation(loss=loss / count, accuracy=right / count)

    def calibrate(self, repetitions: int = CALIBRATIONS) -> tuple[float, ...]:
        """CPU seconds of forward, drawing included, and of each bucket's backward, measured now.

        Takes ``repetitions`` and a few more gradients, in the calling thread, twice if batches may change their size;
        changes neither parameters nor the stream of samples. Pacing goes by it from then on.
        """
        segments_s = self._typical(self._batch_size, repetitions)
        fewer = self._batch_size // 2  # two sizes tell which part of the time does not depend on the size
        if self._training.batching == "fixed" or fewer == 0:
            self._times = SegmentTimes(samples=self._batch_size, seconds=segments_s, fixed=(0.0,) * len(segments_s))
        else:
            of_fewer_s = self._typical(fewer, repetitions)
            self._times = segment_times(self._batch_size, segments_s, fewer, of_fewer_s)
        self.pacing.calibrated(self._times)
        return segments_s

    def pace(self, segments_s: Sequence[float]) -> None:
        """Let pacing go by ``segments_s``, in the order of :meth:`calibrate`.

        Raises: TrainingError, if that was not called before.
        """
        if self._times is None:
            raise TrainingError("pacing was set before anything was calibrated; call calibrate first")
        self.pacing.calibrated(self._times.agreed(segments_s))

    def measured(self, samples: int, repetitions: int) -> list[list[float]]:
        """CPU seconds of drawing, forward and each bucket's backward, by repetition, on batches of ``samples``.

        Parameters and the stream of samples stay as they are; the gradient is zero afterwards.
        """
        measured = [self._measure(samples) for _ in range(_WARM_UPS + repetitions)]  # the warm-ups are thrown away
        self._flat.gradient.zero_()
        return measured[_WARM_UPS:]

    def _typical(self, samples: int, repetitions: int) -> tuple[float, ...]:
        """Pacing's segments: drawing belongs to the first."""
        return typical(
            [[data_s + forward_s, *rest] for data_s, forward_s, *rest in self.measured(samples, repetitions)]
        )

    def _measure(self, samples: int) -> list[float]:
        marks_ns = [time.thread_time_ns()]  # CPU time, unlike the spans': other hosts of the machine compete for it
        images, labels = self._samples.ahead(samples)  # not drawn: training begins with the same samples
        self._flat.gradient.zero_()
        marks_ns.append(time.thread_time_ns())
        loss = self._loss(images, labels)
        marks_ns.append(time.thread_time_ns())
        self._backward(loss, lambda _: marks_ns.append(time.thread_time_ns()))
        return [seconds / 1e9 for seconds in np.diff(marks_ns)]

    def _loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self._model.model(images), labels)

    @torch.no_grad()
    def _check_fit(self) -> None:
        """Raises: InputError, if the model cannot read a sample or has not a score for each class."""
        training, model = self._training, self._model.model
        images, _ = self._there(*self._samples.ahead(1))
        pair = f"model {training.model} and dataset {training.dataset}"
        model.eval()  # batch normalisation may refuse to train on one sample
        try:
            scores = model(images)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:  # models refuse a shape in all these ways
            why = " ".join(str(error).split())
            shape = tuple(images.shape[1:])
            raise InputError(
                f"{pair}: they do not fit: samples are of shape {shape}: {why}; choose another model"
            ) from error
        model.train()
        if scores.shape != (1, self._classes):
            shape = tuple(scores.shape[1:])
            raise InputError(f"{pair}: they do not fit: {self._classes} classes, scores {shape}; choose another model")

    def _backward(self, loss: torch.Tensor, complete: Callable[[int], None]) -> None:
        for bucket in range(len(self.buckets)):
            self._missing[bucket] = self._flat.bucket_of.count(bucket)  # anew: a backward that failed leaves some
        self._complete = complete
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            self._complete = None
        if any(self._missing):  # their buckets would never be complete, and peers wait for ever
            raise TrainingError(f"model {self._training.model}: some parameters have no gradient; use all of them")

    def _hook(self, bucket: int) -> Callable[[torch.Tensor], None]:
        own = weakref.ref(self)  # torch keeps hooks where no garbage collector looks: this would stay for good

        def accumulated(_: torch.Tensor) -> None:
            if (compute := own()) is not None:
                compute._accumulated(bucket)

        return accumulated

    def _accumulated(self, bucket: int) -> None:
        self._missing[bucket] -= 1
        if not self._missing[bucket] and self._complete is not None:
            self._complete(bucket)
