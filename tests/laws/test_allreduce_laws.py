"""Ring all-reduce over the live world equals one process, for any number of ranks, sizes, buckets and batches.

The references are written here, apart from the package: NumPy for given gradients, torch.optim.SGD on the concatenated
batches for real ones.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import live_world
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import few

from e2c_dl.scenario.model import Training
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.collectives import split
from e2c_dl.trace.model import COMPUTE, Phase, Spans
from e2c_dl.training import datasets, models
from e2c_dl.training.compute import TorchCompute
from e2c_dl.training.partitions import Stream, parts
from e2c_dl.worlds.live.frames import HEADER_BYTES

pytestmark = pytest.mark.usefixtures("deterministic_torch")

TRAINING = Training(
    strategy="allreduce", model="cnn", dataset="digits", iterations=20, batch_sizes=(8, 8, 8, 8), learning_rate=0.05,
    momentum=0.9, seed=1, dtype="float32", evaluate_every=0, bucket_bytes=131072,
)  # fmt: skip


def single_process(training: Training) -> torch.nn.Module:
    """SGD as torch has it, on all ranks' batches concatenated."""
    data = datasets.load(training.dataset, dtype=training.dtype)
    images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
    model = models.build(training.model, seed=training.seed, dtype=models.dtype_of(training.dtype))
    optimizer = torch.optim.SGD(model.parameters(), lr=training.learning_rate, momentum=training.momentum)
    own = parts(data.train_labels, seed=training.seed, size=len(training.batch_sizes))
    streams = [Stream(part, seed=training.seed, rank=rank) for rank, part in enumerate(own)]
    for iteration in range(training.iterations):
        batch = np.concatenate([
            stream.at(iteration * count, count) for stream, count in zip(streams, training.batch_sizes, strict=True)
        ])  # fmt: skip
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    return model


def relative_difference(values: np.ndarray, model: torch.nn.Module) -> float:
    expected = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).numpy()
    return float(np.linalg.norm(values - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("batch_sizes", few([(16, 16, 16, 16), (5, 32, 1, 16)], (5, 32, 1, 16)))
@pytest.mark.parametrize(("dtype", "iterations", "tolerance"), [("float32", 20, 1e-4), ("float64", 100, 1e-9)])
def test_equals_single_process_sgd(
    tmp_path: Path, batch_sizes: tuple[int, ...], dtype: str, iterations: int, tolerance: float
) -> None:
    training = dataclasses.replace(TRAINING, batch_sizes=batch_sizes, dtype=dtype, iterations=iterations)
    computes = [TorchCompute(training, rank=rank, size=4) for rank in range(4)]
    start = computes[0].parameters.copy()
    spans = live_world.train(tmp_path, Allreduce, computes, batch_sizes, iterations)
    assert relative_difference(computes[0].parameters, single_process(training)) <= tolerance
    assert not np.allclose(computes[0].parameters, start, rtol=1e-3)
    for compute in computes[1:]:
        assert np.array_equal(compute.parameters, computes[0].parameters)
    conserves(spans)


@settings(max_examples=25)
@given(
    size=st.sampled_from([1, 2, 3, 5]),
    buckets=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 1000),
)
def test_mean_is_weighted_by_samples(size: int, buckets: list[int], dtype: type, seed: int) -> None:
    random = np.random.default_rng(seed)
    batch_sizes = random.integers(1, 100, size).tolist()
    length, iterations, rate = sum(buckets), 3, 0.5
    bounds = np.cumsum([0, *buckets]).tolist()
    where = [slice(begin, end) for begin, end in pairwise(bounds)]
    start = random.normal(size=length).astype(dtype)
    own = random.normal(size=(size, length)).astype(dtype)
    computes = [
        live_world.Linear(start, where, lambda iteration, w, rank=rank: own[rank] * (iteration + 1) + w, rate)
        for rank in range(size)
    ]
    with TemporaryDirectory() as directory:
        spans = live_world.train(Path(directory), Allreduce, computes, batch_sizes, iterations)
    expected = start.astype(np.float64)
    for iteration in range(iterations):
        gradients = own.astype(np.float64) * (iteration + 1) + expected
        expected = expected - rate * np.average(gradients, axis=0, weights=batch_sizes)
    tolerance = 1e-5 if dtype is np.float32 else 1e-13
    for compute in computes:
        assert np.allclose(compute.parameters, expected, rtol=tolerance, atol=tolerance)
        assert np.array_equal(compute.parameters, computes[0].parameters)
    conserves(spans)
    for rank in range(size):
        sent = spans[rank][spans[rank]["phase"] == Phase.SEND]
        assert len(sent) == iterations * len(buckets) * 2 * (size - 1)
        entries = (sent["nbytes"] - HEADER_BYTES) / np.dtype(dtype).itemsize
        assert np.all(np.abs(entries - np.array(buckets)[sent["bucket"]] / size) < 1)


def conserves(spans: list[Spans]) -> None:
    """Every message that was sent was received, with its bytes; every span fits its task and iteration."""
    for src, own in enumerate(spans):
        dst = (src + 1) % len(spans)
        sent = own[own["phase"] == Phase.SEND]
        came = spans[dst][(spans[dst]["phase"] == Phase.RECEIVE) & (spans[dst]["src"] == src)]
        assert sent["seq"].tolist() == came["seq"].tolist() == list(range(len(sent)))
        assert sent["nbytes"].tolist() == came["nbytes"].tolist()
        assert np.all(sent["dst"] == dst)
        assert np.all(own["end_ns"] >= own["start_ns"])
        assert np.all(own["start_ns"] >= own["posted_ns"])
        in_program_order(own)


def in_program_order(own: Spans) -> None:
    """What a replay relies on: spawned tasks are joined once, each awaited thing is there, work is inside TRAINING."""
    spawned = own[(own["phase"] == Phase.SPAWN) & (own["peer_task"] > 0)]
    joined = own[own["phase"] == Phase.AWAIT_TASK]
    assert sorted(spawned["peer_task"]) == sorted(joined["peer_task"])
    assert set(own["task"][own["task"] > 0]) <= set(spawned["peer_task"])
    awaited = own[own["phase"] == Phase.AWAIT_MESSAGE]
    assert sorted(awaited["seq"]) == sorted(own["seq"][own["phase"] == Phase.RECEIVE])
    left = own[own["phase"] == Phase.AWAIT_SENT]
    assert sorted(left["seq"]) == sorted(own["seq"][own["phase"] == Phase.SEND])
    (training,) = own[own["phase"] == Phase.TRAINING]
    inside = own[np.isin(own["phase"], [Phase.ITERATION, Phase.REDUCE, Phase.STEP])]
    assert np.all(inside["start_ns"] >= training["start_ns"])
    assert np.all(inside["end_ns"] <= training["end_ns"])
    assert {Phase.REDUCE, Phase.STEP, Phase.BACKWARD} <= {Phase(phase) for phase in own["phase"]} & COMPUTE


@given(length=st.integers(0, 40), count=st.integers(1, 12))
def test_split_covers_the_vector_once(length: int, count: int) -> None:
    values = np.arange(length, dtype=np.float32)
    chunks = split(values, count)
    assert len(chunks) == count
    assert np.array_equal(np.concatenate(chunks), values)
    sizes = [len(chunk) for chunk in chunks]
    assert max(sizes) - min(sizes) <= 1
    assert all(np.shares_memory(chunk, values) for chunk in chunks if len(chunk))
