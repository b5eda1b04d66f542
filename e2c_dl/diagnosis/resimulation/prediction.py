"""Predictions of a run's time after a change, each with an interval.

::

    predicted = measured x changed / unchanged             of the run simulated again, in its own order
    interval  = from the least to the most of              laps with other luck, each
                  measured x changed / unchanged           if what the measured world leaves out shrinks along
                  measured + changed - unchanged           if it stays what it is

The interval says how far chance, and what is not modelled, move the prediction. It is no confidence interval: laps are
few, and a change that alters what was measured (a cache that then fits) is in none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from e2c_dl.diagnosis.replay.whatif import UNCHANGED, WhatIf
from e2c_dl.diagnosis.resimulation.world import MeasuredWorld

LAPS = 5


class Method(Enum):
    """How a prediction was made."""

    REPLAY = "replay"  # everything in the order in which it happened
    RESIMULATION = "re-simulation"  # the strategy decides the order anew


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a run takes after a change, in seconds, beside what it took."""

    measured_s: float
    predicted_s: float
    least_s: float
    most_s: float
    method: Method

    @property
    def saved_s(self) -> float:
        return self.measured_s - self.predicted_s

    def error(self, run_s: float) -> float:
        """How far above ``run_s``, of a re-run, it is, as a share of that; below 0: how far below."""
        return (self.predicted_s - run_s) / run_s


def resimulated(
    world: MeasuredWorld, changed: MeasuredWorld, change: WhatIf = UNCHANGED, *, laps: int = LAPS,
    on_lap: Callable[[int], None] = lambda done: None,
) -> Prediction:  # fmt: skip
    """The prediction for ``changed``, which is ``world`` or made from it, after ``change``.

    ``on_lap`` hears how many of ``laps`` are done.
    """
    runs = []
    for lap in range(laps):
        unchanged_ns = world.replayed_ns if lap == 0 else world.run_ns(lap=lap)
        runs.append((changed.run_ns(change, lap), unchanged_ns))
        on_lap(lap + 1)
    measured_s = world.measured_ns / 1e9
    ends_s = [end_s for run in runs for end_s in _ends_s(measured_s, *run)]
    return Prediction(
        measured_s=measured_s, predicted_s=ends_s[0], least_s=min(ends_s), most_s=max(ends_s),
        method=Method.RESIMULATION,
    )  # fmt: skip


def _ends_s(measured_s: float, changed_ns: int, unchanged_ns: int) -> tuple[float, float]:
    """What is left out shrinks along; it stays."""
    return measured_s * changed_ns / unchanged_ns, max(0.0, measured_s + (changed_ns - unchanged_ns) / 1e9)
