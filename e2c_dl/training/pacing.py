"""Emulated slow computing by sleeping: what takes c seconds of CPU lasts at least c / speed.

::

    speed 0.5   begin |--cpu--|..sleep..|-cpu-|..sleep...|
                      |<-- forward ---->|<-- bucket 0 -->|      ends at begin + (sum of c so far) / speed

The c of each segment are calibrated once, before training: what a segment takes while other hosts of an emulation
compete for the same cores is noise, which must not be multiplied. Deadlines count from the gradient's begin, so that a
segment which was late is made up for by the next. A batch of another size takes c = fixed + per sample * samples.
A speed that changes (:mod:`e2c_dl.dynamics.speed`) makes it: ends when the integral of speed(t) dt reaches c.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from e2c_dl.dynamics.speed import ConstantSpeed, Speed
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
        per_sample_s = max(0.0, second - less) / (samples - fewer)  # noise may let fewer take longer
        fixed.append(min(1.0, max(0.0, 1 - per_sample_s * samples / second)) if second > 0 else 0.0)
    return SegmentTimes(samples=samples, seconds=tuple(seconds), fixed=tuple(fixed))


class Pacing:
    """Holds a thread until what it did would have ended at ``speed``. ``speed`` None: never; a number: all the time."""

    def __init__(self, speed: Speed | float | None = None) -> None:
        self.speed = ConstantSpeed(speed) if isinstance(speed, int | float) else speed
        self._times: SegmentTimes | None = None
        self._interrupted = threading.Event()  # a sleep that stop() can end, unlike time.sleep

    def calibrated(self, times: SegmentTimes) -> None:
        self._times = times

    def gradient(self, begin_ns: int, samples: int) -> PacedGradient:
        """What paces the segments of a gradient over ``samples``, begun at ``begin_ns``."""
        paced = self.speed is not None and self._times is not None
        return PacedGradient(self, begin_ns, self._times.deadlines_s(samples) if paced and self._times else ())

    def once(self, begin_ns: int, cpu_ns: int) -> None:
        """Return when something begun at ``begin_ns``, which took ``cpu_ns``, may end: for what is not calibrated."""
        self.hold(begin_ns, cpu_ns / 1e9)
        self.finished(begin_ns, cpu_ns / 1e9)

    def hold(self, begin_ns: int, cpu_s: float) -> None:
        """Return when ``cpu_s`` of computing, begun at ``begin_ns``, may end. Raises: TrainingError if stopped."""
        if self.speed is None:
            return
        while (remaining_ns := self.speed.ends_ns(begin_ns, cpu_s) - time.monotonic_ns()) > 0:
            if self._interrupted.wait(remaining_ns / 1e9):
                break  # the speed may change while it sleeps, so that the end is asked for again otherwise
        if self._interrupted.is_set():
            raise TrainingError("training was stopped during a gradient")

    def finished(self, begin_ns: int, cpu_s: float) -> None:
        """All of the computing that began at ``begin_ns`` has ended."""
        if self.speed is not None:
            self.speed.finished(begin_ns, cpu_s)

    def stop(self) -> None:
        """Wake the thread that sleeps, and fail it and whatever is paced later: training is over."""
        self._interrupted.set()


class PacedGradient:
    """One gradient under way. ``ends_s``: CPU seconds from its begin to the end of each segment; empty: not paced."""

    def __init__(self, pacing: Pacing, begin_ns: int, ends_s: Sequence[float]) -> None:
        self._pacing, self._begin_ns, self._ends_s = pacing, begin_ns, ends_s

    def segment(self, index: int) -> None:
        """Return when segment ``index`` may end. Raises: TrainingError."""
        if not self._ends_s:
            return
        self._pacing.hold(self._begin_ns, self._ends_s[index])
        if index == len(self._ends_s) - 1:  # told once, of the whole: the next gradient goes on with this heat
            self._pacing.finished(self._begin_ns, self._ends_s[index])
