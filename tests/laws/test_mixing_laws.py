"""What averages of models do, whatever speeds are: each is a mean, and those that claim it weigh all ranks alike.

Ranks begin with the columns of the unit matrix and learn nothing, so that what they hold in the end is the matrix W of
all averages together: row r says how much of each rank's model is in rank r's.
"""

from __future__ import annotations

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import Quadratic

from e2c_dl import strategies
from e2c_dl.strategies.base import Setting

ITERATIONS = 12
Case = tuple[str, dict[str, Setting]]

DOUBLY: list[Case] = [
    ("adpsgd", {}),
    ("adpsgd", {"route_around": True}),
    ("fastlinks", {"period": 3}),
    ("hop", {"backup_workers": 0}),
    ("hop", {"backup_workers": 0, "max_ig": 0, "graph": "directed-ring"}),
    ("localsgd", {"period": 2, "weights": "equal"}),
    ("localsgd", {"period_within": 2, "period_between": 6, "weights": "equal"}),
    ("prague", {}),
    ("prague", {"groups": "random", "threshold": 9}),
    ("prague", {"groups": "static"}),
]
"""Of which W is doubly stochastic: no rank's model counts more than another's, so that their mean is preserved."""

MEANS: list[Case] = [
    ("hop", {"backup_workers": 1}),
    ("hop", {"backup_workers": 1, "staleness": 2, "graph": "ring"}),
    ("hop", {"backup_workers": 1, "max_jump": 3, "graph": "ring"}),
    ("localsgd", {"period": 2}),
]
"""Of which W is stochastic alone: what was left out, or counts by samples, is not made up for."""


def averages(case: Case, size: int, seed: int) -> np.ndarray:
    """W."""
    name, chosen = case
    draw = np.random.default_rng(seed)
    computes = [Quadratic(lambda _, w: np.zeros_like(w), row, [slice(0, size)], 1.0) for row in np.eye(size)]
    virtual_world.run(
        lambda: strategies.load(name)(**chosen), size=size, seed=seed, iterations=ITERATIONS, computes=computes,
        samples=draw.integers(1, 9, size).tolist(), factors=draw.choice([1.0, 2.0, 20.0], size).tolist(), noise=0.2,
        layers=[("edge", "fog")[int(each)] for each in draw.integers(2, size=size)],
    )  # fmt: skip
    return np.array([compute.parameters for compute in computes])


@pytest.mark.parametrize("case", [*DOUBLY, *MEANS], ids=str)
@given(size=st.integers(1, 7), seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_models_are_means_of_models_and_doubly_stochastic_ones_where_that_is_claimed(
    case: Case, size: int, seed: int
) -> None:
    whole = averages(case, size, seed)
    rounding = ITERATIONS * size * np.finfo(float).eps
    assert whole.min() >= -rounding
    assert np.abs(whole.sum(axis=1) - 1).max() <= rounding
    if case in DOUBLY:
        assert np.abs(whole.sum(axis=0) - 1).max() <= rounding


@pytest.mark.parametrize("case", MEANS, ids=str)
def test_those_that_leave_models_out_do_not_weigh_all_alike(case: Case) -> None:
    assert any(np.abs(averages(case, 5, seed).sum(axis=0) - 1).max() > 1e-3 for seed in range(5))
