"""The laws of each algorithm against plain NumPy written here, in the virtual world, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import Problem, Quadratic, difference

from e2c_dl.strategies.adpsgd import ADPSGD
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.asyncparameterserver import AsyncParameterServer
from e2c_dl.strategies.base import Setting, Strategy, Vector
from e2c_dl.strategies.collectives.averaging import grouped
from e2c_dl.strategies.diloco import DiLoCo
from e2c_dl.strategies.localsgd import LocalSGD
from e2c_dl.strategies.parameterserver import ParameterServer
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import Judging

LAYERS = ("edge", "fog", "edge", "cloud", "edge", "fog")
ITERATIONS = 24
sizes, seeds = st.integers(1, 6), st.integers(0, 10_000)


def train(
    strategy: type[Strategy], problem: Problem, seed: int, iterations: int = ITERATIONS,
    gradient: Callable[[int, int, Vector], Vector] | None = None, judging: Judging | None = None, **chosen: Setting,
) -> list[Quadratic]:  # fmt: skip
    """What each rank holds in the end."""
    size = len(problem.samples)
    computes = problem.computes(gradient)
    virtual_world.run(
        lambda: strategy(**chosen), size=size, seed=seed, iterations=iterations, computes=computes,
        samples=problem.samples, layers=LAYERS[:size], factors=np.random.default_rng(seed).uniform(1, 9, size).tolist(),
        judging=judging,
    )  # fmt: skip
    return computes


@dataclass
class LocalTraining:
    """Local steps, averages inside layers every ``within``, an outer step over all every ``between`` iterations."""

    problem: Problem
    within: int
    between: int
    rate: float = 1.0
    momentum: float = 0.0
    equal: bool = False
    models: list[Vector] = field(default_factory=list)

    def run(self) -> list[Vector]:
        size = len(self.problem.samples)
        weights = np.ones(size) if self.equal else np.array(self.problem.samples, dtype=float)
        self.models = [self.problem.start.copy() for _ in range(size)]
        anchor, velocity = self.problem.start.copy(), np.zeros_like(self.problem.start)
        for iteration in range(ITERATIONS):
            for rank in range(size):
                step = self.problem.gradient(rank, iteration, self.models[rank])
                self.models[rank] = self.models[rank] - self.problem.rate * step
            if (iteration + 1) % self.between == 0:
                delta = anchor - np.average(self.models, axis=0, weights=weights)
                velocity = self.momentum * velocity + delta
                anchor = anchor - self.rate * (delta + self.momentum * velocity)
                self.models = [anchor.copy() for _ in range(size)]
            elif (iteration + 1) % self.within == 0:
                for group in grouped(LAYERS[:size]):
                    mean = np.average([self.models[rank] for rank in group], axis=0, weights=weights[group])
                    for rank in group:
                        self.models[rank] = mean
        return self.models


def agree(computes: list[Quadratic], expected: list[Vector]) -> None:
    for compute, values in zip(computes, expected, strict=True):
        assert difference(compute.parameters, values) <= 1e-12


@given(size=sizes, seed=seeds, period=st.sampled_from([2, 3, 5]), weights=st.sampled_from(["samples", "equal"]))
@settings(max_examples=12, deadline=None)
def test_local_sgd_averages_models(size: int, seed: int, period: int, weights: str) -> None:
    problem = Problem(size, seed)
    expected = LocalTraining(problem, period, period, equal=weights == "equal").run()
    agree(train(LocalSGD, problem, seed, period=period, weights=weights), expected)


@given(size=sizes, seed=seeds, weights=st.sampled_from(["samples", "equal"]))
@settings(max_examples=12, deadline=None)
def test_local_sgd_averages_inside_layers_often_and_between_them_rarely(size: int, seed: int, weights: str) -> None:
    problem = Problem(size, seed)
    expected = LocalTraining(problem, 2, 6, equal=weights == "equal").run()
    agree(train(LocalSGD, problem, seed, period_within=2, period_between=6, weights=weights), expected)


@given(size=sizes, seed=seeds, momentum=st.sampled_from([0.0, 0.9]), within=st.sampled_from([2, 6]))
@settings(max_examples=12, deadline=None)
def test_diloco_takes_nesterov_steps_on_the_difference(size: int, seed: int, momentum: float, within: int) -> None:
    problem = Problem(size, seed)
    expected = LocalTraining(problem, within, 6, rate=0.7, momentum=momentum).run()
    computes = train(DiLoCo, problem, seed, period_within=within, period_between=6, outer_momentum=momentum)
    agree(computes, expected)
    if within == 6:
        agree(train(DiLoCo, problem, seed, period=6, outer_momentum=momentum), expected)
    assert all(np.array_equal(compute.parameters, computes[0].parameters) for compute in computes)


@pytest.mark.parametrize("strategy", [LocalSGD, DiLoCo])
@given(size=sizes, seed=seeds, period=st.sampled_from([1, 4]))
@settings(max_examples=8, deadline=None)
def test_layers_of_one_period_equal_the_flat_form(strategy: type[Strategy], size: int, seed: int, period: int) -> None:
    problem = Problem(size, seed)
    flat = train(strategy, problem, seed, period=period)
    layered = train(strategy, problem, seed, period_within=period, period_between=period)
    agree(layered, [compute.parameters for compute in flat])


@given(size=sizes, seed=seeds)
@settings(max_examples=8, deadline=None)
def test_tree_sums_as_the_ring_does(size: int, seed: int) -> None:
    problem = Problem(size, seed)
    tree = train(Allreduce, problem, seed, tree_below_bytes=1 << 20)
    agree(tree, [problem.sgd(ITERATIONS)] * size)
    assert all(np.array_equal(compute.parameters, tree[0].parameters) for compute in tree)


@given(size=st.integers(2, 6), seed=seeds)
@settings(max_examples=8, deadline=None)
def test_any_rank_can_serve(size: int, seed: int) -> None:
    problem = Problem(size, seed)
    computes = train(ParameterServer, problem, seed, server=seed % size)
    agree(computes, [problem.sgd(ITERATIONS)] * size)


@given(size=sizes, seed=seeds)
@settings(max_examples=12, deadline=None)
def test_an_asynchronous_server_loses_no_update(size: int, seed: int) -> None:
    problem = Problem(size, seed)
    server = seed % size
    pushed = np.zeros_like(problem.start)

    def gradient(rank: int, iteration: int, w: Vector) -> Vector:
        values = problem.gradient(rank, iteration, w)
        pushed[:] += values * problem.samples[rank] / sum(problem.samples)
        return values

    computes = train(AsyncParameterServer, problem, seed, gradient=gradient, server=server)
    assert difference(computes[server].parameters, problem.start - problem.rate * pushed) <= 1e-12


@given(size=sizes, seed=seeds, slow=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))), around=st.booleans())
@settings(max_examples=12, deadline=None)
def test_pairwise_averages_keep_the_mean_of_models(
    size: int, seed: int, slow: set[tuple[int, int]], around: bool
) -> None:
    problem = Problem(size, seed)
    moved = np.zeros_like(problem.start)

    def gradient(rank: int, iteration: int, w: Vector) -> Vector:
        values = problem.gradient(rank, iteration, w)
        moved[:] += values * problem.samples[rank] / sum(problem.samples)
        return values

    told = virtual_world.SlowFrom([*slow], at_s=0.2)
    computes = train(ADPSGD, problem, seed, gradient=gradient, judging=told, route_around=around)
    mean = np.mean([compute.parameters for compute in computes], axis=0)
    assert difference(mean, problem.start - problem.rate * moved) <= 1e-12


@given(seed=seeds)
@settings(max_examples=6, deadline=None)
def test_pairwise_averages_bring_models_together(seed: int) -> None:
    problem = Problem(6, seed)
    problem.rate = 0.01
    apart = train(ADPSGD, problem, seed, iterations=60)
    alone = [problem.start.copy() for _ in range(6)]
    for rank in range(6):
        for iteration in range(60):
            alone[rank] = alone[rank] - 0.01 * problem.gradient(rank, iteration, alone[rank])
    assert np.var([each.parameters for each in apart], axis=0).sum() < np.var(alone, axis=0).sum() / 2


@pytest.mark.parametrize("way", [(0, 1), (1, 0)])
def test_an_average_goes_around_a_slow_link_either_way(way: tuple[int, int]) -> None:
    def asked(judging: Judging | None, around: bool) -> dict[int, int]:
        run = virtual_world.run(
            lambda: ADPSGD(route_around=around), size=4, iterations=200, judging=judging,
            links=virtual_world.everywhere(4, virtual_world.LinkModel()),
        )  # fmt: skip
        sent = run.spans(0, Phase.SEND)
        return {other: int((sent["dst"] == other).sum()) for other in (1, 3)}

    told = virtual_world.SlowFrom([way])
    around, deaf, unjudged = asked(told, True), asked(told, False), asked(None, True)
    assert 0 < around[1] < 10  # now and then: how else would it be known to be well again
    assert sum(around.values()) == 200
    assert min(*deaf.values(), *unjudged.values()) > 70


def test_who_has_one_neighbour_alone_goes_on_averaging_with_it() -> None:
    told = virtual_world.SlowFrom([(0, 1), (1, 0)])
    run = virtual_world.run(lambda: ADPSGD(route_around=True), size=2, iterations=10, judging=told)
    assert len(run.spans(0, Phase.SEND)) == 10


def test_a_slow_rank_does_not_slow_down_those_that_need_not_wait_for_it() -> None:
    links = virtual_world.everywhere(4, virtual_world.LinkModel())

    def end_s(strategy: type[Strategy], rank: int, **chosen: Setting) -> float:
        run = virtual_world.run(
            lambda: strategy(**chosen), size=4, iterations=20, links=links, factors=[1, 1, 1, 10],
        )  # fmt: skip
        return float(run.spans(rank, Phase.TRAINING)["end_ns"][0] / 1e9)

    synchronous = end_s(Allreduce, 1)
    assert end_s(ADPSGD, 1) < 0.2 * synchronous
    assert end_s(AsyncParameterServer, 1) < 0.2 * synchronous
    assert end_s(ParameterServer, 1) > 0.9 * synchronous
