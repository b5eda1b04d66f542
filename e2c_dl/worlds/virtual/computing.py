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
from e2c_dl.worlds.virtual.profile import HostModel, Speed


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
        self._pauses = [(round(from_s * 1e9), round(until_s * 1e9)) for from_s, until_s in host.pauses]
        self.step_ns = round(self._profile.step_s * host.vector_factor * 1e9)
        ns_per_byte = 1e9 * host.vector_factor
        self.copy_ns_per_byte = self._profile.copy_s_per_byte * ns_per_byte
        self.accumulate_ns_per_byte = self._profile.accumulate_s_per_byte * ns_per_byte
        self.scale_ns_per_byte = self._profile.scale_s_per_byte * ns_per_byte

    def gradient(self, samples: int, begin_ns: int) -> Sequence[Segment]:
        """A gradient of ``samples`` samples that begins at ``begin_ns``, piece by piece."""
        speed = self._host.speed
        if speed is not None:
            segments = self._at_speed(speed, samples, begin_ns)
        else:
            segments = self._at_factor(samples, begin_ns)
        if self._noise is not None:
            noise = self._noise.lognormvariate(0.0, self._host.noise)
            segments = [
                Segment(phase, bucket, round(start_ns * noise), round(end_ns * noise))
                for phase, bucket, start_ns, end_ns in segments
            ]
        if self._pauses:
            segments = [
                Segment(phase, bucket, self._held(begin_ns + start) - begin_ns, self._held(begin_ns + end) - begin_ns)
                for phase, bucket, start, end in segments
            ]
        return segments

    def evaluated_ns(self, begin_ns: int) -> int:
        """When an evaluation that begins at ``begin_ns`` ends."""
        cpu_s, speed = self._profile.evaluate_s, self._host.speed
        if speed is None:
            return self.held(begin_ns + round(cpu_s * self._host.factor * 1e9))
        end_ns = speed.ends_ns(begin_ns, cpu_s)
        speed.finished(begin_ns, cpu_s)
        return self.held(end_ns)

    def pause(self, begin_ns: int, end_ns: int) -> None:
        """The process is stopped from now, ``begin_ns``, on; what was planned to end before, has."""
        self._pauses.append((begin_ns, end_ns))

    def held(self, time_ns: int) -> int:
        """``time_ns``, or, if the process is stopped then, when it goes on."""
        return self._held(time_ns) if self._pauses else time_ns

    def _held(self, time_ns: int) -> int:
        for from_ns, until_ns in self._pauses:
            if from_ns <= time_ns < until_ns:
                return until_ns
        return time_ns

    def _at_factor(self, samples: int, begin_ns: int) -> Sequence[Segment]:
        while self._changes and self._changes[0][0] * 1e9 <= begin_ns:
            self._factor = self._changes.popleft()[1]
            self._segments.clear()
        segments = self._segments.get(samples)
        if segments is None:
            segments = self._segments[samples] = self._paced(samples)
        return segments

    def _at_speed(self, speed: Speed, samples: int, begin_ns: int) -> Sequence[Segment]:
        segments, cpu_s, start_ns = [], 0.0, 0
        for phase, bucket, seconds in self._pieces(samples):
            cpu_s += seconds
            end_ns = speed.ends_ns(begin_ns, cpu_s) - begin_ns
            segments.append(Segment(phase, bucket, start_ns, end_ns))
            start_ns = end_ns
        speed.finished(begin_ns, cpu_s)
        return segments

    def _pieces(self, samples: int) -> list[tuple[Phase, int, float]]:
        """(phase, bucket, seconds of the profile)."""
        times = self._profile.gradient(samples)
        pieces = [(Phase.DATA, -1, times.data_s), (Phase.FORWARD, -1, times.forward_s)]
        return pieces + [(Phase.BACKWARD, bucket, seconds) for bucket, seconds in enumerate(times.backward_s)]

    def _paced(self, samples: int) -> tuple[Segment, ...]:
        segments, before_s = [], 0.0
        for phase, bucket, seconds in self._pieces(samples):
            start_s, before_s = before_s, before_s + seconds * self._factor
            segments.append(Segment(phase, bucket, round(start_s * 1e9), round(before_s * 1e9)))
        return tuple(segments)
