"""A change of a scenario, as changes of what was measured: for the replay and for the measured world alike.

::

    speed 2x        computing that emulation paces takes half as long
    rate 50mbit     services take measured rate / 50 Mbit/s times as long, each by the rate of its time
    delay 5ms       messages arrive measured delay - 5 ms sooner
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import NO_LESS, Change, WhatIf
from e2c_dl.diagnosis.resimulation.links import MeasuredLink
from e2c_dl.scenario.what_if import Changed, LinkChange
from e2c_dl.topology import Link, Pair
from e2c_dl.trace.model import COMPUTE, GRADIENT, Phase

PACED = GRADIENT | {Phase.DATA, Phase.EVALUATE}
"""What a host's factor slows where it is emulated by sleep; a CPU quota slows all computing."""


def what_if(changed: Changed, links: Mapping[Pair, MeasuredLink], *, quota: bool) -> WhatIf:
    """``changed``, its hosts that do not train aside, of a run with these ``links``. ``quota``: it slows processors.

    Raises: KeyError, if a link carried nothing in the run.
    """
    phases = COMPUTE if quota else PACED
    changes = [
        Change(
            element=Element(kind=ElementKind.HOST, src=host), phases=phases, scale=Piecewise.constant(1 / speed)
        )
        for host, speed in changed.speeds.items()
    ]  # fmt: skip
    for pair, change in changed.links.items():
        element = Element(kind=ElementKind.LINK, src=pair[0], dst=pair[1])
        changes.append(_of_link(element, change, links[pair]))
    return WhatIf(changes=tuple(changes))


def restoring(
    change: WhatIf, changed: Changed, known: Mapping[Pair, WhatIf], designed: Callable[[str, str], Link]
) -> WhatIf:
    """``change``, which ``changed`` asks for; a link of which it makes what was ``designed`` is that altogether.

    TCP's windows, too, and the way back, unless something else is asked of that. Only by so much less rate or delay as
    is asked for, it would keep windows that its delay has had open slowly. ``known``: link that departs -> what
    restores it.
    """
    found, elsewhere = list(change.changes), {each.element for each in change.changes}
    for pair, restored in known.items():
        asked = changed.links.get(pair)
        if asked is not None and _is_designed(asked, restored, pair, designed(*pair)):
            own = [each for each in restored.changes if _of(each) == pair or each.element not in elsewhere]
            told = {each.element for each in own}
            found = [each for each in found if each.element not in told] + own
    return replace(change, changes=tuple(found))


def _is_designed(asked: LinkChange, restored: WhatIf, pair: Pair, designed: Link) -> bool:
    """Whether ``asked`` gives a link, in all in which it departs, the value that was designed, and no other."""
    own = [each for each in restored.changes if _of(each) == pair]
    delay = any(each.less_s.values.any() for each in own)
    rate = any((each.scale.values[delay:] != 1).any() for each in own)  # of a delay, the first are windows that open
    left = [(rate, asked.rate_bps, asked.rate_factor), (delay, asked.delay_s, asked.delay_factor)]
    as_it_was = [not departs and value is None and factor == 1 for departs, value, factor in left]
    by_design = [asked.rate_bps == designed.rate_bps, asked.delay_s == designed.delay_s]
    return (rate or delay) and all(map(any, zip(as_it_was, by_design, strict=True)))


def _of(change: Change) -> tuple[str, str | None]:
    return change.element.src, change.element.dst


def _of_link(element: Element, change: LinkChange, link: MeasuredLink) -> Change:
    absolute_bps, absolute_s = change.rate_bps, change.delay_s
    scale = Piecewise.constant(1 / change.rate_factor)
    if absolute_bps is not None:
        scale = link.rate_bps.mapped(lambda measured_bps: measured_bps / absolute_bps)
    less_s = NO_LESS
    if absolute_s is not None:
        less_s = link.delay_s.mapped(lambda measured_s: measured_s - absolute_s)
    elif change.delay_factor != 1:
        less_s = link.delay_s.mapped(lambda measured_s: measured_s * np.float64(1 - change.delay_factor))
    return Change(element=element, scale=scale, less_s=less_s)
