"""The mathematics of one rank as shapes alone, live: vectors of the true sizes hold zeros, and only time passes.

Implements :class:`e2c_dl.strategies.base.Compute` without torch. What a gradient, a step and an evaluation take is the
stored profile's to say; pacing makes gradients and evaluations last that long at the host's speed, as it does those of
torch. Vectors are real ones: strategies add them up and send them, byte for byte. Its loss is not a number.
"""

from __future__ import annotations

import time

import numpy as np

from e2c_dl.scenario.model import Training
from e2c_dl.strategies.base import Evaluation, OnSegment, Vector
from e2c_dl.trace.model import Phase
from e2c_dl.training.pacing import Pacing, SegmentTimes, segment_times
from e2c_dl.worlds.virtual.profile import FIXED, ComputeProfile, GradientTimes

_NOT_TRAINED = Evaluation(loss=float("nan"), accuracy=float("nan"))


class PacedShapes:
    """One rank's zeros, in the buckets of ``profile``.

    Raises: InputError, if that cannot tell of the rank's batches.
    """

    def __init__(self, training: Training, profile: ComputeProfile, *, rank: int, pacing: Pacing) -> None:
        self.parameters: Vector = np.zeros(profile.parameters, dtype=profile.dtype)
        self.gradients: Vector = np.zeros_like(self.parameters)
        self.buckets, self.tensor_shapes = profile.slices, profile.tensor_shapes
        self.pacing = pacing
        self._profile = profile
        self.times = _times(training, profile, training.batch_sizes[rank])
        pacing.calibrated(self.times)

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        """Not a number, when a gradient over ``samples`` samples would have ended."""
        begin_ns = last_ns = time.monotonic_ns()
        paced = self.pacing.gradient(begin_ns, samples)
        on_segment(Phase.DATA, -1, begin_ns, begin_ns)  # drawing is paced with forward, as it is on torch
        for segment in range(1 + len(self.buckets)):
            paced.segment(segment)
            started_ns, last_ns = last_ns, time.monotonic_ns()
            phase, bucket = (Phase.BACKWARD, segment - 1) if segment else (Phase.FORWARD, -1)
            on_segment(phase, bucket, started_ns, last_ns)
        return float("nan")

    def trial(self) -> float:
        """Seconds that a gradient takes at the speed of training."""
        begin_ns = time.monotonic_ns()
        self.gradient(-1, self.times.samples, lambda *_: None)
        return (time.monotonic_ns() - begin_ns) / 1e9

    def step(self) -> None:
        """Nothing, for as long as the profile says: not slower on slow hosts, as torch's step by pacing is not."""
        time.sleep(self._profile.step_s)

    def evaluate(self) -> Evaluation:
        self.pacing.once(time.monotonic_ns(), round(self._profile.evaluate_s * 1e9))
        return _NOT_TRAINED


def _times(training: Training, profile: ComputeProfile, samples: int) -> SegmentTimes:
    """What pacing goes by: of torch, calibration says the same."""
    seconds = _segments_s(profile.gradient(samples))
    fewer = samples // 2  # two sizes tell which part of the time does not depend on the size
    if training.batching == FIXED or fewer == 0:
        return SegmentTimes(samples=samples, seconds=seconds, fixed=(0.0,) * len(seconds))
    return segment_times(samples, seconds, fewer, _segments_s(profile.gradient(fewer)))


def _segments_s(times: GradientTimes) -> tuple[float, ...]:
    return (times.data_s + times.forward_s, *times.backward_s)
