"""Emulated slow computing by sleeping: what takes c seconds of CPU lasts at least c / speed.

::

    speed 0.5   begin |--cpu--|..sleep..|-cpu-|..sleep...|
                      |<-- forward ---->|<-- bucket 0 -->|      ends at begin + (sum of c so far) / speed

The c of each segment are calibrated once, before training: what a segment takes while other hosts of an emulation
compete for the same cores is noise, which must not be multiplied. Deadlines count from the gradient's begin, so that a
segment which was late is made up for by the next. A batch of another size takes c = fixed + per sample * samples.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from e2c_dl.errors import TrainingError

QUANTILE = 0.25
"""Of the calibration's repetitions: low, because interruptions only ever add; not the lowest, which may be luck."""


def typical(repetitions: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """CPU seconds of each segment of a gradient; ``repetitions[i][j]`` is segment j in repetition i of the same one."""
    return tuple(float(each) for each in np.quantile(repetitions, QUANTILE, axis=0))


@dataclass(frozen=True, kw_only=True)
class SegmentTimes:
    """CPU seconds of a gradient's segments, for a batch of ``samples``.

    ``fixed[j]`` is the share (0..1) of segment j that does not depend on the batch's size; unknown, it counts as 0.
    """

    samples: int
    seconds: tuple[float, ...]
    fixed: tuple[float, ...]

    def deadlines_s(self, samples: int) -> tuple[float, ...]:
        """When each segment of a gradient over ``samples`` ends, from its begin, at this processor's speed."""
        ratio = samples / self.samples
        scaled = (second * (f + (1 - f) * ratio) for second, f in zip(self.seconds, self.fixed, strict=True))
        return tuple(accumulate(scaled))

    def agreed(self, seconds: Sequence[float]) -> SegmentTimes:
        """These times with ``seconds``, which several hosts have agreed on, in place of this host's own."""
        return replace(self, seconds=tuple(seconds))


def segment_times(
    samples: int, seconds: Sequence[float], fewer: int, seconds_of_fewer: Sequence[float]
) -> SegmentTimes:
    """The times of a batch of ``samples``, their fixed shares from those of a smaller batch of ``fewer``."""
    fixed = []
    for second, less in zip(seconds, seconds_of_fewer, strict=True):
        per_sample_s = max(0.0, second - less) / (samples - fewer)
        fixed.append(min(1.0, max(0.0, 1 - per_sample_s * samples / second)) if second > 0 else 0.0)
    return SegmentTimes(samples=samples, seconds=tuple(seconds), fixed=tuple(fixed))


class Pacing:
    """Holds a thread until what it did would have ended at ``speed`` times this processor's. ``speed`` None: never."""

    def __init__(self, speed: float | None = None) -> None:
        if speed is not None and not 0 < speed <= 1:
            raise TrainingError(f"speed {speed}: a host can be emulated at more than 0 and at most 1 of its own speed")
        self.speed = speed
        self._times: SegmentTimes | None = None
        self._interrupted = threading.Event()

    def calibrated(self, times: SegmentTimes) -> None:
        """Pace by ``times`` from now on."""
        self._times = times

    def deadlines_ns(self, begin_ns: int, samples: int) -> tuple[int, ...]:
        """When the segments of a gradient over ``samples``, begun at ``begin_ns``, may end; empty: nothing is paced."""
        if self.speed is None or self._times is None:
            return ()
        return tuple(begin_ns + int(end_s / self.speed * 1e9) for end_s in self._times.deadlines_s(samples))

    def segment(self, index: int, deadlines_ns: Sequence[int]) -> None:
        """Return when segment ``index`` of a gradient with these deadlines may end. Raises: TrainingError."""
        if deadlines_ns:
            self._sleep_until(deadlines_ns[index])

    def once(self, begin_ns: int, cpu_ns: int) -> None:
        """Return when something begun at ``begin_ns``, which took ``cpu_ns``, may end: for what is not calibrated."""
        if self.speed is not None:
            self._sleep_until(begin_ns + int(cpu_ns / self.speed))

    def stop(self) -> None:
        """Wake the thread that sleeps, and fail it and whatever is paced later: training is over."""
        self._interrupted.set()

    def _sleep_until(self, deadline_ns: int) -> None:
        remaining_s = (deadline_ns - time.monotonic_ns()) / 1e9
        if self._interrupted.is_set() or (remaining_s > 0 and self._interrupted.wait(remaining_s)):
            raise TrainingError("training was stopped during a gradient")
