"""The last iterations of a run, as a run of its own: the same verdicts, nothing left in halves, schedules in place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from continued import changing
from synthetic import Ring, simulate

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.window import BEGAN, began_ns, last_of, window
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.topology import Link
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import Phase, Spans

LINK = Link(rate_bps=40e6, delay_s=0.002)
RING = Ring(compute_s=(0.05,) * 4, links=(LINK,) * 4, bucket_bytes=(200_000, 100_000), compute_noise=0.02)


@pytest.mark.parametrize(("first", "stop"), [(0, 12), (4, 12), (11, 12), (3, 7)])
def test_a_window_is_a_run_of_whole_messages(first: int, stop: int) -> None:
    trace = simulate(RING)
    cut = window(trace, first, stop)
    assert join(cut).unmatched == 0
    for rank, whole in zip(cut.ranks, trace.ranks, strict=True):
        iterations = rank.spans[rank.spans["phase"] == Phase.ITERATION]
        assert iterations["iteration"].tolist() == list(range(stop - first))
        kept = np.isin(whole.spans["iteration"], range(first, stop)) & (whole.spans["phase"] == Phase.BACKWARD)
        assert (rank.spans["phase"] == Phase.BACKWARD).sum() == kept.sum()
        assert (rank.spans["phase"] == Phase.TRAINING).sum() == 1
    assert analyse(cut, RING.reference()).iterations == stop - first


@pytest.mark.parametrize(
    ("changed", "named"),
    [({}, []), ({"slow_hosts": {1: 3.0}}, ["edge-2"]), ({"slow_links": {2: 0.25}}, ["edge-3 -> edge-4"])],
)
def test_a_window_has_the_verdict_of_its_part_of_the_run(
    changed: dict[str, dict[int, float]], named: list[str]
) -> None:
    trace = changing(RING, replace(RING, **changed, iterations=10), 12)
    after, before = (analyse(window(trace, *span), RING.reference()) for span in ((12, 22), (2, 12)))
    assert [str(finding.element) for finding in after.culprits] == named
    assert before.culprits == ()


@pytest.mark.parametrize("changed", [{"slow_hosts": {1: 3.0}}, {"slow_links": {2: 0.25}}])
@pytest.mark.parametrize("last", [8, 12, 16])
def test_a_departure_shows_within_five_iterations_of_its_onset(changed: dict[str, dict[int, float]], last: int) -> None:
    trace = changing(RING, replace(RING, **changed, iterations=5), 16)
    (found,) = analyse(window(trace, 21 - last, 21), RING.reference()).culprits
    assert found.when.onset_iteration == 16 - (21 - last)


def test_late_in_a_long_run_a_window_names_as_it_does_early() -> None:
    cut = window(changing(RING, replace(RING, slow_links={2: 0.25}, iterations=10), 12), 12, 22)
    hours_later = replace(cut, facts={BEGAN: began_ns(cut) - 3600 * 10**9})
    (found,) = analyse(hours_later, RING.reference()).culprits
    assert str(found.element) == "edge-3 -> edge-4"
    early, late = (Design.of(each, RING.reference()) for each in (cut, hours_later))
    assert late.judged_s == early.judged_s < early.seconds < late.seconds - 3599


def test_where_ranks_go_at_their_own_pace_windows_are_as_long_late_in_a_run_as_early() -> None:
    ranks = [*simulate(RING).ranks]
    ranks[3] = replace(ranks[3], spans=_slower(ranks[3].spans, 4))
    trace = replace(simulate(RING), ranks=tuple(ranks))
    early, late = (Windows.of(trace, began_ns(trace) - began_s * 10**9) for began_s in (0, 3600))
    assert early.own_pace and late.own_pace
    assert len(late) == len(early) > 10
    assert late.begins_s == pytest.approx(early.begins_s + 3600)


def test_an_evaluation_behind_all_iterations_may_outlast_them() -> None:
    trace = simulate(RING)
    first = trace.ranks[0].spans
    evaluation = first[first["phase"] == Phase.ITERATION][-1:].copy()
    evaluation["phase"], evaluation["iteration"] = Phase.EVALUATE, -1
    evaluation["posted_ns"] = evaluation["start_ns"] = evaluation["end_ns"]
    evaluation["end_ns"] += 60 * 10**9
    ranks = (replace(trace.ranks[0], spans=np.concatenate([first, evaluation])), *trace.ranks[1:])
    found = last_of(replace(trace, ranks=ranks), last=6, fewest=4, own_pace=True)
    assert found is not None
    cut, firsts = found
    assert set(firsts.values()) == {6, 7}
    assert [len(rank.rows(Phase.ITERATION)) for rank in cut.ranks] == [12 - first for first in firsts.values()]


def _slower(spans: Spans, times: int) -> Spans:
    slower = spans.copy()
    for name in ("posted_ns", "start_ns", "end_ns"):
        slower[name] *= times
    return slower


def test_schedules_count_from_when_training_began() -> None:
    """A host that is slow by design from the middle of the run on is no culprit of a window there."""
    trace = changing(RING, replace(RING, slow_hosts={1: 3.0}, iterations=10), 12)
    cut = window(trace, 12, 22)
    middle_s = (int(cut.ranks[0].spans["start_ns"].min()) - began_ns(trace)) / 1e9
    slow = Schedule(points=((0.0, 1.0), (middle_s - 0.02, 3.0)))
    reference = RING.reference()
    factors = {**reference.compute_factors, "edge-2": slow}
    assert analyse(cut, replace(reference, compute_factors=factors)).culprits == ()
    assert Design.of(cut, reference).began_ns == cut.facts[BEGAN] == began_ns(trace)
