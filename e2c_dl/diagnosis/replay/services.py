"""Services of a run, and what they take in a what-if.

A *service* is a computing span of a host or a message of a link: what what-ifs change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.replay.columns import Doubles, Ints, Longs, Moments, Queue, order_of
from e2c_dl.diagnosis.replay.graph import Costs
from e2c_dl.diagnosis.replay.whatif import LINK_PHASES, Change, WhatIf


@dataclass(frozen=True, kw_only=True)
class Services:
    """By unit, a moment or a message, moments first. Nothing in it is mutated."""

    elements: Mapping[Element, int]  # -> its number
    element: Ints  # NONE: no service
    phase: Ints  # of a host's; 0: of a link
    begin_s: Doubles  # seconds of training
    stalled: Longs  # units, rising, in which something stalled
    stalled_ns: Doubles  # by those: for how long
    stalled_by: Ints  # by those: what did

    @cached_property
    def _by_element(self) -> tuple[Longs, Longs]:
        """The units by element, and where each element's begin."""
        order = order_of(self.element)
        return order, np.searchsorted(self.element[order], np.arange(len(self.elements) + 1))

    def of(self, element: int) -> Longs:
        """The units that are services of ``element``, rising."""
        order, starts = self._by_element
        return order[starts[element] : starts[element + 1]]

    def off_ns(self, units: Longs, whatif: WhatIf) -> Doubles:
        """Of each of ``units`` how long it stalled that it would not, if those that ``whatif`` says were moving."""
        found = np.zeros(len(units))
        if whatif.moving and len(self.stalled):
            moving = [self.elements[element] for element in whatif.moving]
            place = np.minimum(np.searchsorted(self.stalled, units), len(self.stalled) - 1)
            there = (self.stalled[place] == units) & np.isin(self.stalled_by[place], moving)
            found[there] = self.stalled_ns[place[there]]
        return found

    def touched(self, whatif: WhatIf) -> dict[int, list[Change]]:
        """The elements of which ``whatif`` may change a service, by number, and their changes.

        Raises: KeyError, if an element is not in the run.
        """
        moving = [self.elements[element] for element in whatif.moving]
        found: dict[int, list[Change]] = {}
        for element in self.element[self.stalled[np.isin(self.stalled_by, moving)]].tolist():
            found.setdefault(element, [])
        for change in whatif.changes:
            found.setdefault(self.elements[change.element], []).append(change)
        return found

    def effect(self, changes: Sequence[Change], units: Longs) -> tuple[Doubles, Doubles]:
        """(scale, nanoseconds less) of ``units``, services of one element that ``changes`` change."""
        scale, less_ns = np.ones(len(units)), np.zeros(len(units))
        for change in changes:
            own = np.full(len(units), True)
            if change.element.kind is ElementKind.HOST or change.phases <= LINK_PHASES:
                own = np.isin(self.phase[units], sorted(change.phases))
            at_s = self.begin_s[units[own]]
            scale[own] *= change.scale.at(at_s)
            less_ns[own] += change.less_s.at(at_s) * 1e9
        return scale, less_ns


def costs(services: Services, moments: Moments, queue: Queue, whatif: WhatIf) -> Costs:
    """What things take in ``whatif``. Raises: KeyError, if an element is not in the run."""
    found = Costs(
        own_ns=moments.service_ns + moments.residual_ns,
        delay_ns=queue.delay_ns.copy(),
        service_ns=queue.service_ns.copy(),
        ahead_ns=queue.ahead_ns.copy(),
    )
    for element, changes in services.touched(whatif).items():
        units = services.of(element)
        off_ns = services.off_ns(units, whatif)
        scale, less_ns = services.effect(changes, units)
        if len(units) and units[0] < len(moments.first):  # a host's
            found.own_ns[units] = computed_ns(moments.service_ns[units], off_ns, scale, less_ns)
            found.own_ns[units] += moments.residual_ns[units]
        else:
            units = units - len(moments.first)
            found.delay_ns[units] = delayed_ns(queue.delay_ns[units], less_ns)
            found.service_ns[units] = carried_ns(queue.service_ns[units], off_ns, scale)
            found.ahead_ns[units] = carried_ns(queue.ahead_ns[units], off_ns, scale)
    return found


def computed_ns(service_ns: Doubles, off_ns: Doubles, scale: Doubles, less_ns: Doubles) -> Doubles:
    """What services of a host take: stalls are taken off before they are scaled, ``less_ns`` afterwards."""
    return np.asarray(np.maximum(0.0, carried_ns(service_ns, off_ns, scale) - less_ns))


def carried_ns(service_ns: Doubles, off_ns: Doubles, scale: Doubles) -> Doubles:
    """What services of a link take."""
    return np.asarray(np.maximum(0.0, service_ns - off_ns) * scale)


def delayed_ns(delay_ns: Doubles, less_ns: Doubles) -> Doubles:
    """Delays that are shorter by ``less_ns``, at least 0; those that clocks made negative stay."""
    return np.asarray(np.maximum(np.minimum(delay_ns, 0.0), delay_ns - less_ns))
