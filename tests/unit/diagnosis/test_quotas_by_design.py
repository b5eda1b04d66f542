"""Scripts whose hosts a CPU quota slows: what it withholds by design is no departure, and what waits beyond it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from ddp import name, simulate
from test_scripts_designed import RANKS, RUN, designed, report

from e2c_dl.diagnosis.model import Part
from e2c_dl.trace.model import Phase, Trace


def with_waits(trace: Trace, waited_s: Mapping[int, float]) -> Trace:
    """``trace``, whose ranks waited for a processor for so much longer in each iteration."""
    ranks = []
    for rank in trace.ranks:
        spans = rank.spans.copy()
        spans["seq"][spans["phase"] == Phase.ITERATION] += round(waited_s.get(rank.rank, 0.0) * 1e6)
        ranks.append(replace(rank, spans=spans))
    return replace(trace, ranks=tuple(ranks))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_what_a_quota_withholds_by_design_is_no_departure(share: float) -> None:
    """Of rank 3, twice as slow by design, half of a core's ``share``; the others have as much as that."""
    seconds = {phase: took / share for phase, took in RUN.seconds.items()}
    slow = {(3, phase): took for phase, took in seconds.items()}
    whole_s = sum(seconds.values())
    waits = dict.fromkeys(range(3), (1 - share) * whole_s) | {3: (2 - share) * whole_s}
    trace = with_waits(simulate(replace(RUN, iterations=30, seconds=seconds, extra_s=slow)), waits)
    by_design = {name(rank): 2.0 if rank == 3 else 1.0 for rank in range(RANKS)}
    assert not report(trace, designed(trace, {}, factors=by_design)).findings
    (culprit,) = report(trace, designed(trace, {}, factors=dict.fromkeys(by_design, 1.0))).culprits
    assert (culprit.element.src, culprit.part) == (name(3), Part.PROCESSOR)


def test_who_waits_for_longer_than_a_quota_has_it_wait_is_named() -> None:
    slow = {(3, phase): took for phase, took in RUN.seconds.items()}
    crowded = replace(RUN, iterations=40, extra_s=slow, kept_s={1: 0.2})
    trace = with_waits(simulate(crowded), {3: sum(RUN.seconds.values())})
    factors = {name(rank): 2.0 if rank == 3 else 1.0 for rank in range(RANKS)}
    found = report(trace, designed(trace, {}, factors=factors))
    assert [(each.element.src, each.part) for each in found.culprits] == [(name(1), Part.PROCESSOR)]
    assert not any("Nothing was designed of this run's hosts" in each for each in found.limitations)
