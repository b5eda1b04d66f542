"""Elements that are not as requested, and which of these departures mattered: the run replayed with each restored.

Two departures can hide each other: with a slow host and a slow link in parallel, restoring either alone saves little.
So a departure is material if the replay without it is at least 5 % faster, *alone* (everything else as observed) or
*jointly* (every other departure restored already)::

    alone    T(nothing restored) / T(this restored)
    jointly  T(all others restored) / T(all restored)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP, Element, Finding, Limitation
from e2c_dl.diagnosis.replay.replay import Replay, WhatIf

WARM_UP_ITERATIONS = 2
"""Left out of judgements: caches are cold, and TCP still learns how much it may send."""


@dataclass(frozen=True, kw_only=True)
class Departure:
    """What a Finding says of an element before it is replayed; ``restored`` makes it as requested."""

    element: Element
    slowdown: float
    observed: float
    expected: float
    evidence: str
    restored: WhatIf
    stalled_s: float = 0.0


Judgement = tuple[tuple[Departure, ...], tuple[Limitation, ...]]
"""(what departs, what could not be judged)."""


def warm_up(iterations: int) -> int:
    """The first iteration to judge by: WARM_UP_ITERATIONS, fewer if the run is not longer than that."""
    return max(0, min(WARM_UP_ITERATIONS, iterations - 1))


def low_median(values: Sequence[float]) -> float:
    """The middle value, the lower of two: of four values of which two are departures, one that is not."""
    return sorted(values)[(len(values) - 1) // 2]


def findings(departures: Sequence[Departure], replay: Replay) -> tuple[Finding, ...]:
    """One Finding per departure, most saving alone first, then most saving jointly."""
    all_restored_ns = replay.run_ns(_restored(departures))  # once for all: replays of long runs take seconds
    found = []
    for departure in departures:
        alone_ns = replay.run_ns(departure.restored)
        others_ns = replay.run_ns(_restored(other for other in departures if other is not departure))
        speedup, joint_speedup = replay.replayed_ns / alone_ns, others_ns / all_restored_ns
        found.append(
            Finding(
                element=departure.element,
                slowdown=departure.slowdown,
                observed=departure.observed,
                expected=departure.expected,
                saved_s=(replay.replayed_ns - alone_ns) / 1e9,
                speedup=speedup,
                joint_speedup=joint_speedup,
                joint_saved_s=(others_ns - all_restored_ns) / 1e9,
                stalled_s=departure.stalled_s,
                material=max(speedup, joint_speedup) >= MATERIAL_SPEEDUP,
                evidence=departure.evidence,
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.saved_s, -one.joint_speedup)))


def _restored(departures: Iterable[Departure]) -> WhatIf:
    """All of ``departures`` restored at once."""
    chosen = tuple(departures)
    return WhatIf(
        scale={element: scale for one in chosen for element, scale in one.restored.scale.items()},
        less_delay_ns={element: less for one in chosen for element, less in one.restored.less_delay_ns.items()},
        moving=frozenset(element for one in chosen for element in one.restored.moving),
    )
