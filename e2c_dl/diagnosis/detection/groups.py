"""Groups: all hosts of a layer, or all links from one layer to another, that depart alike, as one departure.

What a whole layer suffers has one cause, and its members hide each other: each alone, restored, saves nothing while the
others are as slow. Alike are those of one part whose slow-downs differ by less than ALIKE, at the same time but for
LAPSE of it. One member that is as designed, though so much would have been seen of it, and there is no group. One that
may be late for another reason is of the group if it departs as the others do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from e2c_dl.diagnosis.departures import Departure
from e2c_dl.diagnosis.model import Element, ElementKind, Part
from e2c_dl.diagnosis.replay.whatif import WhatIf
from e2c_dl.diagnosis.stretches import Stretches, When

ALIKE = 1.3
LAPSE = 0.4
_UNTOLD = frozenset({Part.RATE_OR_DELAY, Part.RATE_DELAY_OR_LOSS})
_ALIKE_PARTS = (
    _UNTOLD | {Part.RATE},
    _UNTOLD | {Part.DELAY},
    frozenset({Part.LOSS, Part.RATE_DELAY_OR_LOSS}),
)
"""Parts that may be one: where a member's messages do not tell, another's do."""
_MOMENTS = 1000

Key = tuple[ElementKind, str, str]


def grouped(
    departures: Sequence[Departure], untold: Sequence[Departure], judged: Mapping[Element, float],
    layers: Mapping[str, str],
) -> tuple[Departure, ...]:  # fmt: skip
    """``departures``, those of whole layers as one each, with those of ``untold`` that are of them.

    ``judged``: element -> times slower that it must have been to be seen; ``layers``: host -> layer, of all hosts.
    """
    seen_at: dict[Key, list[float]] = {}
    for element in judged.keys() - {each.element for each in departures}:
        seen_at.setdefault(_key(element, layers), []).append(judged[element])
    found: dict[Key, list[Departure]] = {}
    alone = []
    for each in departures:
        if each.element.kind in (ElementKind.HOST, ElementKind.LINK):
            found.setdefault(_key(each.element, layers), []).append(each)
        else:
            alone.append(each)
    made = []
    for key, own in found.items():
        least = min(each.slowdown for each in own)
        is_group = len(own) > 1 and min(seen_at.get(key, ()), default=np.inf) > least and _are_alike(own)
        if is_group:
            others = [each for each in untold if _key(each.element, layers) == key and _are_alike([*own, each])]
            made.append(_group(key, [*own, *others]))
        else:
            made += own
    return (*made, *alone)


def _key(element: Element, layers: Mapping[str, str]) -> Key:
    return element.kind, layers[element.src], "" if element.dst is None else layers[element.dst]


def _are_alike(own: Sequence[Departure]) -> bool:
    parts = {each.part for each in own}
    slowdowns = [each.slowdown for each in own]
    same = len(parts) == 1 or any(parts <= each for each in _ALIKE_PARTS)
    return same and max(slowdowns) <= ALIKE * min(slowdowns) and _at_one_time([each.when for each in own])


def _at_one_time(several: Sequence[Stretches]) -> bool:
    if all(each.when is When.PERSISTENT for each in several):
        return True
    last_s = max(each.ends_s[-1] for each in several)
    moments_s = np.linspace(0.0, last_s, _MOMENTS)
    during = np.array([
        np.searchsorted(each.begins_s, moments_s, "right") > np.searchsorted(_ends_s(each, last_s), moments_s)
        for each in several
    ])  # fmt: skip
    return bool(during.all(axis=0).sum() >= (1 - LAPSE) * during.any(axis=0).sum())


def _ends_s(one: Stretches, last_s: float) -> Sequence[float]:
    """Where its stretches end; that of a host that trained no longer lasts, for all that is known, as others' do."""
    return (*one.ends_s[:-1], last_s) if one.when is When.SINCE else one.ends_s


def _group(key: Key, own: Sequence[Departure]) -> Departure:
    kind, src, dst = key
    what = f"{len(own)} hosts of {src}" if kind is ElementKind.HOST else f"{len(own)} links {src} -> {dst}"
    most = max(own, key=lambda each: each.excess_s)
    slowdowns = [each.slowdown for each in own]
    span = f"{min(slowdowns):.2f} to {max(slowdowns):.2f} x"
    evidence = f"All {what} that can be judged depart alike, {span}: {most.evidence}"
    return Departure(
        element=Element(kind=ElementKind.GROUP, src=what), members=tuple(each.element for each in own), part=most.part,
        when=most.when, slowdown=float(np.median(slowdowns)), observed=most.observed, expected=most.expected,
        evidence=evidence, restored=WhatIf.together(each.restored for each in own),
        excess_s=sum(each.excess_s for each in own),
    )  # fmt: skip
