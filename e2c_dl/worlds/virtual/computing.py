"""What one rank computes with, and how long it takes: a Compute and its host's profile under virtual time.

::

    compute thread   | gradient: data, forward, backward by bucket |  | evaluate |        one after another
    loop             | step |  | accumulate |  | copy |                                   one after another

The two run beside each other, as in the live world; that they may compete for one core is not modelled. Noise is drawn
once per gradient from a generator of its own, so that it changes no strategy's draws.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual.profile import HostModel


class Segment(NamedTuple):
    """A piece of a gradient, times in ns from its begin."""

    phase: Phase
    bucket: int
    start_ns: int
    end_ns: int


class Pace:
    """The durations of one rank's host, in ns."""

    def __init__(self, host: HostModel, *, rank: int, seed: int) -> None:
        self._host, self._profile = host, host.profile
        self._noise = random.Random(f"{seed} noise {rank}") if host.noise else None
        self._segments: dict[int, tuple[Segment, ...]] = {}
        self._factor = host.factor
        self._changes = deque(host.schedule)
        self.step_ns = round(self._profile.step_s * host.vector_factor * 1e9)
        self.evaluate_ns = round(self._profile.evaluate_s * host.factor * 1e9)
        ns_per_byte = 1e9 * host.vector_factor
        self.copy_ns_per_byte = self._profile.copy_s_per_byte * ns_per_byte
        self.accumulate_ns_per_byte = self._profile.accumulate_s_per_byte * ns_per_byte
        self.scale_ns_per_byte = self._profile.scale_s_per_byte * ns_per_byte

    def gradient(self, samples: int, now_ns: int) -> Sequence[Segment]:
        """The next gradient of ``samples`` samples, piece by piece."""
        while self._changes and self._changes[0][0] * 1e9 <= now_ns:
            self._factor = self._changes.popleft()[1]
            self._segments.clear()
        segments = self._segments.get(samples)
        if segments is None:
            segments = self._segments[samples] = self._paced(samples)
        if self._noise is None:
            return segments
        noise = self._noise.lognormvariate(0.0, self._host.noise)
        return [
            Segment(phase, bucket, round(start_ns * noise), round(end_ns * noise))
            for phase, bucket, start_ns, end_ns in segments
        ]

    def _paced(self, samples: int) -> tuple[Segment, ...]:
        times = self._profile.gradient(samples)
        pieces = [(Phase.DATA, -1, times.data_s), (Phase.FORWARD, -1, times.forward_s)]
        pieces += [(Phase.BACKWARD, bucket, seconds) for bucket, seconds in enumerate(times.backward_s)]
        segments, before_s = [], 0.0
        for phase, bucket, seconds in pieces:
            start_s, before_s = before_s, before_s + seconds * self._factor
            segments.append(Segment(phase, bucket, round(start_s * 1e9), round(before_s * 1e9)))
        return tuple(segments)
