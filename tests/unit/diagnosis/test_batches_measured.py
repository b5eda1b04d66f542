"""What a run whose batches change tells of samples: where it is no line, where spans are lost, and of other classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import test_changing_batches as changing
import virtual_world as vw

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Report
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.resimulation.world import MeasuredWorld
from e2c_dl.trace.model import Phase, RankTrace, Trace
from e2c_dl.worlds.virtual import GradientTimes

CLIFF = {1: 0.02, 32: 0.16, 64: 0.6}  # s: what no longer fits a cache takes far longer
LOST = 2  # iteration


def without_a_piece(rank: RankTrace) -> RankTrace:
    spans = rank.spans
    lost = (spans["phase"] == Phase.BACKWARD) & (spans["iteration"] == LOST) & (spans["bucket"] == 1)
    assert lost.any()
    return replace(rank, spans=spans[~lost])


def world(run: vw.Run, trace: Trace) -> MeasuredWorld:
    return observe(trace, changing.reference(run)).world(changing.retraining("allreduce"))


@pytest.mark.parametrize("modelled", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_healthy_hosts_are_left_alone_where_a_gradient_takes_no_line_of_its_samples(seed: int, modelled: bool) -> None:
    times = {n: GradientTimes(data_s=1e-4, forward_s=s / 3, backward_s=(s / 3, s / 3)) for n, s in CLIFF.items()}
    profile = replace(changing.PROFILE, gradients=times)
    hosts = vw.hosts(6, samples=32, factors=changing.BY_DESIGN, of=profile, noise=0.05)
    run = vw.run(
        changing.STRATEGIES["allreduce"], size=6, seed=seed, iterations=changing.ITERATIONS, on_hosts=hosts,
        links=changing.LINKS, batching="dynamic",
    )  # fmt: skip
    known_s = {host.name: CLIFF[32] for host in run.hosts} if modelled else {}
    report: Report = analyse(
        run.trace, replace(changing.reference(run), modelled=modelled, normal_s=known_s), speeding_up=False
    )
    assert report.culprits == ()


def test_gradients_keep_their_batches_where_one_before_them_lacks_a_piece() -> None:
    run = changing.ran("allreduce", slower=changing.slowed(3.0, 0.0, late=False))
    slow = changing.SLOW
    damaged = replace(
        run.trace,
        ranks=tuple(without_a_piece(rank) if place == slow else rank for place, rank in enumerate(run.trace.ranks)),
    )
    whole, left = (world(run, trace).hosts[slow].gradients for trace in (run.trace, damaged))
    assert len({samples for samples, _ in whole}) > 1
    assert [samples for samples, _ in left] == [samples for place, (samples, _) in enumerate(whole) if place != LOST]


@pytest.mark.parametrize("of_slow", ["board", "another board"])
def test_who_evaluates_in_place_of_another_takes_as_much_longer_as_its_gradients(of_slow: str) -> None:
    hosts = vw.hosts(6, samples=32, factors=changing.BY_DESIGN, of=changing.PROFILE, noise=0.02)
    run = vw.run(
        changing.STRATEGIES["allreduce"], size=6, seed=1, iterations=changing.ITERATIONS, on_hosts=hosts,
        links=changing.LINKS, batching="dynamic", evaluate_every=4,
    )  # fmt: skip
    hardware = {host.name: "board" if place < 3 else of_slow for place, host in enumerate(run.hosts)}
    observed = observe(run.trace, replace(changing.reference(run), hardware=hardware))
    first, *_, slow = observed.world(replace(changing.retraining("allreduce"), evaluate_every=4)).hosts
    took, would = (np.median(host.evaluations_ns) for host in (first, slow.evaluating_as(first)))
    assert would / took == pytest.approx(2.0, rel=0.2)  # by design
