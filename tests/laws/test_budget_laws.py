"""What a budget means, under every strategy and every batching: it is used up, nobody is left waiting, and ranks in
step stop together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import Problem

from e2c_dl import strategies
from e2c_dl.scenario.budget import Budget, Unit
from e2c_dl.scenario.model import Training
from e2c_dl.scenario.training import default_training
from e2c_dl.strategies.base import Setting
from e2c_dl.strategies.batching import CONTROLLERS
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.allotment import allotted, own_pace

CASES: list[tuple[str, dict[str, Setting]]] = [
    *((name, {}) for name in strategies.names()),
    ("diloco", {"period_within": 1, "period_between": 3}),
    ("hop", {"max_jump": 2, "max_ig": 2}),
    ("fedat", {"tiers": 2, "period": 1}),
    ("fedat", {"tiers": 1, "period": 3}),
    ("localsgd", {"period": 3}),
    ("prague", {"groups": "static"}),
    ("asyncparameterserver", {"server": 1}),
]
FACTORS = (1.0, 7.0, 2.0, 1.0, 3.0)


def training(
    name: str, chosen: dict[str, Setting], batching: str, budget: Budget, batch_sizes: Sequence[int]
) -> Training:
    made = replace(
        default_training(name), strategy_settings=chosen, batching=batching, batch_sizes=tuple(batch_sizes),
        budget=budget,
    )  # fmt: skip
    own = budget.most(batch_sizes) if own_pace(made) else budget.in_step(batch_sizes)
    return replace(made, iterations=own or made.iterations)


def counts(name: str, chosen: dict[str, Setting], batching: str, seed: int, asked: Training) -> list[int]:
    size = len(asked.batch_sizes)
    ended = virtual_world.run(
        lambda: strategies.load(name)(**chosen), size=size, seed=seed, computes=Problem(size, seed).computes(),
        samples=asked.batch_sizes, factors=FACTORS[:size], allotment=allotted(asked), batching=batching,
    )  # fmt: skip
    return [len(ended.spans(rank, Phase.ITERATION)) for rank in range(size)]


def batchings(name: str, chosen: dict[str, Setting]) -> list[str]:
    return ["fixed"] if strategies.load(name)(**chosen).fixed_batches else sorted(CONTROLLERS)


@pytest.mark.parametrize(
    ("name", "chosen", "batching"), [(*case, batching) for case in CASES for batching in batchings(*case)], ids=str
)
@given(
    size=st.integers(2, 5), seed=st.integers(0, 10_000), unit=st.sampled_from(list(Unit)), per_rank=st.floats(1.0, 9.0)
)
@settings(max_examples=8, deadline=None)
def test_budgets_are_used_up_and_ranks_in_step_stop_together(
    name: str, chosen: dict[str, Setting], batching: str, size: int, seed: int, unit: Unit, per_rank: float
) -> None:
    batch_sizes = Problem(size, seed).samples
    whole = {Unit.ITERATIONS: 1, Unit.UPDATES: size, Unit.SAMPLES: sum(batch_sizes), Unit.SECONDS: 0.02}[unit]
    amount = whole * per_rank if unit is Unit.SECONDS else math.floor(whole * per_rank)
    asked = training(name, chosen, batching, Budget(unit=unit, amount=amount), batch_sizes)
    done = counts(name, chosen, batching, seed, asked)
    assert min(done) >= 1
    if not own_pace(asked):
        assert len(set(done)) == 1
    if unit is Unit.UPDATES:
        assert amount <= sum(done) < amount + (1 if own_pace(asked) else size)
    if unit is Unit.SAMPLES and batching == "fixed":
        drawn = sum(count * samples for count, samples in zip(done, batch_sizes, strict=True))
        assert amount <= drawn < amount + (max(batch_sizes) if own_pace(asked) else sum(batch_sizes))
    if unit is Unit.ITERATIONS:
        assert done == [amount] * size


BOUNDED: dict[str, dict[str, Setting]] = {"fedat": {"period": 1}, "hop": {"max_ig": 100}}
"""Settings for those whose ranks are never far apart: far enough not to matter here."""


@pytest.mark.parametrize("name", [name for name in strategies.names() if strategies.load(name).asynchronous])
def test_a_slow_rank_takes_less_of_a_shared_budget_and_the_run_ends_sooner(name: str) -> None:
    links = virtual_world.everywhere(4, virtual_world.LinkModel())
    chosen = BOUNDED.get(name, {})

    def end_s(budget: Budget) -> tuple[float, list[int]]:
        ended = virtual_world.run(
            lambda: strategies.load(name)(**chosen), size=4, links=links, factors=[1, 1, 1, 10],
            allotment=allotted(training(name, chosen, "fixed", budget, [8] * 4)),
        )  # fmt: skip
        return ended.end_s, [len(ended.spans(rank, Phase.ITERATION)) for rank in range(4)]

    each, shared = end_s(Budget(unit=Unit.ITERATIONS, amount=20)), end_s(Budget(unit=Unit.UPDATES, amount=80))
    assert sum(each[1]) == sum(shared[1]) == 80
    assert shared[0] < each[0] / 4
    assert shared[1][3] < 5 < min(shared[1][:3])
