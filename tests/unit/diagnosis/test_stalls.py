"""Stalls of hosts: gradients that take seconds longer than others, and what else lasts so while a host is not alive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from e2c_dl.diagnosis.departures import Departure
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.stalls.stalls import stalls, with_stalls
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.model import Element, ElementKind, Part
from e2c_dl.diagnosis.replay.replay import Stall
from e2c_dl.diagnosis.replay.whatif import WhatIf
from e2c_dl.diagnosis.stretches import at_moments
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.model import Phase, Trace
from tests import virtual_world

HOST, ITERATION, LATER_NS = "edge-2", 7, 4 * 10**9


def longer(trace: Trace, phase: Phase) -> tuple[Trace, int]:
    """``trace``, in which the ``phase`` of one iteration of HOST takes 4 s longer; when that began."""
    rank = next(each for each in trace.ranks if each.host == HOST)
    spans = rank.spans.copy()
    (row, *_) = np.flatnonzero((spans["phase"] == phase) & (spans["iteration"] == ITERATION))
    begun_ns = int(spans["start_ns"][row])
    for end in ("posted_ns", "start_ns", "end_ns"):
        spans[end][spans[end] > begun_ns] += LATER_NS
    ranks = tuple(replace(each, spans=spans) if each is rank else each for each in trace.ranks)
    return replace(trace, ranks=ranks), begun_ns


def alive(trace: Trace, *, silent_ns: tuple[int, int] = (0, 0)) -> dict[str, np.ndarray]:
    """Every host was seen twice a second, HOST but for some time."""
    seen = np.arange(0, 30 * 10**9, 5 * 10**8, dtype=np.int64)
    unseen = (seen > silent_ns[0]) & (seen < silent_ns[1])
    return {rank.host: seen[~unseen] if rank.host == HOST else seen for rank in trace.ranks}


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.BACKWARD, Phase.DATA, Phase.STEP])
def test_computing_of_any_phase_stalls_while_its_host_was_not_alive(phase: Phase) -> None:
    run = virtual_world.run(Allreduce, size=3, iterations=20)
    made, begun_ns = longer(run.trace, phase)
    design = Design.of(made, run.reference())
    silent = stalls(replace(made, alive=alive(made, silent_ns=(begun_ns, begun_ns + LATER_NS))), (), design)
    assert {str(each.element) for each in silent.found} == {HOST}
    assert [each.length_ns for each in silent.found] == pytest.approx([LATER_NS] * len(silent.found), rel=0.05)
    assert {key[:3] for key in silent.segments} == {(1, int(phase), ITERATION)}
    seen = stalls(replace(made, alive=alive(made)), (), design)
    assert bool(seen.found) == (phase in {Phase.FORWARD, Phase.BACKWARD})


def test_what_members_of_a_group_stalled_is_told_with_the_group() -> None:
    run = virtual_world.run(Allreduce, size=3, iterations=20)
    links = [Element(kind=ElementKind.LINK, src="edge-1", dst=dst) for dst in ("edge-2", "edge-3")]
    group = Departure(
        element=Element(kind=ElementKind.GROUP, src="2 links edge -> edge"), part=Part.RATE, slowdown=2.0,
        when=at_moments([(1.0, 2.0)], 5), observed=1.0, expected=2.0, evidence="slow.", restored=WhatIf(),
        excess_s=1.0, members=tuple(links),
    )  # fmt: skip
    design = Design.of(run.trace, run.reference())
    found = [
        Stall(element=link, begin_ns=design.began_ns + 10**9, length_ns=(3 + place) * 10**9)
        for place, link in enumerate(links)
    ]
    (told,) = with_stalls((group,), found, Windows.of(run.trace, design.began_ns), design)
    assert told.element is group.element and told.slowdown == 2.0
    assert told.stalled_s == 4.0 and told.excess_s == 1.0 + 3.0 + 4.0
    assert told.restored.moving == {*links}
