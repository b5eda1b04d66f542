"""Elements that are not as designed, and which of these departures mattered: the run replayed with each restored.

Two departures can hide each other: with a slow host and a slow link in parallel, restoring either alone saves little.
So a departure is material if the replay without it is at least 5 % faster, *alone* (everything else as observed) or
*jointly* (every other departure restored already)::

    alone    T(nothing restored) / T(this restored)
    jointly  T(all others restored) / T(all restored)

Among the others are those that are late for what nobody is to blame, where it may hide what others cost.

Where T hangs on chance it is the mean over several runs (:mod:`e2c_dl.diagnosis.resimulation.luck`). What surely
slows runs down in the mean, if by less, is material if this run, by its own luck, would have been faster by twice that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP, Element, Finding, Limitation, Part
from e2c_dl.diagnosis.replay.whatif import Predictor, WhatIf, alone_and_together
from e2c_dl.diagnosis.stretches import Stretches

SURELY = 2.0  # standard errors
MUCH = 2.0  # times what makes it material, of one run alone


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
    on_time: bool = False  # some of it was: it is not late by a delay that is always there
    as_others: bool = False  # it departs when others of its layer do, as these tell
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
        return other.departed_at(self.begins_s)

    def was_looked_at(self, times_s: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Whether it was, at each of ``times_s``: during a window, or where one begins."""
        return np.asarray(_within(self.begins_s, self.ends_s, times_s) | np.isin(times_s, self.begins_s))

    def departed_at(self, times_s: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Whether it was seen to depart at each of ``times_s``."""
        return _within(self.begins_s[self.departs], self.ends_s[self.departs], times_s)


def _within(
    begins_s: npt.NDArray[np.float64], ends_s: npt.NDArray[np.float64], times_s: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Which of ``times_s`` are in a window, of which the beginnings rise."""
    place = np.searchsorted(begins_s, times_s, side="right") - 1
    latest_s = np.maximum.accumulate(ends_s) if len(ends_s) else np.zeros(1)
    return np.asarray((place >= 0) & (times_s < latest_s[np.maximum(0, place)]))


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What departs, what could not be judged, and how slow each of those judged must have been to be seen."""

    departures: tuple[Departure, ...] = ()
    untold: tuple[Departure, ...] = ()  # may be the opening of TCP's window, unless all around them depart as they do
    excused: tuple[Departure, ...] = ()  # late for what nobody is to blame: it may hide what others cost
    limitations: tuple[Limitation, ...] = ()
    least_visible: float | None = None  # of the one of which least can be told; None: nobody was judged
    judged: Mapping[Element, float] = field(default_factory=lambda: MappingProxyType({}))
    """Element -> times slower that it must have been, all the time, to be seen."""
    looked: Mapping[Element, Looked] = field(default_factory=lambda: MappingProxyType({}))
    """Element that was judged -> when it was looked at."""
    held: frozenset[Element] = frozenset()
    """Those that would have been seen had they been slower all the time: there is something to hold them to."""


def low_median(values: Sequence[float]) -> float:
    """The middle value, the lower of two: of four values of which two are departures, one that is not."""
    return sorted(values)[(len(values) - 1) // 2]


def not_of(groups: Iterable[Departure], departures: Iterable[Departure]) -> list[Departure]:
    """Those of ``departures`` whose elements are of none of ``groups``, which are blamed with all that they have."""
    blamed = {one for each in groups for one in each.members}
    return [each for each in departures if each.element not in blamed]


def findings(
    departures: Sequence[Departure], replay: Predictor, excused: Sequence[Departure] = ()
) -> tuple[Finding, ...]:  # fmt: skip
    """One Finding per departure, most saving alone first, then most saving jointly: with those ``excused``, too."""
    if not departures:
        replay.laps_ns(())  # refuses a trace that contradicts itself
        return ()
    every = (*departures, *excused)
    asked = alone_and_together(len(every))
    whatifs = [WhatIf.together(every[place].restored for place in sorted(each)) for each in asked]
    times_ns = np.array(replay.laps_ns(whatifs), dtype=np.float64)  # (as it was and asked, laps)
    laps_ns = dict(zip((nothing := frozenset[int](), *asked), times_ns, strict=True))
    found = []
    for place, departure in enumerate(departures):
        by_itself = _Saving(laps_ns[nothing], laps_ns[frozenset((place,))])
        jointly = _Saving(laps_ns[asked[0] - {place}], laps_ns[asked[0]])
        found.append(
            replace(
                _uncosted(departure),
                saved_s=by_itself.mean_s,
                saved_spread_s=by_itself.spread_s,
                speedup=by_itself.speedup,
                joint_speedup=jointly.speedup,
                joint_saved_s=jointly.mean_s,
                material=by_itself.is_material or jointly.is_material,
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.saved_s, -one.joint_speedup)))


def uncosted(departures: Sequence[Departure]) -> tuple[Finding, ...]:
    """One Finding per departure, of which nobody knows what it cost: first the one that lasted longest."""
    return tuple(_uncosted(each) for each in sorted(departures, key=lambda one: -one.excess_s))


def those_of(found: Sequence[Finding], departures: Sequence[Departure]) -> list[Departure]:
    """The ``departures`` that were ``found``."""
    return [each for each in departures if any((each.element, each.part) == (one.element, one.part) for one in found)]


def _uncosted(departure: Departure) -> Finding:
    return Finding(
        element=departure.element, part=departure.part, when=departure.when, slowdown=departure.slowdown,
        observed=departure.observed, expected=departure.expected, saved_s=math.nan, speedup=math.nan,
        joint_speedup=math.nan, joint_saved_s=math.nan, saved_spread_s=math.nan, stalled_s=departure.stalled_s,
        material=False, evidence=departure.evidence, members=departure.members,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Saving:
    """What one change saves; both of shape (laps,), in ns, this run's own luck first."""

    before_ns: npt.NDArray[np.float64]
    after_ns: npt.NDArray[np.float64]

    @property
    def mean_s(self) -> float:
        return float((self.before_ns - self.after_ns).mean()) / 1e9

    @property
    def spread_s(self) -> float:
        return float((self.before_ns - self.after_ns).std()) / 1e9

    @property
    def speedup(self) -> float:
        return float(self.before_ns.mean() / self.after_ns.mean())

    @property
    def is_material(self) -> bool:
        cost_this_run = self.before_ns[0] / self.after_ns[0] - 1 >= MUCH * (MATERIAL_SPEEDUP - 1)
        is_sure = self.mean_s > SURELY * self.spread_s / float(np.sqrt(len(self.before_ns)))
        return bool(self.speedup >= MATERIAL_SPEEDUP or (is_sure and cost_this_run))
