"""The times of a host whose batches come later, and whose steps take longer: as live, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from e2c_dl.dynamics.faults import BegunFaults
from e2c_dl.dynamics.lateness import Lateness
from e2c_dl.scenario.model import FaultKind
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual.kernel import Pauses
from e2c_dl.worlds.virtual.pace import Pace, Segment


class LatePace:
    """``pace``, late by ``lateness``; ``begun`` knows of faults that begin with an iteration."""

    def __init__(self, pace: Pace, lateness: Lateness, begun: BegunFaults) -> None:
        self._pace, self._lateness, self._begun = pace, lateness, begun
        self.pauses: Pauses = pace.pauses

    def gradient(self, samples: int, begin_ns: int) -> Sequence[Segment]:
        later_ns = self._later_ns(FaultKind.LATE_DATA, begin_ns)
        segments = self._pace.gradient(samples, begin_ns + later_ns)  # it computes when it has its batch
        return [
            Segment(phase, bucket, 0 if phase is Phase.DATA else start_ns + later_ns, end_ns + later_ns)
            for phase, bucket, start_ns, end_ns in segments
        ]

    def copied_ns(self, nbytes: int, begin_ns: int) -> int:
        return self._pace.copied_ns(nbytes, begin_ns)

    def accumulated_ns(self, nbytes: int, begin_ns: int) -> int:
        return self._pace.accumulated_ns(nbytes, begin_ns)

    def scaled_ns(self, nbytes: int, begin_ns: int) -> int:
        return self._pace.scaled_ns(nbytes, begin_ns)

    def stepped_ns(self, begin_ns: int) -> int:
        later_ns = self._later_ns(FaultKind.LATE_STEP, begin_ns)
        return later_ns + self._pace.stepped_ns(begin_ns + later_ns)

    def evaluated_ns(self, begin_ns: int) -> int:
        return self._pace.evaluated_ns(begin_ns)

    def _later_ns(self, kind: FaultKind, begin_ns: int) -> int:
        return round(1e9 * self._lateness.later_s(kind, begin_ns / 1e9, self._begun))
