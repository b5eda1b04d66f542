"""Ranks on processors that others use, too: what their computing waited for one is told from what it takes itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ddp import Ddp, name, restored, run_s, simulate
from test_scripts import report_of

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.host_series import PHASES, seconds_in
from e2c_dl.diagnosis.detection.processors import LEAST_RAN, Kept, processor_series
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.references import Reference
from e2c_dl.diagnosis.scripts import script_reference
from e2c_dl.topology import Topology
from e2c_dl.trace.model import Phase, RankTrace, Trace

ALIKE = Ddp(ranks=4, iterations=40, noise=0.1)
EVERY = dict.fromkeys(range(4), 0.04)
DESIGN = Design(
    reference=Reference(topology=Topology(hosts=()), compute_factors={}, batch_sizes={}),
    began_ns=0, seconds=1.0, judged_s=1.0,
)  # fmt: skip


@pytest.mark.parametrize("rank", [0, 3])
def test_who_waits_for_a_processor_is_named_for_that_and_for_nothing_else(rank: int) -> None:
    crowded = replace(ALIKE, kept_s={rank: 0.06})
    (culprit,) = report_of(simulate(crowded)).culprits
    assert (culprit.element.src, culprit.part) == (name(rank), Part.PROCESSOR)
    assert "computes, or waits for a processor that others have, for" in culprit.evidence
    true_s = run_s(simulate(crowded)) - run_s(simulate(ALIKE))
    assert culprit.saved_s == pytest.approx(true_s, rel=0.15)


def test_untold_it_is_called_slow_computing() -> None:
    untold = report_of(simulate(replace(ALIKE, kept_s={1: 0.06}, tells_kept=False)))
    assert [each.part for each in untold.culprits] == [Part.COMPUTE]


@pytest.mark.parametrize("seed", range(6))
def test_of_ranks_that_wait_alike_none_is_named(seed: int) -> None:
    assert not report_of(simulate(replace(ALIKE, kept_s=EVERY, seed=seed))).culprits


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("phase", "part"), [(Phase.BACKWARD, Part.COMPUTE), (Phase.DATA, Part.DATA), (Phase.STEP, Part.STEP)]
)
def test_a_slow_phase_is_found_among_ranks_that_wait(phase: Phase, part: Part, seed: int) -> None:
    crowded = replace(ALIKE, kept_s=EVERY, extra_s={(2, phase): 0.1}, seed=seed)
    (culprit,) = report_of(simulate(crowded)).culprits
    assert (culprit.element.src, culprit.part) == (name(2), part)
    true_s = run_s(simulate(crowded)) - run_s(simulate(restored(crowded)))
    assert culprit.saved_s == pytest.approx(true_s, rel=0.2)


def told(rank: RankTrace, waited_us: list[int]) -> RankTrace:
    spans = rank.spans.copy()
    spans["seq"][spans["phase"] == Phase.ITERATION] = waited_us
    return replace(rank, spans=spans)


def test_a_wait_is_taken_off_the_phase_that_took_longer() -> None:
    """In each iteration 20 ms are of FORWARD and 40 of BACKWARD."""
    ddp = Ddp(iterations=20, kept_s={0: 0.03}, seed=3)
    rank = simulate(ddp).ranks[0]
    kept = Kept.of(rank, DESIGN)
    assert kept is not None
    for part, seconds in ((Part.COMPUTE, 0.06), (Part.DATA, 0.01), (Part.STEP, 0.005)):
        took_s = seconds_in(rank, PHASES[part], 20)
        assert took_s.max() > 1.3 * seconds
        assert took_s * kept.ran[part] == pytest.approx(seconds, rel=0.1), part


def test_an_iteration_that_tells_nothing_waited_as_is_usual() -> None:
    rank = simulate(Ddp(iterations=6)).ranks[0]  # 75 ms of computing in each
    kept = Kept.of(told(rank, [15_000, -1, 15_000, 15_000, -1, 15_000]), DESIGN)
    assert kept is not None
    assert kept.ran[Part.COMPUTE] == pytest.approx(0.8, rel=0.01)
    longer = Kept.of(told(rank, [0, 0, 0, 0, 0, 500_000]), DESIGN)
    assert longer is not None and longer.ran[Part.DATA][-1] == pytest.approx(LEAST_RAN)


def test_a_trace_that_tells_of_no_wait_has_none() -> None:
    rank = simulate(Ddp(iterations=4)).ranks[0]
    assert Kept.of(told(rank, [-1] * 4), DESIGN) is None
    assert Kept.of(replace(rank, spans=rank.of(Phase.ITERATION)), DESIGN) is None
    assert Kept.of(replace(rank, spans=rank.spans[:0]), DESIGN) is None


def test_a_rank_alone_is_held_to_a_processor_of_its_own() -> None:
    alone = Ddp(ranks=1, iterations=30, noise=0.1, kept_s={0: 0.06})
    (culprit,) = report_of(simulate(alone)).culprits
    assert culprit.part is Part.PROCESSOR
    assert "with a processor to itself it would take 7" in culprit.evidence


def test_a_wait_is_a_share_of_the_iteration_that_it_was_a_part_of() -> None:
    """Whose checkpoint, say, took a second: what it waits for there is as long as elsewhere, and no larger part."""
    rank = told(simulate(Ddp(ranks=1, iterations=60, paused_s={(0, 50): 1.0})).ranks[0], [15_000] * 60)
    trace, kept = Trace(ranks=(rank,), facts={}), Kept.of(rank, DESIGN)
    assert kept is not None
    (waits,) = processor_series([rank], {rank.host: kept}, Design.of(trace, script_reference(trace, {})), {})
    beyond_s = waits.series.spent_s - waits.series.designed_s
    assert beyond_s == pytest.approx(0.015)
