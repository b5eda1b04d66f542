"""Elements that are not as designed, and which of these departures mattered: the run replayed with each restored.

Two departures can hide each other: with a slow host and a slow link in parallel, restoring either alone saves little.
So a departure is material if the replay without it is at least 5 % faster, *alone* (everything else as observed) or
*jointly* (every other departure restored already)::

    alone    T(nothing restored) / T(this restored)
    jointly  T(all others restored) / T(all restored)

Where T hangs on chance it is the mean over several runs (:mod:`e2c_dl.diagnosis.resimulation.luck`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP, Element, Finding, Limitation, Part
from e2c_dl.diagnosis.replay.whatif import Predictor, WhatIf
from e2c_dl.diagnosis.stretches import Stretches


@dataclass(frozen=True, kw_only=True)
class Departure:
    """What a Finding says of an element before it is replayed; ``restored`` makes it as designed."""

    element: Element
    part: Part
    when: Stretches
    slowdown: float
    observed: float
    expected: float
    evidence: str
    restored: WhatIf
    excess_s: float  # what it took longer than its reference: no restored run saves more
    stalled_s: float = 0.0
    later_s: float = 0.0  # each message, of a link that is, or may be, late by a delay
    members: tuple[Element, ...] = ()  # of a group


@dataclass(frozen=True, kw_only=True, eq=False)
class Looked:
    """When an element that was judged was looked at, and what it was like then: what it was in between nothing tells.

    All of shape (windows,), rising, in seconds of training.
    """

    begins_s: npt.NDArray[np.float64]
    ends_s: npt.NDArray[np.float64]  # of what it did in that window
    departs: npt.NDArray[np.bool_]

    def began_during(self, other: Looked) -> npt.NDArray[np.bool_]:
        """Which windows began while ``other`` was seen to depart."""
        begins_s, ends_s = other.begins_s[other.departs], other.ends_s[other.departs]
        place = np.searchsorted(begins_s, self.begins_s, side="right") - 1
        latest_s = np.maximum.accumulate(ends_s) if len(ends_s) else np.zeros(1)
        return np.asarray((place >= 0) & (self.begins_s < latest_s[np.maximum(0, place)]))


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What departs, what could not be judged, and how slow each of those judged must have been to be seen."""

    departures: tuple[Departure, ...] = ()
    untold: tuple[Departure, ...] = ()  # may be the opening of TCP's window, unless all around them depart as they do
    limitations: tuple[Limitation, ...] = ()
    least_visible: float | None = None  # of the one of which least can be told; None: nobody was judged
    judged: Mapping[Element, float] = field(default_factory=lambda: MappingProxyType({}))
    """Element -> times slower that it must have been, all the time, to be seen."""
    looked: Mapping[Element, Looked] = field(default_factory=lambda: MappingProxyType({}))
    """Element that was judged -> when it was looked at."""


def low_median(values: Sequence[float]) -> float:
    """The middle value, the lower of two: of four values of which two are departures, one that is not."""
    return sorted(values)[(len(values) - 1) // 2]


def findings(departures: Sequence[Departure], replay: Predictor) -> tuple[Finding, ...]:
    """One Finding per departure, most saving alone first, then most saving jointly."""
    as_it_was_ns = np.array(replay.as_it_was_ns, dtype=np.float64)  # refuses a trace that contradicts itself
    if not departures:
        return ()
    everything = WhatIf.together(one.restored for one in departures)
    others = [WhatIf.together(other.restored for other in departures if other is not one) for one in departures]
    asked = [everything, *(one.restored for one in departures), *others]
    laps_ns = np.array(replay.laps_ns(asked), dtype=np.float64)  # (asked, laps)
    replayed_ns, (all_restored_ns, *runs_ns) = float(as_it_was_ns.mean()), laps_ns.mean(axis=1).tolist()
    found = []
    for place, (departure, alone_ns, others_ns) in enumerate(
        zip(departures, runs_ns[: len(departures)], runs_ns[len(departures) :], strict=True)
    ):
        speedup, joint_speedup = replayed_ns / alone_ns, others_ns / all_restored_ns
        found.append(
            Finding(
                element=departure.element,
                part=departure.part,
                when=departure.when,
                slowdown=departure.slowdown,
                observed=departure.observed,
                expected=departure.expected,
                saved_s=(replayed_ns - alone_ns) / 1e9,
                saved_spread_s=float((as_it_was_ns - laps_ns[1 + place]).std()) / 1e9,
                speedup=speedup,
                joint_speedup=joint_speedup,
                joint_saved_s=(others_ns - all_restored_ns) / 1e9,
                stalled_s=departure.stalled_s,
                material=max(speedup, joint_speedup) >= MATERIAL_SPEEDUP,
                evidence=departure.evidence,
                members=departure.members,
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.saved_s, -one.joint_speedup)))
