"""Which departures mattered: the run is replayed with each restored to what was asked.

Two departures can hide each other: with a slow host and a slow link in parallel, restoring either alone saves little.
So a departure is material if the replay without it is at least 5 % faster, *alone* (everything else as observed) or
*jointly* (every other departure restored already)::

    alone    T(nothing restored) / T(this restored)
    jointly  T(all others restored) / T(all restored)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from e2c_dl.diagnosis.departure import Departure
from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP, Finding
from e2c_dl.diagnosis.replay.replay import Change, Replay


def findings(departures: Sequence[Departure], replay: Replay) -> tuple[Finding, ...]:
    """One Finding per departure, most saving alone first, then most saving jointly."""
    all_restored_ns = replay.run_ns(_restored(departures))
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


def _restored(departures: Iterable[Departure]) -> Change:
    """All of ``departures`` restored at once."""
    chosen = tuple(departures)
    return Change(
        scale={element: scale for one in chosen for element, scale in one.restored.scale.items()},
        less_delay_ns={element: less for one in chosen for element, less in one.restored.less_delay_ns.items()},
        moving=frozenset(element for one in chosen for element in one.restored.moving),
    )
