"""Data, partitions, flat models, pacing, and the gradient on torch, each by itself."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.errors import InputError, TrainingError
from e2c_dl.scenario.model import Training
from e2c_dl.trace.model import Phase
from e2c_dl.training import datasets, models
from e2c_dl.training.compute import TorchCompute
from e2c_dl.training.flat import FlatModel, buckets
from e2c_dl.training.pacing import Pacing, typical
from e2c_dl.training.partitions import batch_indices, part

TRAINING = Training(
    strategy="allreduce", model="cnn", dataset="digits", iterations=1, batch_sizes=(8, 4), learning_rate=0.1,
    momentum=0.9, seed=3, dtype="float64", evaluate_every=0, bucket_bytes=16384,
)  # fmt: skip


def test_digits_are_all_there_normalised_and_split() -> None:
    data = datasets.load("digits", dtype="float32")
    assert (len(data.train_labels), len(data.test_labels)) == (1438, 359)
    assert data.train_images.shape[1:] == (1, 8, 8)
    assert data.train_images.dtype == np.float32
    assert abs(data.train_images.mean()) < 1e-5
    assert set(data.test_labels) == set(range(10))


@pytest.mark.parametrize("load", [lambda: datasets.load("digit", dtype="float32"), lambda: build("cmn")])
def test_misspelt_names_are_refused_with_the_closest(load: object) -> None:
    with pytest.raises(InputError, match="write (digits|cnn)"):
        load()  # type: ignore[operator]


def build(name: str) -> torch.nn.Module:
    return models.build(name, seed=1, dtype=torch.float32)


def test_initial_parameters_depend_on_the_seed_alone() -> None:
    before = torch.random.get_rng_state()
    first = FlatModel(build("cnn"), 1).parameters
    torch.rand(5)
    assert np.array_equal(first, FlatModel(build("cnn"), 1).parameters)
    assert not np.array_equal(first, FlatModel(models.build("cnn", seed=2, dtype=torch.float32), 1).parameters)
    assert len(first) == 109_914
    torch.random.set_rng_state(before)


@given(samples=st.integers(1, 300), size=st.integers(1, 12), seed=st.integers(0, 99))
def test_parts_are_disjoint_cover_all_and_differ_by_one_at_most(samples: int, size: int, seed: int) -> None:
    parts = [part(samples, seed=seed, rank=rank, size=size) for rank in range(size)]
    assert sorted(np.concatenate(parts)) == list(range(samples))
    lengths = [len(each) for each in parts]
    assert max(lengths) - min(lengths) <= 1


@given(samples=st.integers(4, 60), batch_size=st.integers(1, 30), seed=st.integers(0, 99))
def test_each_epoch_draws_every_sample_once_in_a_new_order(samples: int, batch_size: int, seed: int) -> None:
    own = part(samples, seed=seed, rank=1, size=2)
    batch_size = min(batch_size, len(own))

    def batch(iteration: int) -> np.ndarray:
        return batch_indices(samples, seed=seed, rank=1, size=2, batch_size=batch_size, iteration=iteration)

    stream = np.concatenate([batch(iteration) for iteration in range(3 * len(own))])
    epochs = stream[: len(stream) // len(own) * len(own)].reshape(-1, len(own))
    assert all(sorted(epoch) == sorted(own) for epoch in epochs)
    assert len(own) < 6 or len({tuple(epoch) for epoch in epochs[:3]}) == 3


def test_a_batch_larger_than_the_part_is_refused() -> None:
    with pytest.raises(InputError, match="batch_size 6 of rank 0: it has 5 of 10"):
        batch_indices(10, seed=1, rank=0, size=2, batch_size=6, iteration=0)


@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=10), least=st.integers(1, 400))
def test_buckets_cover_the_vector_from_its_end(sizes: list[int], least: int) -> None:
    where, bucket_of = buckets(sizes, 4, least)
    assert where[0].stop == sum(sizes)
    assert where[-1].start == 0
    assert [each.start for each in where[:-1]] == [each.stop for each in where[1:]]
    assert all((each.stop - each.start) * 4 >= least for each in where[:-1])
    assert list(bucket_of) == sorted(bucket_of, reverse=True)


def test_gradient_is_torchs_and_comes_bucket_by_bucket() -> None:
    compute = TorchCompute(TRAINING, rank=1, size=2)
    seen: list[tuple[Phase, int]] = []
    marks: list[int] = []

    def on_segment(phase: Phase, bucket: int, start_ns: int, end_ns: int) -> None:
        seen.append((phase, bucket))
        marks.extend([start_ns, end_ns])

    loss = compute.gradient(7, on_segment)
    assert seen[:2] == [(Phase.DATA, -1), (Phase.FORWARD, -1)]
    assert seen[2:] == [(Phase.BACKWARD, bucket) for bucket in range(len(compute.buckets))]
    assert len(compute.buckets) == 5
    assert marks == sorted(marks)
    data = datasets.load("digits", dtype="float64")
    batch = batch_indices(len(data.train_labels), seed=3, rank=1, size=2, batch_size=4, iteration=7)
    model = models.build("cnn", seed=3, dtype=torch.float64)
    expected = torch.nn.functional.cross_entropy(
        model(torch.from_numpy(data.train_images[batch])), torch.from_numpy(data.train_labels[batch])
    )
    expected.backward()
    gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])
    assert loss == pytest.approx(float(expected.detach()), rel=1e-12)
    assert np.allclose(compute.gradients, gradient.numpy(), rtol=1e-12, atol=1e-15)


def test_vectors_are_shared_with_torch_and_calibration_leaves_them() -> None:
    compute = TorchCompute(TRAINING, rank=0, size=2)
    parameters, gradients = compute.parameters, compute.gradients
    before = parameters.copy()
    segments_s = compute.calibrate(repetitions=2)
    assert len(segments_s) == 1 + len(compute.buckets)
    assert min(segments_s) > 0
    assert np.array_equal(parameters, before)
    assert not gradients.any()
    gradients[:] = 1.0
    compute.step()
    assert np.allclose(parameters, before - 0.1)
    compute.step()
    assert np.allclose(parameters, before - 0.1 - 0.19)  # momentum 0.9


def test_evaluation_is_of_the_test_samples() -> None:
    compute = TorchCompute(TRAINING, rank=0, size=2)
    data = datasets.load("digits", dtype="float64")
    model = models.build("cnn", seed=3, dtype=torch.float64)
    with torch.no_grad():
        scores = model(torch.from_numpy(data.test_images)).numpy()
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    evaluation = compute.evaluate()
    assert evaluation.loss == pytest.approx(-np.log(likely[range(359), data.test_labels]).mean())
    assert evaluation.accuracy == np.mean(scores.argmax(axis=1) == data.test_labels)


def test_pacing_holds_each_segment_until_its_deadline() -> None:
    pacing = Pacing(0.5)
    pacing.calibrated([0.002, 0.003])
    begin_ns = time.monotonic_ns()
    pacing.segment(0, begin_ns)
    assert time.monotonic_ns() >= begin_ns + 4_000_000
    pacing.segment(1, begin_ns)
    assert time.monotonic_ns() >= begin_ns + 10_000_000
    pacing.stop()
    with pytest.raises(TrainingError, match="stopped"):
        pacing.segment(1, time.monotonic_ns())


@pytest.mark.parametrize("speed", [0.0, -1.0, 1.5])
def test_impossible_speeds_are_refused(speed: float) -> None:
    with pytest.raises(TrainingError, match="speed"):
        Pacing(speed)


def test_the_typical_segment_is_not_what_interruptions_made_of_it() -> None:
    assert typical([[1.0, 2.0]] * 8 + [[9.0, 9.0]] * 4) == (1.0, 2.0)


def test_unknown_dtype() -> None:
    with pytest.raises(InputError, match="float16"):
        TorchCompute(dataclasses.replace(TRAINING, dtype="float16"), rank=0, size=2)
