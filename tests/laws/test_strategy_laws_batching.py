"""Batch controllers under every strategy: all ranks agree, the total stays, and what is weighted stays right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import Problem, Quadratic, difference

from e2c_dl import strategies
from e2c_dl.strategies.base import Setting, Strategy, Worker, any_pair
from e2c_dl.strategies.batching import CONTROLLERS, controlled, divided
from e2c_dl.trace.model import Phase

EXACT = [name for name in strategies.names() if strategies.load(name).exact_with is not None]
SPEEDS = (4, 4, 2, 2, 1, 1)


class Batched(Strategy):
    """``inner``, on workers under a controller."""

    def __init__(self, inner: Strategy, controller: str) -> None:
        self.inner, self.controller = inner, controller

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        return any_pair(size)

    async def run(self, worker: Worker) -> None:
        await self.inner.run(controlled(worker, self.controller))


def run(
    name: str, controller: str, problem: Problem, seed: int, iterations: int, factors: list[float], **chosen: Setting
) -> tuple[virtual_world.Run, list[Quadratic]]:
    computes = problem.computes()
    ended = virtual_world.run(
        lambda: Batched(strategies.load(name)(**chosen), controller), size=len(factors), seed=seed,
        iterations=iterations, computes=computes, samples=problem.samples, factors=factors,
    )  # fmt: skip
    return ended, computes


@pytest.mark.parametrize(
    ("name", "controller"),
    [
        (name, controller)
        for name in strategies.names()
        for controller in sorted(CONTROLLERS)
        if controller == "fixed" or not strategies.load(name).fixed_batches
    ],
)
@given(size=st.integers(1, 6), seed=st.integers(0, 10_000))
@settings(max_examples=6, deadline=None)
def test_all_ranks_agree_and_nothing_is_left_over(name: str, controller: str, size: int, seed: int) -> None:
    problem = Problem(size, seed)
    factors = np.random.default_rng(seed).uniform(1, 8, size).tolist()
    ended, computes = run(name, controller, problem, seed, 12, factors)
    total = sum(problem.samples)
    by_iteration = np.array([compute.history for compute in computes])
    assert by_iteration.shape == (size, 12)
    assert np.all(by_iteration.sum(axis=0) == total)
    assert by_iteration.min() >= 1
    for rank in range(size):
        came, awaited = ended.spans(rank, Phase.RECEIVE), ended.spans(rank, Phase.AWAIT_MESSAGE)
        assert sorted(awaited[["src", "seq"]].tolist()) == sorted(came[["src", "seq"]].tolist())
    if controller == "fixed":
        assert np.all(by_iteration == np.array(problem.samples)[:, None])


@pytest.mark.parametrize("controller", ["proportional", "dynamic"])
@pytest.mark.parametrize("name", EXACT)
@given(size=st.integers(1, 6), seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_weights_follow_the_batches(name: str, controller: str, size: int, seed: int) -> None:
    problem = Problem(size, seed)
    factors = np.random.default_rng(seed).uniform(1, 8, size).tolist()
    _, computes = run(name, controller, problem, seed, 100, factors, **(strategies.load(name).exact_with or {}))
    expected = problem.sgd(100, [compute.history for compute in computes])
    for compute in computes:
        assert difference(compute.parameters, expected) <= 1e-9


@pytest.mark.parametrize("controller", ["proportional", "dynamic"])
def test_batches_come_to_fit_the_speeds(controller: str) -> None:
    problem = Problem(6, 0)
    problem.samples = [140] * 6
    _, computes = run("allreduce", controller, problem, 0, 12, [4 / speed for speed in SPEEDS])
    last = [compute.history[-1] for compute in computes]
    fitting = divided(840, SPEEDS)
    assert all(abs(own - best) <= 0.05 * best for own, best in zip(last, fitting, strict=True))


def test_speeds_are_told_in_a_run_of_shapes_alone() -> None:
    ended = virtual_world.run(
        lambda: Batched(strategies.load("allreduce")(), "dynamic"), size=6, iterations=12, samples=140,
        factors=[4 / speed for speed in SPEEDS], links=virtual_world.everywhere(6, virtual_world.LinkModel()),
    )  # fmt: skip
    iterations = ended.spans(0, Phase.ITERATION)
    durations = iterations["end_ns"] - iterations["start_ns"]
    assert durations[-1] < durations[0] / 2
