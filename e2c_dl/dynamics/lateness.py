"""How much later a host's batches come, and its steps end, over time: faults LATE_DATA and LATE_STEP.

::

    later(t) = sum of the values of the windows that cover t        of what begins at t
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from e2c_dl.dynamics.faults import BegunFaults, NumberedFault, faults_of_kind
from e2c_dl.scenario.model import FaultKind, Scenario
from e2c_dl.trace.changes import Change

_CHANGES = {FaultKind.LATE_DATA: Change.DATA, FaultKind.LATE_STEP: Change.STEP}


@dataclass(frozen=True, kw_only=True)
class Lateness:
    """One host's: ``faults`` that make it late, numbered as in Injected.faults."""

    faults: tuple[NumberedFault, ...]

    @classmethod
    def of(cls, scenario: Scenario, host: str) -> Lateness:
        return cls(faults=faults_of_kind(scenario, *_CHANGES, host=host))

    def later_s(self, kind: FaultKind, time_s: float, begun: BegunFaults) -> float:
        """How much later a batch (LATE_DATA) or a step (LATE_STEP) ends that begins at ``time_s`` of training."""
        windows = begun.windows(self.faults)
        return sum(each.fault.value or 0.0 for each in windows if each.fault.kind is kind and each.covers(time_s))

    def changes(self, begun: BegunFaults, until_s: float) -> Iterator[tuple[Change, float, float, int | None]]:
        """(DATA or STEP, when, how much later from then on, the iteration that began it), up to ``until_s``."""
        windows = begun.windows(self.faults)
        for kind, change in _CHANGES.items():
            own = [each for each in windows if each.fault.kind is kind]
            began_with = {each.begin_s: each.fault.at_iteration for each in own}
            for time_s in sorted({edge for each in own for edge in (each.begin_s, each.end_s) if edge <= until_s}):
                yield change, time_s, self.later_s(kind, time_s, begun), began_with.get(time_s)
