"""What is asked of a link that departs: it is restored altogether if that is what it was designed for, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf
from e2c_dl.diagnosis.resimulation.changes import restoring, what_if
from e2c_dl.diagnosis.resimulation.links import MeasuredLink
from e2c_dl.scenario.what_if import Changed, LinkChange
from e2c_dl.topology import Link

DESIGNED = Link(rate_bps=20e6, delay_s=0.005)
THERE, BACK = ("a", "b"), ("b", "a")
MEASURED = {
    pair: MeasuredLink(rate_bps=Piecewise.constant(20e6), delay_s=Piecewise.constant(0.06)) for pair in (THERE, BACK)
}


def of_link(pair: tuple[str, str], **changed: Piecewise) -> Change:
    return Change(element=Element(kind=ElementKind.LINK, src=pair[0], dst=pair[1]), **changed)


LATE = WhatIf(changes=(of_link(THERE, less_s=Piecewise.constant(0.055)), of_link(BACK, scale=Piecewise.constant(0.7))))
"""What restores a link that is late by 55 ms, and whose way back is slow for that alone."""


def restored(changed: Changed) -> WhatIf:
    asked = what_if(changed, MEASURED, quota=False)
    return restoring(asked, changed, {THERE: LATE}, lambda *_: DESIGNED)


@pytest.mark.parametrize(
    "asked", [LinkChange(delay_s=0.005), LinkChange(delay_s=0.005, rate_bps=20e6)], ids=["delay alone", "both"]
)
def test_what_was_designed_restores_a_link_with_its_way_back(asked: LinkChange) -> None:
    assert restored(Changed(links={THERE: asked})).changes == LATE.changes


@pytest.mark.parametrize(
    "more", [{"rate_bps": 4e6}, {"rate_factor": 0.5}, {"delay_s": 0.01}], ids=["a rate", "half its rate", "a delay"]
)
def test_another_value_is_what_is_asked_for(more: dict[str, float]) -> None:
    asked = Changed(links={THERE: replace(LinkChange(delay_s=0.005), **more)})
    assert restored(asked) == what_if(asked, MEASURED, quota=False)


def test_what_is_asked_of_the_way_back_stays() -> None:
    found = restored(Changed(links={THERE: LinkChange(delay_s=0.005), BACK: LinkChange(rate_factor=0.25)}))
    there, back = sorted(found.changes, key=lambda each: each.element.src)
    assert there == LATE.changes[0]
    assert back.scale == Piecewise.constant(4.0)
