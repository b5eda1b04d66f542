"""A host that becomes slow, or fast again, amid a gradient: the pieces that were slow count to its stretch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.detection import host_verdicts
from e2c_dl.diagnosis.detection.hosts import host_departures
from e2c_dl.diagnosis.model import Report
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.diloco import DiLoCo
from e2c_dl.trace.model import GRADIENT, Phase
from e2c_dl.worlds.virtual import LinkModel

SIZE, FACTOR, ITERATIONS, ONSET = 4, 2.0, 36, 14
LINKS = vw.everywhere(SIZE, LinkModel(rate_bps=1e9, delay_s=0.001))


def ran(slower: Schedule | None, noise: float = 0.1, samples: int = 64) -> vw.Run:
    hosts = list(vw.hosts(SIZE, of=vw.profile((1000, 800, 600), per_sample_s=0.01), noise=noise, samples=samples))
    if slower is not None:
        hosts[2] = replace(hosts[2], slower=dict.fromkeys(GRADIENT, slower))
    return vw.run(Allreduce, size=SIZE, links=LINKS, seed=5, iterations=ITERATIONS, on_hosts=hosts)


def told(run: vw.Run) -> Report:
    return analyse(run.trace, run.reference())


def began_s(run: vw.Run, phase: Phase, bucket: int) -> float:
    """When the slow host began that piece of its gradient of iteration ONSET, in seconds of training."""
    spans = run.spans(2, phase)
    (span,) = spans[(spans["iteration"] == ONSET) & (spans["bucket"] == bucket)]
    return float(span["start_ns"]) / 1e9


def slow(undisturbed: vw.Run, bucket: int, length_s: float) -> Schedule:
    """From just before the backward pass of ``bucket`` on."""
    begin_s = began_s(undisturbed, Phase.BACKWARD, bucket) - 0.001
    return Schedule(points=((0.0, 1.0), (begin_s, FACTOR), (begin_s + length_s, 1.0)))


def test_a_stretch_begins_with_the_bucket_that_it_met() -> None:
    undisturbed = ran(None)
    run = ran(slow(undisturbed, 2, length_s=1e9))
    (found,) = told(run).culprits
    assert found.when.onset_iteration == ONSET
    assert found.when.onset_s == pytest.approx(began_s(run, Phase.BACKWARD, 2))


@pytest.mark.parametrize("length_s", [3.4, 4.2, 5.0, 5.8])
def test_what_a_short_stretch_cost_is_told_whole(length_s: float) -> None:
    undisturbed = ran(None)
    run = ran(slow(undisturbed, 1, length_s))
    (found,) = told(run).findings
    cost_s = run.end_s - undisturbed.end_s
    assert found.when.onset_iteration == ONSET
    assert found.saved_s == pytest.approx(cost_s, rel=0.1)


def test_whatever_noise_makes_of_pieces_is_no_edge() -> None:
    undisturbed = ran(None, noise=0.15)
    begin_s = began_s(undisturbed, Phase.FORWARD, -1) - 0.001  # all of its gradient is slow
    run = ran(Schedule(points=((0.0, 1.0), (begin_s, FACTOR))), noise=0.15)
    (found,) = told(run).culprits
    assert found.when.onset_iteration == ONSET


def restored(run: vw.Run) -> Piecewise:
    """What the slow host's pieces are to be multiplied by, over seconds of training."""
    seen = observe(run.trace, run.reference())
    (found,) = (each for each in host_departures(seen.trace, seen.design).departures if each.element.src == "edge-3")
    (change,) = found.restored.changes
    return change.scale


def told_wrongly(bucket: int, length_s: float) -> tuple[int, int]:
    """How many pieces that were slow are not restored, and how many are that were not."""
    schedule = slow(ran(None), bucket, length_s)
    run = ran(schedule)
    spans = run.spans(2)
    begun_s = spans["start_ns"][np.isin(spans["phase"], sorted(GRADIENT)) & (spans["iteration"] > 4)] / 1e9
    was_slow = np.array([schedule.at(at_s) > 1 for at_s in begun_s.tolist()])
    is_restored = restored(run).at(begun_s) < 0.75
    return int((was_slow & ~is_restored).sum()), int((is_restored & ~was_slow).sum())


def test_all_pieces_that_were_slow_are_restored_and_no_more_others_than_levels_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [(bucket, length_s) for bucket in range(3) for length_s in (5.0, 5.5, 6.1)]
    with_edges = np.array([told_wrongly(*each) for each in cases])
    monkeypatch.setattr(host_verdicts, "edges", lambda *_: [])
    by_levels = np.array([told_wrongly(*each) for each in cases])
    assert with_edges[:, 0].sum() <= 1 < by_levels[:, 0].sum()
    assert (with_edges[:, 1] <= by_levels[:, 1]).all()


def with_noise_of_pieces(run: vw.Run, noise: float) -> vw.Run:
    """``run`` whose pieces of gradients took longer or less, each by itself."""
    chance, ranks = np.random.default_rng(7), []
    for rank in run.trace.ranks:
        spans = rank.spans.copy()
        pieces = np.isin(spans["phase"], sorted(GRADIENT))
        took_ns = (spans["end_ns"] - spans["start_ns"])[pieces] * np.exp(chance.normal(0, noise, pieces.sum()))
        spans["end_ns"][pieces] = spans["start_ns"][pieces] + took_ns.astype(np.int64)
        ranks.append(replace(rank, spans=spans))
    return replace(run, trace=replace(run.trace, ranks=tuple(ranks)))


def test_pieces_that_are_uneven_anyhow_make_no_edges() -> None:
    undisturbed = ran(None)
    begin_s = began_s(undisturbed, Phase.FORWARD, -1) - 0.001  # all of its gradient is slow
    run = with_noise_of_pieces(ran(Schedule(points=((0.0, 1.0), (begin_s, FACTOR)))), 0.15)
    assert (restored(run).at(np.array([begin_s - 1.0, begin_s - 0.2, begin_s - 0.01])) == 1.0).all()


@pytest.mark.parametrize("noise", [0.1, 0.15])
def test_a_bucket_that_ends_as_the_next_iteration_begins_opens_the_stretch_that_follows(noise: float) -> None:
    of = replace(vw.profile((1000, 800, 600), per_sample_s=0.01), step_s=0.0)  # nothing is between them
    of = replace(of, gradients={each: replace(times, data_s=0.0) for each, times in of.gradients.items()})

    def averaging(slower: Schedule) -> vw.Run:
        hosts = list(vw.hosts(SIZE, of=of, noise=noise, samples=64))
        hosts[2] = replace(hosts[2], slower=dict.fromkeys(GRADIENT, slower))
        strategy = partial(DiLoCo, period_within=8, period_between=8)
        return vw.run(strategy, size=SIZE, links=LINKS, seed=5, iterations=ITERATIONS, on_hosts=hosts)

    undisturbed = averaging(Schedule.constant(1.0))
    for bucket in range(3):
        run = averaging(slow(undisturbed, bucket, length_s=1e9))
        ends = run.spans(2, Phase.BACKWARD)["end_ns"]
        assert np.isin(run.spans(2, Phase.ITERATION)["start_ns"], ends).any()
        (found,) = told(run).culprits
        assert found.when.onset_iteration == ONSET
