"""The mathematics of one rank: torch's gradient bucket by bucket, torch's optimizers, evaluation, its samples."""

from __future__ import annotations

import dataclasses
import gc
import re
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from e2c_dl import codec
from e2c_dl.archive.records import HostFacts
from e2c_dl.errors import InputError, TrainingError
from e2c_dl.scenario.model import Training
from e2c_dl.trace.model import Phase
from e2c_dl.training import datasets, models
from e2c_dl.training.compute import TorchCompute, torch_facts
from e2c_dl.training.partitions import Stream, parts

pytestmark = pytest.mark.usefixtures("deterministic_torch")

TRAINING = Training(
    strategy="allreduce", model="cnn", dataset="digits", iterations=1, batch_sizes=(8, 4), learning_rate=0.1,
    momentum=0.9, seed=3, dtype="float64", evaluate_every=0, bucket_bytes=16384,
)  # fmt: skip


def nothing(*_: object) -> None:
    """Is told of segments and ignores them."""


def batch(training: Training, rank: int, begin: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    data = datasets.load(training.dataset, dtype=training.dtype)
    own = parts(data.train_labels, partition=training.partition, seed=training.seed, size=len(training.batch_sizes))
    where = Stream(own[rank], seed=training.seed, rank=rank).at(begin, count)
    return torch.from_numpy(data.train_images[where]), torch.from_numpy(data.train_labels[where])


def plain_model(training: Training) -> nn.Module:
    return models.build(training.model, seed=training.seed, dtype=models.dtype_of(training.dtype))


def flattened(model: nn.Module, what: str = "data") -> np.ndarray:
    return torch.cat([getattr(parameter, what).detach().flatten() for parameter in model.parameters()]).numpy()


def test_what_is_no_longer_used_is_freed() -> None:
    compute = TorchCompute(TRAINING, rank=0, size=2)
    compute.gradient(0, 8, nothing)
    left = weakref.ref(compute)
    del compute
    gc.collect()
    assert left() is None


def test_the_facts_of_torch_stand_in_a_hosts_record_as_they_are() -> None:
    facts = torch_facts()
    assert facts["version"] == torch.__version__
    assert facts["threads"] == 1
    stored = codec.encode(HostFacts(torch=facts)).decode()
    assert codec.decode(stored, HostFacts, "facts.json").torch == facts


@pytest.mark.parametrize("name", models.NAMES)
def test_gradient_is_torchs_and_comes_bucket_by_bucket(name: str) -> None:
    training = dataclasses.replace(TRAINING, model=name)
    compute = TorchCompute(training, rank=1, size=2)
    seen: list[tuple[Phase, int]] = []
    marks: list[int] = []

    def on_segment(phase: Phase, bucket: int, start_ns: int, end_ns: int) -> None:
        seen.append((phase, bucket))
        marks.extend([start_ns, end_ns])

    loss = compute.gradient(0, 4, on_segment)
    assert seen[:2] == [(Phase.DATA, -1), (Phase.FORWARD, -1)]
    assert seen[2:] == [(Phase.BACKWARD, bucket) for bucket in range(len(compute.buckets))]
    assert len(compute.buckets) > 1
    assert marks == sorted(marks)
    model = plain_model(training)
    images, labels = batch(training, 1, 0, 4)
    expected = functional.cross_entropy(model(images), labels)
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-12)
    assert np.allclose(compute.gradients, flattened(model, "grad"), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("partition", ["iid", "classes:1", "sizes:5"])
def test_batches_of_any_sizes_follow_each_other(partition: str) -> None:
    training = dataclasses.replace(TRAINING, model="mlp", partition=partition)
    compute, model, begin = TorchCompute(training, rank=0, size=2), plain_model(training), 0
    for iteration, count in enumerate([8, 3, 17, 1]):
        images, labels = batch(training, 0, begin, count)
        expected = float(functional.cross_entropy(model(images), labels).detach())
        assert compute.gradient(iteration, count, nothing) == pytest.approx(expected, rel=1e-12)
        begin += count


@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        ({"momentum": 0.0}, lambda own: torch.optim.SGD(own, lr=0.1)),
        ({}, lambda own: torch.optim.SGD(own, lr=0.1, momentum=0.9)),
        ({"weight_decay": 0.01}, lambda own: torch.optim.SGD(own, lr=0.1, momentum=0.9, weight_decay=0.01)),
        (
            {"optimizer": "adamw", "momentum": 0.0, "weight_decay": 0.02, "learning_rate": 0.003},
            lambda own: torch.optim.AdamW(own, lr=0.003, weight_decay=0.02),
        ),
        (
            {"optimizer": "adamw", "momentum": 0.0, "learning_rate": 0.003},
            lambda own: torch.optim.AdamW(own, lr=0.003, weight_decay=0.0),
        ),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_optimizers_are_torchs_to_the_bit(settings: dict[str, object], reference: object, dtype: str) -> None:
    training = dataclasses.replace(TRAINING, model="mlp", dtype=dtype, **settings)  # type: ignore[arg-type]
    compute, model = TorchCompute(training, rank=0, size=2), plain_model(training)
    optimizer = reference(list(model.parameters()))  # type: ignore[operator]
    for iteration in range(10):
        compute.gradient(iteration, 8, nothing)
        compute.step()
        images, labels = batch(training, 0, iteration * 8, 8)
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    assert np.array_equal(compute.parameters, flattened(model))


def test_what_a_worker_does_leaves_torchs_compiler_unimported() -> None:
    """It costs each worker seconds of CPU time before it trains: more than importing torch."""
    program = """
import sys
from e2c_dl.scenario.model import Training
from e2c_dl.training.compute import TorchCompute, make_deterministic
make_deterministic()
for optimizer in ("sgd", "adamw"):
    training = Training(
        strategy="allreduce", model="cnn", dataset="digits", iterations=1, batch_sizes=(8,), learning_rate=0.1,
        momentum=0.9 * (optimizer == "sgd"), seed=3, dtype="float32", evaluate_every=0, bucket_bytes=16384,
        optimizer=optimizer,
    )
    compute = TorchCompute(training, rank=0, size=1)
    compute.calibrate()
    compute.gradient(0, 8, lambda *_: None)
    compute.step()
    compute.evaluate()
print([name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(InputError, match="optimizer 'adam' does not exist; write sgd or adamw"):
        TorchCompute(dataclasses.replace(TRAINING, optimizer="adam"), rank=0, size=2)


@pytest.mark.parametrize("batching", ["fixed", "dynamic"])
def test_vectors_are_shared_with_torch_and_calibration_leaves_them(batching: str) -> None:
    compute = TorchCompute(dataclasses.replace(TRAINING, batching=batching), rank=0, size=2)
    parameters, gradients = compute.parameters, compute.gradients
    before = parameters.copy()
    segments_s = compute.calibrate(repetitions=2)
    assert len(segments_s) == 1 + len(compute.buckets)
    assert min(segments_s) > 0
    assert np.array_equal(parameters, before)
    assert not gradients.any()
    images, labels = batch(TRAINING, 0, 0, 8)
    expected = float(functional.cross_entropy(plain_model(TRAINING)(images), labels).detach())
    assert compute.gradient(0, 8, nothing) == pytest.approx(expected)
    gradients[:] = 1.0
    compute.step()
    assert np.allclose(parameters, before - 0.1)
    compute.step()
    assert np.allclose(parameters, before - 0.1 - 0.19)  # momentum 0.9


def test_evaluation_is_of_all_test_samples_in_batches() -> None:
    training = dataclasses.replace(TRAINING, model="mlp", dataset="teacher:4000:1x8x8:10")
    data = datasets.load(training.dataset, dtype="float64")
    with torch.no_grad():
        scores = plain_model(training)(torch.from_numpy(data.test_images[np.arange(800)])).numpy()
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    evaluation = TorchCompute(training, rank=0, size=2).evaluate()
    assert evaluation.loss == pytest.approx(-np.log(likely[range(800), data.test_labels]).mean())
    assert evaluation.accuracy == np.mean(scores.argmax(axis=1) == data.test_labels)


@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_learns(name: str) -> None:
    training = dataclasses.replace(
        TRAINING, model=name, dtype="float32", batch_sizes=(32,), momentum=0.0, optimizer="adamw", learning_rate=0.003
    )
    compute = TorchCompute(training, rank=0, size=1)
    before = compute.evaluate()
    for iteration in range(60):
        compute.gradient(iteration, 32, nothing)
        compute.step()
    after = compute.evaluate()
    assert after.loss < 0.7 * before.loss
    assert after.accuracy > 0.4


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"batch_sizes": (6, 720)}, "batch_size 720 of rank 1: it has 719 of 1438 samples; write a batch_size between"),
        (
            {"partition": "sizes:0.001", "seed": 1},
            "samples by partition sizes:0.001; write another seed or a larger ALPHA",
        ),
        (
            {"dataset": "teacher:100:3x4x4:3", "model": "their_net:Grey"},
            "they do not fit: samples are of shape (3, 4, 4): ",
        ),
        ({"model": "their_net:Few"}, "they do not fit: 10 classes, scores (5,); choose another model"),
    ],
)
def test_what_cannot_train_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], why: str
) -> None:
    lines = "from torch.nn import Conv2d, Flatten, Linear, Sequential\n"
    lines += "def Grey(): return Sequential(Conv2d(1, 2, 3), Flatten(), Linear(8, 3))\n"
    lines += "def Few(): return Sequential(Flatten(), Linear(64, 5))\n"
    (tmp_path / "their_net.py").write_text(lines)
    monkeypatch.syspath_prepend(tmp_path)
    training = dataclasses.replace(TRAINING, **changes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=re.escape(why)):
        for rank in range(2):
            TorchCompute(training, rank=rank, size=2)


def test_a_batch_beyond_the_part_is_refused_when_it_is_drawn() -> None:
    compute = TorchCompute(TRAINING, rank=0, size=2)
    with pytest.raises(TrainingError, match="rank 0: a batch of 800 samples was requested, and it has 719"):
        compute.gradient(0, 800, nothing)


def test_an_unused_parameter_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_idle.py").write_text(
        "from torch import nn\n"
        "class Idle(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.used, self.idle = nn.Linear(64, 10), nn.Linear(2, 2)\n"
        "    def forward(self, x):\n"
        "        return self.used(x.flatten(1))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    compute = TorchCompute(dataclasses.replace(TRAINING, model="their_idle:Idle"), rank=0, size=2)
    with pytest.raises(TrainingError, match="some parameters have no gradient; use all of them"):
        compute.gradient(0, 8, nothing)
