"""Emulated slow computing by sleeping: what takes c seconds of CPU lasts at least c / speed.

::

    speed 0.5   begin |--cpu--|..sleep..|-cpu-|..sleep...|
                      |<-- forward ---->|<-- bucket 0 -->|      ends at begin + (sum of c so far) / speed

The c of each segment are calibrated once, before training: what a segment takes while other hosts of an emulation
compete for the same cores is noise, which must not be multiplied. Deadlines count from the gradient's begin, so that a
segment which was late is made up for by the next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from e2c_dl.errors import TrainingError

QUANTILE = 0.25
"""Of the calibration's repetitions: low, because interruptions only ever add; not the lowest, which may be luck."""


def typical(repetitions: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """CPU seconds of each segment of a gradient; ``repetitions[i][j]`` is segment j in repetition i of the same one."""
    return tuple(float(each) for each in np.quantile(repetitions, QUANTILE, axis=0))


class Pacing:
    """Holds a thread until what it did would have ended at ``speed`` times this processor's. ``speed`` None: never."""

    def __init__(self, speed: float | None = None) -> None:
        if speed is not None and not 0 < speed <= 1:
            raise TrainingError(f"speed {speed}: a host can be emulated at more than 0 and at most 1 of its own speed")
        self.speed = speed
        self._deadlines_s: tuple[float, ...] = ()
        self._interrupted = threading.Event()

    def calibrated(self, segments_s: Sequence[float]) -> None:
        """Pace by these CPU seconds of the segments from now on."""
        if self.speed is not None:
            speed = self.speed
            self._deadlines_s = tuple(total / speed for total in accumulate(segments_s))

    def segment(self, index: int, begin_ns: int) -> None:
        """Return when segment ``index`` of a gradient begun at ``begin_ns`` may end. Raises: TrainingError."""
        if self._deadlines_s:
            self._sleep_until(begin_ns + int(self._deadlines_s[index] * 1e9))

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
