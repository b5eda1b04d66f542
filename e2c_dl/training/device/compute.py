"""The mathematics of one rank on an accelerator.

Parameters and gradients that others see stay flat vectors in the host's memory; the model on the device has its own::

    host     |DATA|
    device        |COPY params, batch|FORWARD|BACKWARD b0|COPY b0|BACKWARD b1|COPY b1|
                                                                 ^ b0 is announced, once its copy is here

All of it is asked for at once, and nothing waits on the device for the host. The host waits for each bucket's copy,
which it needs anyway, and learns from the marks when each piece was computed. A segment that is paced (an emulated
speed) ends when the host lets it end; its copy is then a part of it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from e2c_dl.scenario.model import Training
from e2c_dl.strategies.base import OnSegment
from e2c_dl.trace.model import Phase
from e2c_dl.training.compute import TorchCompute
from e2c_dl.training.device.events import Events
from e2c_dl.training.device.timeline import Mark, Timeline
from e2c_dl.training.flat import FlatModel
from e2c_dl.training.pacing import PacedGradient, Pacing
from e2c_dl.training.samples import Batch


@dataclass(frozen=True)
class Asked:
    """A gradient that the device was asked for: the marks around its pieces, in its own order."""

    begun: Mark
    loaded: Mark
    forward: Mark
    buckets: tuple[tuple[int, Mark, Mark], ...]  # (bucket, computed, copied)
    loss: torch.Tensor


class DeviceCompute(TorchCompute):
    """As TorchCompute, on the device whose marks ``events`` sets."""

    def __init__(
        self, training: Training, events: Events, *, rank: int, size: int, pacing: Pacing | None = None
    ) -> None:
        self._device = events.device
        self._timeline = Timeline(events)
        super().__init__(training, rank=rank, size=size, pacing=pacing)

    @property
    def uncertainty_ns(self) -> int:
        """How far the times of its spans may be off."""
        return self._timeline.uncertainty_ns

    def _placed(self, model: nn.Module) -> tuple[FlatModel, FlatModel]:
        there = copy.deepcopy(model).to(self._device)
        pinned = self._device.type == "cuda"
        size = self._training.bucket_bytes
        return FlatModel(model, size, pinned=pinned), FlatModel(there, size)

    def _there(self, images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return images.to(self._device), labels.to(self._device)

    @torch.no_grad()
    def _load(self) -> None:
        self._model.vector.copy_(self._flat.vector)  # waits: others may write them as soon as this returns

    def _computed(self, draw: Callable[[], Batch], samples: int, on_segment: OnSegment) -> float:
        begin_ns = time.monotonic_ns()
        paced = self.pacing.gradient(begin_ns, samples)
        batch = draw()
        on_segment(Phase.DATA, -1, begin_ns, time.monotonic_ns())
        asked = self._ask(batch)
        self._tell(asked, paced, on_segment)
        return float(asked.loss)

    def _ask(self, batch: Batch) -> Asked:
        line, buckets = self._timeline, []
        begun = line.mark()
        self._load()
        images, labels = self._there(*batch)
        self._model.gradient.zero_()
        loaded = line.mark()
        loss = self._loss(images, labels)
        forward = line.mark()

        def complete(bucket: int) -> None:
            computed = line.mark()
            where = self.buckets[bucket]
            self._flat.gradient[where].copy_(self._model.gradient[where], non_blocking=True)
            buckets.append((bucket, computed, line.mark()))

        self._backward(loss, complete)
        return Asked(begun, loaded, forward, tuple(buckets), loss.detach())

    def _tell(self, asked: Asked, paced: PacedGradient, on_segment: OnSegment) -> None:
        """Report each piece as soon as it is complete here."""
        line, held = self._timeline, self.pacing.speed is not None
        line.wait(asked.begun)
        line.wait(asked.forward)
        paced.segment(0)
        on_segment(Phase.COPY, -1, line.host_ns(asked.begun), line.host_ns(asked.loaded))
        last_ns = time.monotonic_ns() if held else line.host_ns(asked.forward)
        on_segment(Phase.FORWARD, -1, line.host_ns(asked.loaded), last_ns)
        for segment, (bucket, computed, copied) in enumerate(asked.buckets, 1):
            line.wait(copied)
            paced.segment(segment)
            # Each wait tells more of how the clocks stand: a later mark may be placed before an earlier one.
            computed_ns = max(last_ns, time.monotonic_ns() if held else line.host_ns(computed))
            on_segment(Phase.BACKWARD, bucket, last_ns, computed_ns)
            last_ns = computed_ns
            if not held:
                last_ns = max(computed_ns, line.host_ns(copied))
                on_segment(Phase.COPY, bucket, computed_ns, last_ns)
        line.count_from(asked.buckets[-1][2])

    def _measure(self, samples: int) -> list[float]:
        begin_ns = time.thread_time_ns()
        batch = self._samples.ahead(samples)
        drawn_s = (time.thread_time_ns() - begin_ns) / 1e9
        asked = self._ask(batch)
        self._timeline.wait(asked.buckets[-1][2])
        marks = [asked.begun, asked.forward, *(copied for _, _, copied in asked.buckets)]
        seconds = [earlier.event.ms_until(later.event) / 1e3 for earlier, later in pairwise(marks)]
        self._timeline.count_from(marks[-1])
        return [drawn_s, *seconds]
