"""Bottleneck: the element that would save most if it were twice as fast; it always exists, whatever is wrong.

A link that passes a shared bottleneck gains only what the others leave it there, and a bottleneck gives each of its
links only what that can take: both by the shares of :mod:`e2c_dl.diagnosis.sharing`, with everyone busy as observed::

    twice as fast   scale of a link's services = sum of expected services then / now

One replay for each element: of many links among which much was sent it takes minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Element, ElementKind, SpeedUp
from e2c_dl.diagnosis.piecewise import Piecewise, least
from e2c_dl.diagnosis.replay.replay import Replay, WhatIf

TWICE = 2.0  # one factor for all elements: savings can be compared


def bottlenecks(replay: Replay, carried: Sequence[ObservedLink], design: Design) -> tuple[SpeedUp, ...]:
    """Every host's compute, every used link and shared bottleneck, most saving first; equal ones in this order."""
    found = []
    for element, change in _twice_as_fast(replay, carried, design):
        run_ns = replay.run_ns(change)
        found.append(
            SpeedUp(element=element, saved_s=(replay.replayed_ns - run_ns) / 1e9, speedup=replay.replayed_ns / run_ns)
        )
    return tuple(sorted(found, key=lambda one: -one.saved_s))  # stable: the same report from the same trace


def _twice_as_fast(replay: Replay, carried: Sequence[ObservedLink], design: Design) -> Iterator[tuple[Element, WhatIf]]:
    links = {each.element: each for each in carried}
    for element in replay.elements:
        yield element, WhatIf(scale={element: _scale_alone(links[element]) if element in links else 1 / TWICE})
    for shared in design.bottlenecks:
        left = design.shared(shared, carried, TWICE)
        users = {link: each for link, each in links.items() if each.pair in left}
        if users:  # one that training never used would save nothing
            scale = {link: _scale(each, each.requested.own, left[each.pair]) for link, each in users.items()}
            yield Element(kind=ElementKind.SHARED, src=shared.name), WhatIf(scale=scale)


def _scale_alone(link: ObservedLink) -> float:
    """Of the services of a link that is twice as fast itself."""
    own, left = link.requested.own, link.requested.left
    if left is None:
        return 1 / TWICE
    return _scale(link, None if own is None else own.mapped(lambda bps: bps * TWICE), left)


def _scale(link: ObservedLink, own: Piecewise | None, left: Piecewise) -> float:
    then_ns = link.expected_at_ns(left if own is None else least(own, left))
    return float(then_ns.sum() / link.expected_ns.sum())
