"""Groups: all hosts of a layer, or all links from one layer to another, that depart alike, as one departure.

Links through a shared line are others than those beside it: they take another way, which may be as designed.

What a whole layer suffers has one cause, and its members hide each other: each alone, restored, saves nothing while the
others are as slow. Alike are those whose slow-downs, or the delays by which links are late, differ by less than ALIKE,
at the same time but for LAPSE of it: links that carry something now and then, by how they were whenever another was
seen to depart; those that take turns, by what the windows of the others say of it (:mod:`.together`). Hosts are held
beside each other part by part: who is slow in another is as designed in this one. One member that is as designed then,
though so much would have been seen of it, and there is no group; nor unless all that depart are alike: of MANY, MOST.
That is asked of those that were looked at TELLING of the times of whom was most often: of a link that is used to
measure it, and then left alone, next to nothing is known. Then one that departs by less, or at other times, is of the
group, too, for it tells little of itself. So is a link that is as slow then, but for another reason, as its own
messages have it, if those of one reason are MORE than half of them: of one that is uneven it tells the least. One that
departs by more has a cause of its own; one that may be late for another reason, or of which too little was seen, is of
the group if it is as slow; but where all of the group are late all the time, not if something of it was on time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from e2c_dl.diagnosis.departures import Departure, Looked
from e2c_dl.diagnosis.detection.links.kinds import UNTOLD
from e2c_dl.diagnosis.model import Element, ElementKind, Part
from e2c_dl.diagnosis.replay.whatif import WhatIf
from e2c_dl.diagnosis.stretches import Stretches, When, united
from e2c_dl.topology import Pair

ALIKE = 1.3
LAPSE = 0.4
MANY, MOST, MORE = 6, 2 / 3, 1 / 2
TELLING = 1 / 4
_TRIED = 3  # that others may be alike with: those of middling slow-down
_ALIKE_PARTS = (
    UNTOLD | {Part.RATE},
    UNTOLD | {Part.DELAY},
    frozenset({Part.LOSS, Part.RATE_DELAY_OR_LOSS}),
)
"""Parts that may be one: where a member's messages do not tell, another's do."""
_MOMENTS = 1000

Key = tuple[ElementKind, str, str, str]
"""(of what kind, layer, layer that links lead to, line that they share); "" where there is none."""


def grouped(
    departures: Sequence[Departure], untold: Sequence[Departure], judged: Mapping[Element, float],
    layers: Mapping[str, str], *, looked: Mapping[Element, Looked] = MappingProxyType({}),
    line_of: Mapping[Pair, str] = MappingProxyType({}),
) -> tuple[Departure, ...]:  # fmt: skip
    """``departures``, those of whole layers as one each, with those of ``untold`` that are of them.

    ``judged``: element -> times slower that it must have been to be seen; ``layers``: host -> layer, of all hosts;
    ``looked``: element -> when it was looked at; others were all the time; ``line_of``: link -> what it shares.
    """
    key_of = partial(_key, layers=layers, line_of=line_of)
    found: dict[tuple[Key, Part | None], list[Departure]] = {}
    alone = []
    for each in departures:
        if each.element.kind in (ElementKind.HOST, ElementKind.LINK):
            part = each.part if each.element.kind is ElementKind.HOST else None
            found.setdefault((key_of(each.element), part), []).append(each)
        else:
            alone.append(each)
    judged_of: dict[Key, list[Element]] = {}
    for element in judged:
        judged_of.setdefault(key_of(element), []).append(element)
    made = []
    for (key, _), own in found.items():
        departing = {each.element for each in own}
        healthy = [each for each in judged_of.get(key, ()) if each not in departing]
        least = min(each.slowdown for each in own)
        telling = _telling(own, looked)
        alike, typical = _typical(telling, looked)
        enough = MOST if len(telling) >= MANY else 1
        is_group = len(telling) > 1 and len(alike) >= enough * len(telling) and len(typical) > MORE * len(alike)
        seen_at = (judged[each] for each in healthy if _was_seen_then(each, typical, looked))
        if is_group and min(seen_at, default=np.inf) > least:
            most = ALIKE * _middle(typical)
            of_it = [each for each in own if each.slowdown <= most or _are_as_late([each, *typical])]
            others = [
                _at_most(most, each) for each in untold
                if key_of(each.element) == key and _may_be_of(each, typical, judged.get(each.element, 0.0))
            ]  # fmt: skip
            made.append(_group(key, typical, [*of_it, *others]))
            made += [each for each in own if not any(each is one for one in of_it)]
        else:
            made += own
    return (*made, *alone)


def _telling(own: Sequence[Departure], looked: Mapping[Element, Looked]) -> Sequence[Departure]:
    """Those of ``own`` of which much was seen; all, where it was of one."""
    times = [len(looked[each.element].begins_s) if each.element in looked else None for each in own]
    most = max((count for count in times if count is not None), default=0)
    found = [each for each, count in zip(own, times, strict=True) if count is None or count >= TELLING * most]
    return found if len(found) > 1 else own


def _was_seen_then(element: Element, typical: Sequence[Departure], looked: Mapping[Element, Looked]) -> bool:
    """Whether ``element`` was looked at while one of ``typical`` departed."""
    its, known = looked.get(element), [looked[each.element] for each in typical if each.element in looked]
    departed = [each for each in known if each.departs.any()]
    return its is None or not departed or any(its.began_during(each).any() for each in departed)


def _typical(
    own: Sequence[Departure], looked: Mapping[Element, Looked]
) -> tuple[list[Departure], list[Departure]]:  # fmt: skip
    """Those of ``own``, at least one, that are alike with one of middling slow-down, and of these those of one part.

    Of those tried, the one with most of these.
    """
    by_slowdown = sorted(own, key=lambda each: each.slowdown)
    middle = by_slowdown[(len(own) - 1) // 2].slowdown
    near = sorted(by_slowdown, key=lambda each: abs(np.log(each.slowdown / middle)))
    found: tuple[list[Departure], list[Departure]] = [], []
    for first in near[:_TRIED]:
        alike, typical = [first], [first]
        for each in near:
            if each is first or not _are_alike(first, each, looked):
                continue
            typical += [each] if _one_part([*typical, each]) else []
            alike.append(each)
        found = max(found, (alike, typical), key=lambda both: len(both[1]))
    return found


def _key(element: Element, layers: Mapping[str, str], line_of: Mapping[Pair, str]) -> Key:
    if element.dst is None:
        return element.kind, layers[element.src], "", ""
    return element.kind, layers[element.src], layers[element.dst], line_of.get((element.src, element.dst), "")


def _are_alike(one: Departure, other: Departure, looked: Mapping[Element, Looked]) -> bool:
    if not (_are_as_slow([one, other]) or _are_as_late([one, other])):
        return False
    one_always, other_always = (each.when.when is When.PERSISTENT for each in (one, other))
    if one.as_others and other.as_others and one_always == other_always:
        return True
    return _at_one_time([one.when, other.when]) or _whenever_seen(looked.get(one.element), looked.get(other.element))


def _whenever_seen(one: Looked | None, other: Looked | None) -> bool:
    """Whether each of two that were looked at together departed when the other did, but for LAPSE of those times."""
    if one is None or other is None:
        return False
    then = [one.departs[one.began_during(other)], other.departs[other.began_during(one)]]
    return any(len(each) for each in then) and all(each.sum() >= (1 - LAPSE) * len(each) for each in then)


def _may_be_of(one: Departure, typical: Sequence[Departure], seen_at: float) -> bool:
    """Whether it is as slow as ``typical``, by a part that it may share; or is slow, and so much could not be seen."""
    always_late = all(each.part is Part.DELAY and each.when.when is When.PERSISTENT for each in typical)
    if always_late and one.on_time:
        return False
    middle = _middle(typical)
    as_slow = middle / ALIKE <= one.slowdown <= middle * ALIKE or _are_as_late([one, *typical])
    return (as_slow or seen_at > middle) and _one_part([*typical, one])


def _at_most(times: float, one: Departure) -> Departure:
    """``one``, of whose messages none is restored by more than if it took as many ``times`` as long as designed.

    What luck took from one of them (a time-out of TCP's) is not the group's.
    """
    if one.slowdown <= times:
        return one
    changes = tuple(
        replace(each, scale=each.scale.mapped(lambda kept: np.maximum(kept, 1 - (times - 1) * kept)))
        for each in one.restored.changes
    )
    return replace(one, restored=replace(one.restored, changes=changes))


def _middle(own: Sequence[Departure]) -> float:
    return float(np.median([each.slowdown for each in own]))


def _one_part(own: Sequence[Departure]) -> bool:
    parts = {each.part for each in own}
    return len(parts) == 1 or any(parts <= each for each in _ALIKE_PARTS)


def _are_as_slow(own: Sequence[Departure]) -> bool:
    """Not what is late by a delay: on messages that take long without it any delay shows as next to nothing."""
    if any(each.part is Part.DELAY for each in own):
        return False
    slowdowns = [each.slowdown for each in own]
    return max(slowdowns) <= ALIKE * min(slowdowns)


def _are_as_late(own: Sequence[Departure]) -> bool:
    """Whether all may be late by one delay: the less a message has to carry, the more times slower it makes it."""
    later_s = [each.later_s for each in own]
    return max(later_s) <= ALIKE * min(later_s) and min(later_s) > 0


def _at_one_time(several: Sequence[Stretches]) -> bool:
    if all(each.when is When.PERSISTENT for each in several):
        return True
    recurs = all(each.when is When.PERIODIC for each in several)  # of one that trained no longer it is not known
    last_s = (min if recurs else max)(each.ends_s[-1] for each in several)
    moments_s = np.linspace(0.0, last_s, _MOMENTS)
    during = np.array([
        np.searchsorted(each.begins_s, moments_s, "right") > np.searchsorted(_ends_s(each, last_s), moments_s)
        for each in several
    ])  # fmt: skip
    return bool(during.all(axis=0).sum() >= (1 - LAPSE) * during.any(axis=0).sum())


def _ends_s(one: Stretches, last_s: float) -> Sequence[float]:
    """Where its stretches end; that of a host that trained no longer lasts, for all that is known, as others' do."""
    return (*one.ends_s[:-1], last_s) if one.when is When.SINCE else one.ends_s


def _when(typical: Sequence[Departure], most: Departure) -> Stretches:
    """As ``most`` of them has it; of those that take turns, each of which shows some of it, as all have it."""
    if not all(each.as_others for each in typical):
        return most.when
    found = united([each.when for each in typical])
    hides_period = most.when.when is When.PERIODIC and found.when is not When.PERIODIC
    return most.when if hides_period else found


def _group(key: Key, typical: Sequence[Departure], own: Sequence[Departure]) -> Departure:
    """``own`` as one, of which ``typical`` tell the part and when."""
    kind, src, dst, line = key
    through = f" through {line}" if line else ""
    what = f"{len(own)} hosts of {src}" if kind is ElementKind.HOST else f"{len(own)} links {src} -> {dst}{through}"
    most = max(typical, key=lambda each: each.excess_s)
    slowdowns = [each.slowdown for each in own]
    span = f"{min(slowdowns):.2f} to {max(slowdowns):.2f} x"
    evidence = f"All {what} that can be judged depart alike, {span}: {most.evidence}"
    return Departure(
        element=Element(kind=ElementKind.GROUP, src=what), members=tuple(each.element for each in own), part=most.part,
        when=_when(typical, most), slowdown=_middle(typical), observed=most.observed, expected=most.expected,
        evidence=evidence, restored=WhatIf.together(each.restored for each in own),
        excess_s=sum(each.excess_s for each in own),
    )  # fmt: skip
