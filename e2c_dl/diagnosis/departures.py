"""Elements that are not as designed, and which of these departures mattered: the run replayed with each restored.

Two departures can hide each other: with a slow host and a slow link in parallel, restoring either alone saves little.
So a departure is material if the replay without it is at least 5 % faster, *alone* (everything else as observed) or
*jointly* (every other departure restored already)::

    alone    T(nothing restored) / T(this restored)
    jointly  T(all others restored) / T(all restored)

The *bottleneck* is the element that would save most if it were twice as fast; it always exists, whatever is wrong. A
link that passes a shared bottleneck gains only what the others leave it there, and a bottleneck gives each of its links
only what that can take: both by the shares of :mod:`e2c_dl.diagnosis.sharing`, with everyone busy as observed::

    twice as fast   scale of a link's services = sum of expected services then / now

One replay for each element: of many links among which much was sent it takes minutes. Where ranks go at their own
pace, order is the strategy's to decide, so the run is simulated again instead (:mod:`e2c_dl.diagnosis.resimulation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP, Element, ElementKind, Finding, Limitation, Part, SpeedUp
from e2c_dl.diagnosis.piecewise import Piecewise, least
from e2c_dl.diagnosis.replay.whatif import Predictor, WhatIf, scaled
from e2c_dl.diagnosis.stretches import Stretches

TWICE = 2.0  # one factor for all elements: savings can be compared
WARM_UP_ITERATIONS = 2
"""Left out of judgements: caches are cold, and TCP still learns how much it may send."""


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
    stalled_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What departs, what could not be judged, and how slow each of those judged must have been to be seen."""

    departures: tuple[Departure, ...] = ()
    limitations: tuple[Limitation, ...] = ()
    least_visible: float | None = None  # of the one of which least can be told; None: nobody was judged


def warm_up(iterations: int) -> int:
    """The first iteration to judge by: WARM_UP_ITERATIONS, fewer if the run is not longer than that."""
    return max(0, min(WARM_UP_ITERATIONS, iterations - 1))


def low_median(values: Sequence[float]) -> float:
    """The middle value, the lower of two: of four values of which two are departures, one that is not."""
    return sorted(values)[(len(values) - 1) // 2]


def findings(departures: Sequence[Departure], replay: Predictor) -> tuple[Finding, ...]:
    """One Finding per departure, most saving alone first, then most saving jointly."""
    everything = WhatIf.together(one.restored for one in departures)
    others = [WhatIf.together(other.restored for other in departures if other is not one) for one in departures]
    all_restored_ns, *runs_ns = replay.runs_ns([everything, *(one.restored for one in departures), *others])
    found = []
    for departure, alone_ns, others_ns in zip(
        departures, runs_ns[: len(departures)], runs_ns[len(departures) :], strict=True
    ):
        speedup, joint_speedup = replay.replayed_ns / alone_ns, others_ns / all_restored_ns
        found.append(
            Finding(
                element=departure.element,
                part=departure.part,
                when=departure.when,
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


def bottlenecks(replay: Predictor, carried: Sequence[ObservedLink], design: Design) -> tuple[SpeedUp, ...]:
    """Every host's compute, every used link and shared bottleneck, most saving first; equal ones in this order."""
    twice = list(_twice_as_fast(replay, carried, design))
    runs_ns = replay.runs_ns([whatif for _, whatif in twice])
    found = [
        SpeedUp(element=element, saved_s=(replay.replayed_ns - run_ns) / 1e9, speedup=replay.replayed_ns / run_ns)
        for (element, _), run_ns in zip(twice, runs_ns, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: -one.saved_s))  # stable: the same report from the same trace


def _twice_as_fast(
    replay: Predictor, carried: Sequence[ObservedLink], design: Design
) -> Iterator[tuple[Element, WhatIf]]:
    links = {each.element: each for each in carried}
    for element in replay.elements:
        yield element, scaled(element, _scale_alone(links[element]) if element in links else 1 / TWICE)
    for shared in design.bottlenecks:
        left = design.shared(shared, carried, TWICE)
        users = {link: each for link, each in links.items() if each.pair in left}
        if users:  # one that training never used would save nothing
            scales = {link: _scale(each, each.designed.own, left[each.pair]) for link, each in users.items()}
            whatif = WhatIf.together(scaled(link, scale) for link, scale in scales.items())
            yield Element(kind=ElementKind.SHARED, src=shared.name), whatif


def _scale_alone(link: ObservedLink) -> float:
    """Of the services of a link that is twice as fast itself."""
    own, left = link.designed.own, link.designed.left
    if left is None:
        return 1 / TWICE
    return _scale(link, None if own is None else own.mapped(lambda bps: bps * TWICE), left)


def _scale(link: ObservedLink, own: Piecewise | None, left: Piecewise) -> float:
    then_ns = link.expected_at_ns(left if own is None else least(own, left))
    return float(then_ns.sum() / link.expected_ns.sum())
