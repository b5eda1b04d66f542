"""Strategies in the virtual world, with real gradients, beside the same algorithms written plainly on torch.

The references are written here, apart from the package: models in one process, torch's optimizers, means by loops.
Where torch and torchft have programs of their own, tests/local/test_against_ddp.py runs those.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from e2c_dl import strategies
from e2c_dl.scenario.model import Training
from e2c_dl.scenario.training import default_training
from e2c_dl.training import datasets, models
from e2c_dl.training.compute import TorchCompute
from e2c_dl.training.partitions import Stream, parts

pytestmark = pytest.mark.usefixtures("deterministic_torch")

TRAINING = dataclasses.replace(
    default_training("localsgd"), model="mlp", dtype="float64", iterations=20, bucket_bytes=65536
)
CLOSE = 1e-9

sizes = st.lists(st.integers(1, 12), min_size=1, max_size=4)
inner = st.sampled_from([
    {"momentum": 0.9, "weight_decay": 0.01},
    {"optimizer": "adamw", "learning_rate": 0.002, "weight_decay": 0.01},
])  # fmt: skip
PARTITIONS = st.sampled_from(["iid", "classes:5", "sizes:5"])


class Rank:
    """One model that trains by itself on its own batches."""

    def __init__(self, training: Training, rank: int) -> None:
        data = datasets.load(training.dataset, dtype=training.dtype)
        own = parts(data.train_labels, partition=training.partition, seed=training.seed, size=len(training.batch_sizes))
        self._data, self._stream = data, Stream(own[rank], seed=training.seed, rank=rank)
        self._drawn, self._count = 0, training.batch_sizes[rank]
        self.model = models.build(training.model, seed=training.seed, dtype=torch.float64)
        self.optimizer = optimizer_of(training, self.model)

    def step(self) -> None:
        where = self._stream.at(self._drawn, self._count)
        self._drawn += self._count
        self.optimizer.zero_grad()
        images, labels = (torch.from_numpy(each[where]) for each in (self._data.train_images, self._data.train_labels))
        functional.cross_entropy(self.model(images), labels).backward()
        self.optimizer.step()


def optimizer_of(training: Training, model: nn.Module) -> torch.optim.Optimizer:
    rate, decay = training.learning_rate, training.weight_decay
    if training.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=training.momentum, weight_decay=decay)


def means(ranks: list[Rank], weights: tuple[int, ...]) -> list[torch.Tensor]:
    columns = zip(*(rank.model.parameters() for rank in ranks), strict=True)
    return [sum(b * p.detach() for b, p in zip(weights, column, strict=True)) / sum(weights) for column in columns]


def take(model: nn.Module, values: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(value)


def local_sgd(training: Training, period: int) -> list[nn.Module]:
    ranks = [Rank(training, rank) for rank in range(len(training.batch_sizes))]
    for iteration in range(training.iterations):
        for rank in ranks:
            rank.step()
        if (iteration + 1) % period == 0:
            mean = means(ranks, training.batch_sizes)
            for rank in ranks:
                take(rank.model, mean)
    return [rank.model for rank in ranks]


def diloco(training: Training, period: int, rate: float, momentum: float) -> list[nn.Module]:
    ranks = [Rank(training, rank) for rank in range(len(training.batch_sizes))]
    shared = copy.deepcopy(ranks[0].model)
    outer = torch.optim.SGD(shared.parameters(), lr=rate, momentum=momentum, nesterov=momentum > 0)
    for iteration in range(training.iterations):
        for rank in ranks:
            rank.step()
        if (iteration + 1) % period == 0:
            for anchor, mean in zip(shared.parameters(), means(ranks, training.batch_sizes), strict=True):
                anchor.grad = anchor.detach() - mean
            outer.step()
            for rank in ranks:
                take(rank.model, [anchor.detach() for anchor in shared.parameters()])
    return [rank.model for rank in ranks]


def check(training: Training, name: str, chosen: dict[str, Any], seed: int, expected: list[nn.Module]) -> None:
    size = len(training.batch_sizes)
    computes = [TorchCompute(training, rank=rank, size=size) for rank in range(size)]
    virtual_world.run(
        lambda: strategies.load(name)(**chosen), size=size, seed=seed, iterations=training.iterations,
        computes=computes, samples=training.batch_sizes,
    )  # fmt: skip
    for compute, model in zip(computes, expected, strict=True):
        flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).numpy()
        assert np.linalg.norm(compute.parameters - flat) <= CLOSE * np.linalg.norm(flat)


@settings(max_examples=6)
@given(batch_sizes=sizes, optimizer=inner, partition=PARTITIONS, period=st.integers(1, 7), seed=st.integers(0, 99))
def test_local_sgd_equals_plain_torch(
    batch_sizes: list[int], optimizer: dict[str, Any], partition: str, period: int, seed: int
) -> None:
    training = dataclasses.replace(TRAINING, batch_sizes=tuple(batch_sizes), partition=partition, **optimizer)
    check(training, "localsgd", {"period": period}, seed, local_sgd(training, period))


@settings(max_examples=6)
@given(
    batch_sizes=sizes, optimizer=inner, period=st.integers(1, 7), momentum=st.sampled_from([0.0, 0.5, 0.9]),
    rate=st.sampled_from([0.3, 0.7, 1.0]), seed=st.integers(0, 99),
)  # fmt: skip
def test_diloco_equals_plain_torch(
    batch_sizes: list[int], optimizer: dict[str, Any], period: int, momentum: float, rate: float, seed: int
) -> None:
    training = dataclasses.replace(TRAINING, batch_sizes=tuple(batch_sizes), **optimizer)
    chosen = {"period": period, "outer_learning_rate": rate, "outer_momentum": momentum}
    check(training, "diloco", chosen, seed, diloco(training, period, rate, momentum))


@pytest.mark.parametrize("name", models.NAMES)
def test_allreduce_equals_one_process_for_every_model(name: str) -> None:
    training = dataclasses.replace(TRAINING, model=name, batch_sizes=(5, 1, 10), iterations=10, momentum=0.9)
    ranks = [Rank(training, rank) for rank in range(3)]
    together, optimizer = ranks[0].model, ranks[0].optimizer
    for _ in range(training.iterations):
        gradients = [gradient_at(rank, together) for rank in ranks]
        for parameter, *own in zip(together.parameters(), *gradients, strict=True):
            parameter.grad = sum(b * g for b, g in zip(training.batch_sizes, own, strict=True)) / 16
        optimizer.step()
    check(training, "allreduce", {}, 1, [together] * 3)


def gradient_at(rank: Rank, model: nn.Module) -> list[torch.Tensor]:
    """The gradient of the rank's next batch at the parameters of ``model``; its own optimizer rests."""
    take(rank.model, [parameter.detach().clone() for parameter in model.parameters()])
    resting, rank.optimizer = rank.optimizer, torch.optim.SGD(rank.model.parameters(), lr=0.0)
    rank.step()
    rank.optimizer = resting
    return [parameter.grad.clone() for parameter in rank.model.parameters() if parameter.grad is not None]
