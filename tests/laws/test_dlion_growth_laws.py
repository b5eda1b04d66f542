"""DLion's growing batches: totals are the stated sequence, shares sum to them, and their mean is applied."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import live_world
import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import Problem, difference

from e2c_dl.errors import InputError
from e2c_dl.strategies import batching
from e2c_dl.strategies.base import Setting
from e2c_dl.strategies.batching.growth import Growth
from e2c_dl.strategies.dlion import DLion

OFF: dict[str, Setting] = {"max_n": False, "transfer_period": 0}
GROWING: dict[str, Setting] = {**OFF, "growth_period": 3, "growth_samples": 6000, "growth_step": 16}


def totals(first: int, iterations: int, growth: Growth) -> list[int]:
    found = [first]
    for iteration in range(1, iterations):
        found.append(growth.after(found[-1]) if growth.due(iteration) else found[-1])
    return found


def test_by_steps_to_one_percent_and_by_factors_to_ten() -> None:
    growth = Growth(period=1, training_samples=6000)
    assert totals(16, 9, growth) == [16, 48, 60, 120, 240, 480, 600, 600, 600]
    assert totals(100, 5, growth) == [100, 200, 400, 600, 600]  # above 1 % already
    assert totals(700, 3, growth) == [700, 700, 700]  # above 10 %: they never shrink
    assert totals(16, 5, Growth(period=2, training_samples=6000)) == [16, 16, 48, 48, 60]


@given(first=st.integers(1, 900), step=st.integers(1, 50), factor=st.floats(1.01, 4), samples=st.integers(1, 9000))
def test_the_total_never_shrinks_and_comes_to_its_bound(first: int, step: int, factor: float, samples: int) -> None:
    growth = Growth(period=1, training_samples=samples, step=step, factor=factor)
    found = totals(first, 1200, growth)
    assert found == sorted(found)
    assert found[-1] == max(first, int(0.1 * samples))
    slow = int(0.01 * samples)
    for before, after in pairwise(found):
        if before < slow:
            assert after == min(before + step, slow)
        else:
            assert after <= before * factor + 1


@pytest.mark.parametrize("controller", ["proportional", "dynamic"])
@given(size=st.integers(1, 6), seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_shares_sum_to_the_total_and_gradients_to_its_mean(controller: str, size: int, seed: int) -> None:
    problem = Problem(size, seed)
    computes = problem.computes()
    virtual_world.run(
        lambda: DLion(**GROWING),  # type: ignore[arg-type]
        size=size, seed=seed, iterations=40, computes=computes, samples=problem.samples, batching=controller,
        factors=np.random.default_rng(seed).uniform(1, 8, size).tolist(),
    )  # fmt: skip
    by_iteration = np.array([compute.history for compute in computes])
    growth = Growth(period=3, training_samples=6000, step=16)
    assert by_iteration.sum(axis=0).tolist() == totals(sum(problem.samples), 40, growth)
    assert by_iteration.min() >= 1
    expected = problem.sgd(40, [compute.history for compute in computes])
    assert all(difference(compute.parameters, expected) <= 1e-9 for compute in computes)


def test_shares_stay_as_speeds_have_them() -> None:
    problem = Problem(3, 1)
    problem.samples = [20, 20, 20]
    computes = problem.computes()
    virtual_world.run(
        lambda: DLion(**GROWING),  # type: ignore[arg-type]
        size=3, iterations=40, computes=computes, samples=problem.samples, batching="dynamic", factors=[1, 2, 4],
        of=virtual_world.profile(tuple(each.stop - each.start for each in computes[0].buckets), fixed_s=0.0),
    )  # fmt: skip
    assert [compute.history[-1] for compute in computes] == pytest.approx([600 * 4 / 7, 600 * 2 / 7, 600 / 7], abs=2)


def test_it_grows_over_sockets_as_in_the_virtual_world(tmp_path: Path) -> None:
    problem = Problem(3, 1, dtype=np.float32)
    computes = problem.computes()
    live_world.train(
        tmp_path, DLion, computes, problem.samples, 10, settings=GROWING, layers=["edge"] * 3, batching="dynamic"
    )
    came = np.array([compute.history for compute in computes]).sum(axis=0)
    assert came.tolist() == totals(sum(problem.samples), 10, Growth(period=3, training_samples=6000, step=16))
    assert all(np.array_equal(compute.parameters, computes[0].parameters) for compute in computes)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"growth_period": -1}, "growth_period is -1; write 0"),
        ({"growth_period": 5}, "growth_samples is 0; write how many"),
        ({"growth_step": 0}, "growth_step is 0; write 1"),
        ({"growth_factor": 1.0}, "growth_factor is 1.0; write a number above 1"),
        ({"growth_slow_until": 0.2}, "growth_slow_until is 0.2, growth_until 0.1; write shares"),
    ],
)
def test_settings_out_of_range_are_told(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"strategy 'dlion': {said}"):
        DLion(**wrong)


def test_batches_that_grow_cannot_be_fixed() -> None:
    growing = DLion(growth_period=5, growth_samples=100)
    with pytest.raises(InputError, match="batches of dlion grow; write dynamic"):
        batching.check(growing, "fixed")
    batching.check(growing, "dynamic")
