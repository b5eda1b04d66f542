"""Synthetic samples of any number and size, which a fixed random network, the teacher, has put into classes.

::

    x ~ N(0, 1)        hidden = tanh(V x),  V ~ N(0, 4 / inputs)        label = argmax(U hidden),  U ~ N(0, 1)

Samples, teacher and split depend on the sizes alone, so every host draws the same. The rows of U are made to sum to
zero, without which one class might take most samples.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from e2c_dl.training.datasets.model import Dataset, split

_SEED = 20160512
_HIDDEN = 32
_GAIN = 4.0  # enough for tanh to bend: a linear teacher would be learned by one layer


def load(samples: int, shape: tuple[int, int, int], classes: int, dtype: np.dtype[Any]) -> Dataset:
    """``samples`` samples of ``shape`` in ``classes`` classes, a fifth of them for testing."""
    random = np.random.default_rng([_SEED, samples, *shape, classes])
    inputs = math.prod(shape)
    first = random.normal(scale=math.sqrt(_GAIN / inputs), size=(inputs, _HIDDEN))
    second = random.normal(size=(_HIDDEN, classes))
    second -= second.mean(axis=0)
    values = random.standard_normal((samples, inputs), dtype=np.float32)
    labels = np.argmax(np.tanh(values @ first) @ second, axis=1).astype(np.int64)
    images = values.reshape(samples, *shape).astype(dtype, copy=False)
    train, test = split(samples)
    return Dataset(
        train_images=images[train], train_labels=labels[train],
        test_images=images[test], test_labels=labels[test], classes=classes,
    )  # fmt: skip
