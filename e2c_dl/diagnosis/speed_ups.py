"""What speeding up would bring: every element twice as fast, alone and in groups, most saving first.

The *bottleneck* is the element that would save most if it were twice as fast, a host in all that it computes: a server
may do nothing but step. It always exists, whatever is wrong. A link that passes a shared bottleneck gains only what the
others leave it there, and a bottleneck gives each of its links only what that can take: both by the shares of
:mod:`e2c_dl.diagnosis.shown.sharing`, with everyone busy as observed::

    twice as fast   scale of a link's services = sum of expected services then / now

What elements have in common hides in each of them: of 20 hosts equally slow, one alone saves next to nothing. So groups
are asked for, too, each as one what-if: hosts of a layer, of a service, of a hardware class; links between two layers,
into a host, out of a host; pairs of the elements that save most. A group is told if it saves more than its best member.

In large runs only contenders are replayed: those of which the run's longest path loses most. Of the others that loss is
told, the most that each can save while links serve in the order observed; where a change lets messages overtake each
other, it may save more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Element, ElementKind, SpeedUp
from e2c_dl.diagnosis.piecewise import Piecewise, least
from e2c_dl.diagnosis.references import UNKNOWN
from e2c_dl.diagnosis.replay.whatif import Change, Line, Predictor, WhatIf, scaled
from e2c_dl.topology import Host
from e2c_dl.trace.model import COMPUTE

TWICE = 2.0  # one factor for all elements: savings can be compared
GROUPS = 10  # told at most: nobody reads more
PAIRED = 4  # elements that save most, of which pairs are asked for
MORE = 1.05  # times what its best member saves is worth telling of a group
PATIENCE = 2  # times as many contenders as are cheap, where the first place is not certain before


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """One element or group, twice as fast."""

    element: Element
    whatif: WhatIf
    members: tuple[Element, ...] = ()


def speed_ups(
    replay: Predictor, carried: Sequence[ObservedLink], design: Design, slow: Collection[Element] = ()
) -> tuple[tuple[SpeedUp, ...], tuple[SpeedUp, ...]]:
    """(every host's compute, every used link and shared bottleneck; groups of hosts and links), most saving first.

    ``slow``: links that are slower than designed, by themselves.
    Those that were replayed come first, equal ones in the order of the run; of groups there are no others.
    """
    single = [*_twice_as_fast(replay, carried, design, slow)]
    elements = _ranked(replay, single, replay.cheap, PATIENCE)
    asked = [*_groups({each.element: each.whatif for each in single}, elements, design)]
    groups = [each for each in _ranked(replay, asked, min(replay.cheap // 2, GROUPS), 1) if each.replayed]
    saved_s = {each.element: each.saved_s for each in elements}
    telling = [each for each in groups if each.saved_s > MORE * max(saved_s[member] for member in each.members)]
    return elements, tuple(telling)


def _ranked(replay: Predictor, asked: Sequence[_Asked], count: int, patience: int) -> tuple[SpeedUp, ...]:
    """What each of ``asked`` saves: replayed of ``count`` contenders, and of at most ``patience`` times as many until
    the first place is certain."""
    run_ns = replay.replayed_ns
    most_ns = {each.element: min(replay.most_saved_ns(each.whatif), float(run_ns)) for each in asked}
    order = sorted(asked, key=lambda each: -most_ns[each.element])
    saved_ns: dict[Element, float] = {}
    for first in range(0, len(order), max(1, count)):
        contenders = order[first : first + max(1, count)]
        best_ns = max(saved_ns.values(), default=-1.0)
        if first and (most_ns[contenders[0].element] <= best_ns or first >= patience * count):
            break
        runs_ns = replay.runs_ns([each.whatif for each in contenders])
        saved_ns |= {each.element: float(run_ns - ns) for each, ns in zip(contenders, runs_ns, strict=True)}
    saved = {**most_ns, **saved_ns}
    found = [
        SpeedUp(
            element=each.element, members=each.members, replayed=each.element in saved_ns,
            saved_s=saved[each.element] / 1e9, speedup=run_ns / max(1.0, run_ns - saved[each.element]),
        )
        for each in asked
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (not one.replayed, -one.saved_s)))


def _twice_as_fast(
    replay: Predictor, carried: Sequence[ObservedLink], design: Design, slow: Collection[Element]
) -> Iterator[_Asked]:
    links = {each.element: each for each in carried}
    for element in replay.elements:
        if element.kind is ElementKind.HOST:
            twice = Change(element=element, phases=COMPUTE, scale=Piecewise.constant(1 / TWICE))
            yield _Asked(element=element, whatif=WhatIf(changes=(twice,)))
        else:
            scale, link = 1 / TWICE, None if replay.shares_lines else links.get(element)
            if link is not None and link.designed.left is not None:  # else only the replay knows of it, or it is alone
                scale = _scale(link, link.designed.left, TWICE, is_slow=element in slow)
            yield _Asked(element=element, whatif=scaled(element, scale))
    for shared in design.bottlenecks:
        left_for = design.shared(shared, carried, TWICE)
        users = {link: each for link, each in links.items() if each.pair in left_for}
        if users:  # one that training never used would save nothing
            scales = {
                link: _scale(each, left_for[each.pair], 1.0, is_slow=link in slow) for link, each in users.items()
            }
            faster = WhatIf.together(scaled(link, scale) for link, scale in scales.items()).changes
            line = Line(links=frozenset(users), scale=Piecewise.constant(1 / TWICE), instead=faster)
            element = Element(kind=ElementKind.SHARED, src=shared.name)
            yield _Asked(element=element, whatif=WhatIf(changes=faster, lines=(line,)))


def _scale(link: ObservedLink, left: Piecewise, times: float, *, is_slow: bool) -> float:
    """Of the services of ``link``, ``times`` as fast by itself, where the others then leave it ``left``.

    ``is_slow``: it is slower by itself than designed, and what a message took beyond its share tells how much.
    """
    own = link.designed.own
    then_ns = link.expected_at_ns(left if own is None else least(own.mapped(lambda bps: bps * times), left))
    took_ns = link.expected_ns
    if is_slow:
        slower = link.services_ns > took_ns
        then_ns = np.maximum(then_ns, np.where(slower, link.services_ns / times, 0.0))
        took_ns = np.maximum(link.services_ns, took_ns)
    return float(then_ns.sum() / took_ns.sum())


def _groups(twice: Mapping[Element, WhatIf], ranked: Sequence[SpeedUp], design: Design) -> Iterator[_Asked]:
    """Groups of two or more of ``twice``, each set of members once, under its first name."""
    told: set[frozenset[Element]] = set()
    found: dict[str, list[Element]] = {}
    hosts = {host.name: host for host in design.reference.topology.hosts}
    for element in twice:
        for name in _group_names(element, hosts, design.reference.hardware):
            found.setdefault(name, []).append(element)
    best = [each.element for each in ranked[:PAIRED]]
    found |= {f"{one} and {other}": [one, other] for one, other in combinations(best, 2)}
    for name, members in found.items():
        if len(members) > 1 and frozenset(members) not in told:
            told.add(frozenset(members))
            whatif = WhatIf.together(twice[member] for member in members)
            group = Element(kind=ElementKind.GROUP, src=name)
            yield _Asked(element=group, whatif=whatif, members=tuple(members))


def _group_names(element: Element, hosts: Mapping[str, Host], hardware: Mapping[str, str]) -> Iterator[str]:
    """The groups that ``element`` is in; ``hardware``: the classes of hosts."""
    if element.kind is ElementKind.HOST and element.src in hosts:
        yield f"hosts of layer {hosts[element.src].layer}"
        yield f"hosts of service {hosts[element.src].service}"
        if hardware.get(element.src, UNKNOWN) != UNKNOWN:
            yield f"hosts with {hardware[element.src]}"
    elif element.dst is not None and element.src in hosts and element.dst in hosts:
        layers = sorted({hosts[element.src].layer, hosts[element.dst].layer})
        yield f"links between {' and '.join(layers)}" if len(layers) > 1 else f"links within {layers[0]}"
        yield f"links into {element.dst}"
        yield f"links out of {element.src}"
