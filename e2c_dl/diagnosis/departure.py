"""One element that is not as asked, before it is known whether that mattered; and the statistics that find such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from e2c_dl.diagnosis.model import Element
from e2c_dl.diagnosis.replay.replay import Change

WARM_UP_ITERATIONS = 2
"""Left out of judgements: caches are cold, and TCP still learns how much it may send."""


@dataclass(frozen=True, kw_only=True)
class Departure:
    """What a Finding says of an element before it is replayed; ``restored`` makes it as asked."""

    element: Element
    slowdown: float
    observed: float
    expected: float
    evidence: str
    restored: Change
    stalled_s: float = 0.0


def warm_up(iterations: int) -> int:
    """The first iteration to judge by: WARM_UP_ITERATIONS, fewer if the run is not longer than that."""
    return max(0, min(WARM_UP_ITERATIONS, iterations - 1))


def low_median(values: Sequence[float]) -> float:
    """The middle value, the lower of two: of four values of which two are departures, one that is not."""
    return sorted(values)[(len(values) - 1) // 2]
