"""Pace of one rank's computing: a Compute and its host's profile under virtual time.

::

    compute thread   | gradient: data, forward, backward by bucket |  | evaluate |        one after another
    loop             | step |  | accumulate |  | copy |                                   one after another

The two run beside each other, as in the live world; that they may compete for one core is not modelled. Noise is drawn
once per gradient and once per step, from generators of their own, so that it changes no strategy's draws. While the
process is stopped, neither takes a step; a changing speed is asked as if there were no pause, and what it says is moved
on by it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from e2c_dl.dynamics.speed import Speed
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual.kernel import Pauses
from e2c_dl.worlds.virtual.pace import Pace, Segment
from e2c_dl.worlds.virtual.profile import HostModel


def pace_of(host: HostModel, *, rank: int, seed: int) -> Pace:
    """How long computing takes on ``host`` in one run."""
    return HostPace(host, rank=rank, seed=seed) if host.pace is None else host.pace()


class HostPace:
    """The durations of one rank's host, in ns. A pause that is added to ``pauses`` holds for what begins later."""

    def __init__(self, host: HostModel, *, rank: int, seed: int) -> None:
        self._host, self._profile = host, host.profile
        self._noise = random.Random(f"{seed} noise {rank}") if host.noise else None
        self._step_noise = random.Random(f"{seed} noise of steps {rank}") if host.noise else None
        self._segments: dict[int, tuple[Segment, ...]] = {}
        self.pauses = Pauses(host.pauses)
        self._step_ns = self._profile.step_s * host.vector_factor * 1e9
        ns_per_byte = 1e9 * host.vector_factor
        self._copy_ns_per_byte = self._profile.copy_s_per_byte * ns_per_byte
        self._accumulate_ns_per_byte = self._profile.accumulate_s_per_byte * ns_per_byte
        self._scale_ns_per_byte = self._profile.scale_s_per_byte * ns_per_byte

    def gradient(self, samples: int, begin_ns: int) -> Sequence[Segment]:
        """A gradient of ``samples`` samples that begins at ``begin_ns``, piece by piece."""
        speed = self._host.speed
        if speed is not None:
            segments = self._at_speed(speed, samples, begin_ns)
        else:
            if samples not in self._segments:
                self._segments[samples] = self._at_factor(samples)
            segments = self._segments[samples]
        if self._noise is not None:
            noise = self._noise.lognormvariate(0.0, self._host.noise)  # never below 0, and its median is 1
            segments = [
                Segment(phase, bucket, round(start_ns * noise), round(end_ns * noise))
                for phase, bucket, start_ns, end_ns in segments
            ]
        if self._host.slower:
            segments = self._slowed(segments, begin_ns)
        if self.pauses:
            ends_ns = self.pauses.ends_ns
            segments = [
                Segment(phase, bucket, ends_ns(begin_ns, start) - begin_ns, ends_ns(begin_ns, end) - begin_ns)
                for phase, bucket, start, end in segments
            ]
        return segments

    def copied_ns(self, nbytes: int, begin_ns: int) -> int:
        return round(nbytes * self._copy_ns_per_byte)

    def accumulated_ns(self, nbytes: int, begin_ns: int) -> int:
        return round(nbytes * self._accumulate_ns_per_byte)

    def scaled_ns(self, nbytes: int, begin_ns: int) -> int:
        return round(nbytes * self._scale_ns_per_byte)

    def stepped_ns(self, begin_ns: int) -> int:
        """How long a step that begins at ``begin_ns`` takes."""
        slower = self._host.slower.get(Phase.STEP)
        times = 1.0 if slower is None else slower.at(begin_ns / 1e9)
        if self._step_noise is not None:
            times *= self._step_noise.lognormvariate(0.0, self._host.noise)
        return round(self._step_ns * times)

    def evaluated_ns(self, begin_ns: int) -> int:
        """When an evaluation that begins at ``begin_ns`` ends."""
        cpu_s, speed = self._profile.evaluate_s, self._host.speed
        if speed is None:
            return self.pauses.ends_ns(begin_ns, round(cpu_s * self._host.factor * 1e9))
        work_ns = speed.ends_ns(begin_ns, cpu_s) - begin_ns
        speed.finished(begin_ns, cpu_s)  # its heat goes on from here
        return self.pauses.ends_ns(begin_ns, work_ns)

    def _at_speed(self, speed: Speed, samples: int, begin_ns: int) -> Sequence[Segment]:
        segments, cpu_s, start_ns = [], 0.0, 0
        for phase, bucket, seconds in self._pieces(samples):
            cpu_s += seconds
            end_ns = speed.ends_ns(begin_ns, cpu_s) - begin_ns  # from the begin: rounding does not add up
            segments.append(Segment(phase, bucket, start_ns, end_ns))
            start_ns = end_ns
        speed.finished(begin_ns, cpu_s)
        return segments

    def _slowed(self, segments: Sequence[Segment], begin_ns: int) -> Sequence[Segment]:
        slowed, end_ns = [], 0
        for phase, bucket, from_ns, to_ns in segments:
            start_ns, slower = end_ns, self._host.slower.get(phase)
            times = 1.0 if slower is None else slower.at((begin_ns + start_ns) / 1e9)
            end_ns = start_ns + round((to_ns - from_ns) * times)
            slowed.append(Segment(phase, bucket, start_ns, end_ns))
        return slowed

    def _pieces(self, samples: int) -> list[tuple[Phase, int, float]]:
        """(phase, bucket, seconds of the profile)."""
        times = self._profile.gradient(samples)
        pieces = [(Phase.DATA, -1, times.data_s), (Phase.FORWARD, -1, times.forward_s)]
        return pieces + [(Phase.BACKWARD, bucket, seconds) for bucket, seconds in enumerate(times.backward_s)]

    def _at_factor(self, samples: int) -> tuple[Segment, ...]:
        segments, before_s = [], 0.0
        for phase, bucket, seconds in self._pieces(samples):
            start_s, before_s = before_s, before_s + seconds * self._host.factor  # rounded last: no sum of errors
            segments.append(Segment(phase, bucket, round(start_s * 1e9), round(before_s * 1e9)))
        return tuple(segments)
