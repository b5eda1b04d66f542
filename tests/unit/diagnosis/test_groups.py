"""Hosts of a layer that depart alike are one departure, though they do not end training together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2c_dl.diagnosis.departures import Departure
from e2c_dl.diagnosis.detection.groups import grouped
from e2c_dl.diagnosis.model import Element, ElementKind, Part
from e2c_dl.diagnosis.replay.whatif import WhatIf
from e2c_dl.diagnosis.stretches import Stretches, When

LAYERS = {"edge-1": "edge", "edge-2": "edge", "edge-3": "edge"}


def departure(host: str, when: When, begin_s: float, end_s: float) -> Departure:
    stretch = Stretches(when=when, onset_iteration=3, onset_s=begin_s, begins_s=(begin_s,), ends_s=(end_s,))
    return Departure(
        element=Element(kind=ElementKind.HOST, src=host), part=Part.COMPUTE, when=stretch, slowdown=2.0, observed=0.2,
        expected=0.1, evidence="", restored=WhatIf(), excess_s=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("when", "end_s", "groups"),
    [
        (When.SINCE, 21.0, 1),  # it has trained its iterations, and says nothing of later
        (When.ONCE, 21.0, 3),  # it trained on, as fast as ever
        (When.ONCE, 34.0, 1),
    ],
)
def test_one_that_ends_training_early_may_be_of_the_group(when: When, end_s: float, groups: int) -> None:
    early = departure("edge-1", when, 19.0, end_s)
    others = [departure(host, When.SINCE, 19.0, 34.0) for host in ("edge-2", "edge-3")]
    assert len(grouped([early, *others], [], {}, LAYERS)) == groups


@pytest.mark.parametrize(("slowdown", "members"), [(2.0, 3), (4.0, 2)])
def test_one_that_may_be_late_for_another_reason_is_of_the_group_if_it_departs_alike(
    slowdown: float, members: int
) -> None:
    *own, unsure = (departure(host, When.PERSISTENT, 0.0, 34.0) for host in LAYERS)
    (group,) = grouped(own, [replace(unsure, slowdown=slowdown)], {}, LAYERS)
    assert len(group.members) == members
