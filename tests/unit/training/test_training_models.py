"""Models: the same start on every rank, any image size, one sample at a time; and those of a user's own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from e2c_dl.errors import InputError
from e2c_dl.scenario.training import MODELS
from e2c_dl.training import models
from e2c_dl.training.flat import FlatModel, buckets


def build(name: str, **options: object) -> nn.Module:
    return models.build(name, **{"seed": 1, "dtype": torch.float64, **options})  # type: ignore[arg-type]


def test_scenarios_know_the_models_there_are() -> None:
    assert models.NAMES == MODELS


@pytest.mark.parametrize(
    ("name", "count"), [("cnn", 109_914), ("mlp", 26_122), ("resnet", 77_642), ("transformer", 102_090)]
)
def test_initial_parameters_depend_on_the_seed_alone(name: str, count: int) -> None:
    before = torch.random.get_rng_state()
    first = FlatModel(build(name), 1).parameters
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(5)
    assert np.array_equal(first, FlatModel(build(name), 1).parameters)
    assert not np.array_equal(first, FlatModel(build(name, seed=2), 1).parameters)
    assert len(first) == count
    torch.random.set_rng_state(before)


@pytest.mark.parametrize("name", models.NAMES)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (2, 1, 7)])
def test_scores_of_a_sample_do_not_depend_on_its_batch(name: str, shape: tuple[int, int, int]) -> None:
    model = build(name, shape=shape, classes=7)
    images = torch.from_numpy(np.random.default_rng(1).normal(size=(5, *shape)))
    together = model(images)
    assert together.shape == (5, 7)
    for index in range(5):
        assert torch.allclose(model(images[index : index + 1])[0], together[index], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", models.NAMES)
def test_every_parameter_is_trained(name: str) -> None:
    model = build(name)
    model(torch.from_numpy(np.random.default_rng(1).normal(size=(3, 1, 8, 8)))).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


def test_misspelt_names_are_refused_with_the_closest() -> None:
    with pytest.raises(InputError, match="model 'cmn' does not exist; write cnn"):
        build("cmn")


def test_samples_that_are_no_images_need_a_model_of_ones_own() -> None:
    with pytest.raises(InputError, match=re.escape("samples of shape (5,) are no images")):
        build("mlp", shape=(5,))


MODULE = """
import torch
def linear():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
def frozen():
    return linear().requires_grad_(False)
def partly():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 20), torch.nn.Linear(20, 10))
    model[1].requires_grad_(False)
    return model
def words():
    return "model"
def ending():
    raise SystemExit(0)
def broken():
    raise ValueError("first line\\nsecond")
number = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an importable module of a user's."""
    (tmp_path / "their_models.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "their_models", raising=False)
    return "their_models"


def test_a_model_of_ones_own_initialises_itself_by_the_seed(mine: str) -> None:
    first = FlatModel(build(f"{mine}:linear"), 1).parameters
    assert np.array_equal(first, FlatModel(build(f"{mine}:linear"), 1).parameters)
    torch.manual_seed(1)
    assert np.array_equal(first[:640].reshape(10, 64), torch.nn.Linear(64, 10).weight.detach().double().numpy())


def test_parameters_that_need_no_gradient_are_left_alone(mine: str) -> None:
    flat = FlatModel(build(f"{mine}:partly"), 1)
    assert len(flat.parameters) == 20 * 10 + 10


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("their_modles:linear", "module their_modles cannot be imported: ModuleNotFoundError"),
        ("their_models:lineal", "lineal is not there; name a class or a function"),
        ("their_models:number", "number is a int, which cannot be called"),
        ("their_models:words", "returns a str, no torch.nn.Module"),
        ("their_models:frozen", "no parameter of it requires a gradient"),
        ("their_models:ending", "calling ending() failed: SystemExit: 0; correct it there"),
        ("their_models:broken", "calling broken() failed: ValueError: first line second; correct it there"),
    ],
)
def test_what_is_wrong_with_an_import_path_is_told(mine: str, path: str, why: str) -> None:
    with pytest.raises(InputError, match=re.escape(why)) as raised:
        build(path)
    assert "\n" not in str(raised.value)
    assert path in str(raised.value)


@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=10), least=st.integers(1, 400))
def test_buckets_cover_the_vector_from_its_end(sizes: list[int], least: int) -> None:
    where, bucket_of = buckets(sizes, 4, least)
    assert where[0].stop == sum(sizes)
    assert where[-1].start == 0
    assert [each.start for each in where[:-1]] == [each.stop for each in where[1:]]
    assert all((each.stop - each.start) * 4 >= least for each in where[:-1])
    assert list(bucket_of) == sorted(bucket_of, reverse=True)


def test_unknown_dtype() -> None:
    with pytest.raises(InputError, match="float16"):
        models.dtype_of("float16")
