"""Strategies over our sockets beside torch's and torchft's own programs over gloo: the same parameters in the end."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import live_world
import numpy as np
import pytest
import torch_programs

from e2c_dl import strategies
from e2c_dl.scenario.training import default_training
from e2c_dl.strategies import powersgd
from e2c_dl.training.compute import TorchCompute

pytestmark = [pytest.mark.usefixtures("deterministic_torch"), pytest.mark.local]

CLOSE = 1e-11
"""Relative: the order of sums differs, and nothing else may."""

TRAINING = dataclasses.replace(
    default_training("allreduce"), model="mlp", dtype="float64", iterations=40, batch_sizes=(8, 8, 8, 8), momentum=0.9,
    bucket_bytes=65536,
)  # fmt: skip


def trained(
    folder: Path, name: str, settings: dict[str, Any], training: Any, layers: Sequence[str] | None = None
) -> list[np.ndarray]:
    size = len(training.batch_sizes)
    computes = [TorchCompute(training, rank=rank, size=size) for rank in range(size)]
    start = computes[0].parameters.copy()
    live_world.train(
        folder, strategies.load(name), computes, training.batch_sizes, training.iterations, settings=settings,
        layers=layers,
    )  # fmt: skip
    assert difference(computes[0].parameters, start) > 1e-3
    return [compute.parameters for compute in computes]


def difference(values: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(values - expected) / np.linalg.norm(expected))


def same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    assert len(ours) == len(theirs)
    for own, other in zip(ours, theirs, strict=True):
        assert difference(own, other) <= CLOSE


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model": "cnn", "momentum": 0.0, "iterations": 20},
        {"optimizer": "adamw", "momentum": 0.0, "learning_rate": 0.001, "weight_decay": 0.01},
        {"model": "transformer", "iterations": 20, "batch_sizes": (4, 4)},
    ],
    ids=["mlp, momentum", "cnn", "mlp, adamw", "transformer"],
)
def test_allreduce_equals_ddp_for_equal_batches(tmp_path: Path, changes: dict[str, Any]) -> None:
    training = dataclasses.replace(TRAINING, **changes)
    same(trained(tmp_path, "allreduce", {}, training), torch_programs.run(tmp_path, "ddp", training))


def test_ddp_differs_for_unequal_batches_because_it_divides_by_the_world_size(tmp_path: Path) -> None:
    training = dataclasses.replace(TRAINING, batch_sizes=(2, 30))
    ours = trained(tmp_path, "allreduce", {}, training)
    assert difference(ours[0], torch_programs.run(tmp_path, "ddp", training)[0]) > 1e-3


@pytest.mark.parametrize(
    ("iterations", "batch_sizes"),
    [
        (40, (8, 8, 8, 8)),
        (42, (3, 16, 9)),
        pytest.param(40, (3, 16, 9), marks=pytest.mark.thorough),
        pytest.param(42, (8, 8, 8, 8), marks=pytest.mark.thorough),
    ],
)
def test_local_sgd_equals_torchs_post_local_sgd(tmp_path: Path, iterations: int, batch_sizes: tuple[int, ...]) -> None:
    training = dataclasses.replace(TRAINING, batch_sizes=batch_sizes, iterations=iterations)
    ours = trained(tmp_path, "localsgd", {"period": 5, "weights": "equal"}, training)
    same(ours, torch_programs.run(tmp_path, "post_local_sgd", training, period=5))


def test_local_sgd_in_layers_equals_torchs_hierarchical_averaging(tmp_path: Path) -> None:
    settings = {"period_within": 2, "period_between": 6, "weights": "equal"}
    training = dataclasses.replace(TRAINING, iterations=40)  # the last mean is inside layers
    ours = trained(tmp_path, "localsgd", settings, training, ["edge", "edge", "cloud", "cloud"])
    same(ours, torch_programs.run(tmp_path, "hierarchical", training, periods={"2": 2, "6": 4}))
    assert not np.allclose(ours[0], ours[2])
    assert np.array_equal(ours[0], ours[1])


@pytest.mark.parametrize(
    ("model", "rank", "columns"),  # of the tensors that travel as factors, last first
    [
        pytest.param("square", 1, [64], marks=pytest.mark.thorough),
        ("square", 4, [64]),
        ("several", 1, [6, 11, 40, 12 * 36, 9]),
        ("several", 4, [40, 12 * 36, 9]),
    ],
)
def test_powersgd_equals_torchs_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, rank: int, columns: list[int]
) -> None:
    """One bucket of all tensors: matrices, vectors, and matrices of which factors would be no shorter."""
    training = dataclasses.replace(
        TRAINING, model=f"torch_programs:{model}", batch_sizes=(8, 8), iterations=30, bucket_bytes=1 << 20
    )
    rights = torch_programs.first_rights(columns, rank)
    monkeypatch.setattr(powersgd, "first_right", lambda columns, rank, dtype: rights[columns])
    ours = trained(tmp_path, "powersgd", {"rank": rank}, training)
    theirs = torch_programs.run(tmp_path, "powersgd", training, rank=rank)
    assert difference(ours[0], theirs[0]) <= 1e-9  # factors are orthogonalised in another way
    assert difference(ours[0], trained(tmp_path, "allreduce", {}, training)[0]) > 1e-3


@pytest.mark.skipif(importlib.util.find_spec("torchft") is None, reason="needs torchft: pip install torchft")
@pytest.mark.parametrize(
    ("iterations", "momentum"),
    [
        (40, 0.0),
        (43, 0.9),
        pytest.param(40, 0.9, marks=pytest.mark.thorough),
        pytest.param(43, 0.0, marks=pytest.mark.thorough),
    ],
)
def test_diloco_equals_torchfts(tmp_path: Path, iterations: int, momentum: float) -> None:
    training = dataclasses.replace(
        TRAINING, optimizer="adamw", momentum=0.0, learning_rate=0.002, weight_decay=0.01, iterations=iterations
    )
    settings = {"period": 8, "outer_learning_rate": 0.7, "outer_momentum": momentum, "weights": "equal"}
    ours = trained(tmp_path, "diloco", settings, training)
    same(ours, torch_programs.run(tmp_path, "diloco", training, period=8, rate=0.7, momentum=momentum))
