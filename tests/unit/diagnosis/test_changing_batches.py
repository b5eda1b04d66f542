"""Hosts whose batches follow their speed while they train: gradients are held to their samples, and priced by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.detection.batches import PerSample, Sized
from e2c_dl.diagnosis.model import Finding, Report
from e2c_dl.diagnosis.references import Reference
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.world import Layout
from e2c_dl.diagnosis.stretches import When
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.base import Strategy
from e2c_dl.strategies.dlion import DLion
from e2c_dl.strategies.wrappers import Wrapping
from e2c_dl.trace.model import GRADIENT, Phase, Trace
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.virtual import HostModel, LinkModel

ITERATIONS, SLOW, BUCKETS = 36, 4, (30_000, 20_000)
LINKS = vw.everywhere(6, LinkModel(rate_bps=200e6, delay_s=0.001))
BY_DESIGN = (1.0, 1.0, 1.0, 2.0, 2.0, 2.0)
PROFILE = vw.profile(BUCKETS, fixed_s=0.02, per_sample_s=5e-3)
GROWING = {"growth_period": 8, "growth_samples": 20_000}
STRATEGIES = {"allreduce": Allreduce, "dlion": DLion, "growing": partial(DLion, **GROWING)}


def designed(noise: float) -> tuple[HostModel, ...]:
    return vw.hosts(6, samples=32, factors=BY_DESIGN, of=PROFILE, noise=noise)


def ran(
    strategy: str, *, noise: float = 0.08, seed: int = 1, batching: str = "dynamic",
    slower: Mapping[Phase, Schedule] | None = None,
) -> vw.Run:  # fmt: skip
    hosts = [replace(host, slower=slower) if slower and rank == SLOW else host
             for rank, host in enumerate(designed(noise))]  # fmt: skip
    return vw.run(
        STRATEGIES[strategy], size=6, seed=seed, iterations=ITERATIONS, on_hosts=hosts, links=LINKS, batching=batching
    )


def slowed(factor: float, run_s: float, *, late: bool) -> Mapping[Phase, Schedule]:
    points = ((0.0, 1.0), (run_s * 2 / 3, factor)) if late else ((0.0, factor),)
    return dict.fromkeys(GRADIENT, Schedule(points=points))


def reference(run: vw.Run, kind: str = "board") -> Reference:
    hardware = {host.name: kind for host in run.hosts}
    return replace(run.reference(), batches_change=True, hardware=hardware)


def retraining(strategy: str, batching: str = "dynamic") -> Retraining:
    made: Strategy = STRATEGIES[strategy]()
    return Retraining(
        strategy=STRATEGIES[strategy], samples=[32] * 6, allotment=lambda: Equal(ITERATIONS), seed=1,
        layout=Layout(dtype="float32", buckets=BUCKETS), wrapping=Wrapping(batching=batching), in_step=True,
        chooses=made.chooses_by_links,
    )  # fmt: skip


def report(run: vw.Run, strategy: str, batching: str = "dynamic") -> Report:
    return analyse(run.trace, reference(run), retraining(strategy, batching), speeding_up=False)


def of_slow(told: Report) -> Finding | None:
    return next((each for each in told.findings if str(each.element) == f"edge-{SLOW + 1}"), None)


def unnumbered(trace: Trace) -> Trace:
    """``trace``, as it was recorded when nobody told samples."""
    ranks = []
    for rank in trace.ranks:
        spans = rank.spans.copy()
        spans["seq"][spans["phase"] == Phase.FORWARD] = -1
        ranks.append(replace(rank, spans=spans))
    return replace(trace, ranks=tuple(ranks))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("noise", [0.02, 0.08, 0.15])
def test_batches_that_follow_designed_speeds_accuse_nobody(strategy: str, noise: float) -> None:
    for seed in range(3):
        run = ran(strategy, noise=noise, seed=seed)
        samples = run.result.samples
        assert max(samples) > 1.5 * min(samples), "hosts that are slower by design get less"
        told = analyse(run.trace, reference(run), speeding_up=False)
        assert told.culprits == ()
        assert not any("batches changed" in each for each in told.limitations)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("factor", [1.5, 2.0, 5.0])
def test_a_slow_host_is_named_with_its_factor_since_when_and_what_it_costs(
    strategy: str, factor: float, late: bool
) -> None:
    healthy = ran(strategy)
    run = ran(strategy, slower=slowed(factor, healthy.end_s, late=late))
    told = report(run, strategy)
    found = of_slow(told)
    assert found is not None
    assert [str(each.element) for each in told.culprits] in ([], [f"edge-{SLOW + 1}"])
    assert found.slowdown == pytest.approx(factor, rel=0.2), "it begins within an iteration"
    assert found.speedup == pytest.approx(run.end_s / healthy.end_s, abs=0.15 * (run.end_s / healthy.end_s - 1) + 0.01)
    if late:
        begun = run.spans(SLOW, Phase.ITERATION)
        onset = int(begun["iteration"][begun["end_ns"] > healthy.end_s * 2 / 3 * 1e9][0])
        assert found.when.when is When.SINCE
        assert abs(found.when.onset_iteration - onset) <= 1
    else:
        assert found.when.when is When.PERSISTENT


def test_a_gradient_of_a_far_larger_batch_is_no_stall() -> None:
    doubling = {"growth_period": 4, "growth_samples": 10_000_000, "growth_slow_until": 0.0}
    hosts = vw.hosts(6, samples=32, of=PROFILE, noise=0.05)
    run = vw.run(
        partial(DLion, **doubling), size=6, seed=1, iterations=ITERATIONS, on_hosts=hosts, links=LINKS,
        batching="dynamic",
    )  # fmt: skip
    assert run.result.samples[0] > 100 * 32
    assert analyse(run.trace, reference(run), speeding_up=False).findings == ()


def test_batches_that_are_divided_once_are_held_to_their_samples_too() -> None:
    healthy = ran("allreduce", batching="proportional")
    assert report(healthy, "allreduce", "proportional").culprits == ()
    run = ran("allreduce", batching="proportional", slower=slowed(3.0, 0.0, late=False))
    found = of_slow(report(run, "allreduce", "proportional"))
    assert found is not None
    assert found.slowdown == pytest.approx(3.0, rel=0.15)
    late = ran("allreduce", batching="proportional", slower=slowed(3.0, healthy.end_s, late=True))
    found = of_slow(report(late, "allreduce", "proportional"))
    assert found is not None
    assert found.material
    assert found.speedup == pytest.approx(late.end_s / healthy.end_s, rel=0.03)


def test_a_host_of_unknown_hardware_is_held_to_itself() -> None:
    healthy = ran("allreduce")
    assert analyse(healthy.trace, reference(healthy, "unknown"), speeding_up=False).culprits == ()
    run = ran("allreduce", slower=slowed(3.0, healthy.end_s, late=True))
    found = of_slow(analyse(run.trace, reference(run, "unknown"), retraining("allreduce"), speeding_up=False))
    assert found is not None
    assert found.slowdown == pytest.approx(3.0, rel=0.2)


def test_a_trace_that_tells_no_samples_has_no_verdict_on_gradients() -> None:
    run = ran("allreduce", slower=slowed(5.0, 0.0, late=False))
    told = analyse(unnumbered(run.trace), reference(run), retraining("allreduce"), speeding_up=False)
    assert of_slow(told) is None
    assert any("the trace does not tell of how many samples each was" in each for each in told.limitations)


def sized(samples: np.ndarray, *, share: float, level: np.ndarray | float = 0.0, noise: float, seed: int) -> Sized:
    """A host that takes by ``share`` of a batch of 32 as long as its samples, and ``level`` times e longer."""
    draw = np.random.default_rng(seed)
    took = np.log(1 - share + share * samples / 32) + level + draw.normal(0, noise, len(samples))
    return Sized(np.arange(len(samples), dtype=np.float64), took, samples)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_what_goes_by_samples_is_told_by_changes_of_batches(share: float) -> None:
    place = np.arange(40)
    level = np.where(place >= 20, np.log(3.0), 0.0)  # slow from the middle on; its batches follow later
    follows = np.where(place >= 24, 12.0, 32.0) + place // 2 % 2
    others = 32.0 + place // 2 % 3
    for seed in range(5):
        several = [sized(follows, share=share, level=level, noise=0.05, seed=seed)]
        several += [sized(others, share=share, noise=0.05, seed=10 * seed + each) for each in range(1, 6)]
        found = PerSample.of(several)
        of_32 = found.share * 32 / found.pivot / (1 - found.share + found.share * 32 / found.pivot)
        assert of_32 == pytest.approx(share, abs=0.2)
        assert found.least <= found.share <= found.most


def test_batches_that_never_change_tell_nothing_of_samples() -> None:
    same = [sized(np.full(20, samples), share=0.5, noise=0.05, seed=1) for samples in (8.0, 32.0)]
    found = PerSample.of(same)
    assert (found.least, found.most) == (0.0, 1.0)
    assert found.unsure(same[0].samples, 32.0) > np.log(1.5)
    assert found.unsure(same[0].samples, 8.0) == 0.0
