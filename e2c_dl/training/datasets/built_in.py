"""The data sets that need no files of the user's: handwritten digits, and synthetic samples of any number and size.

digits    1797 grey images of 8 x 8 pixels, as scikit-learn ships them: the test part of UCI's Optical Recognition of
          Handwritten Digits (Alpaydin and Kaynak 1998), a file inside scikit-learn's package, so nothing is downloaded,
          and scikit-learn itself is not imported
teacher   samples which a fixed random network, the teacher, has put into classes::

    x ~ N(0, 1)        hidden = tanh(V x),  V ~ N(0, 4 / inputs)        label = argmax(U hidden),  U ~ N(0, 1)

Samples, teacher and split depend on the sizes alone, so every host draws the same. The rows of U are made to sum to
zero, without which one class might take most samples.
"""

from __future__ import annotations

import gzip
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np

from e2c_dl.errors import TrainingError
from e2c_dl.training.datasets.model import Dataset, split

_FILE = Path("datasets", "data", "digits.csv.gz")  # in the package sklearn
_PIXELS = 64
_LARGEST = 16.0
_SEED = 20160512
_HIDDEN = 32
_GAIN = 4.0  # enough for tanh to bend: a linear teacher would be learned by one layer


def digits(dtype: np.dtype[Any]) -> Dataset:
    """The digits. Raises: TrainingError, if their file is missing."""
    spec = importlib.util.find_spec("sklearn")  # found, not imported: only its file is wanted
    if spec is None or spec.origin is None:
        raise TrainingError("dataset digits: scikit-learn, which ships it, is not installed; pip install scikit-learn")
    path = Path(spec.origin).parent / _FILE
    try:
        with gzip.open(path, "rt") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.float64)
    except OSError as error:
        raise TrainingError(f"{path}: cannot read dataset digits: {error}; reinstall scikit-learn") from error
    images = table[:, :_PIXELS].reshape(-1, 1, 8, 8) / _LARGEST
    labels = table[:, _PIXELS].astype(np.int64)
    train, test = split(len(labels))
    normalised = ((images - images[train].mean()) / images[train].std()).astype(dtype)  # by training images
    return Dataset(
        train_images=normalised[train], train_labels=labels[train],
        test_images=normalised[test], test_labels=labels[test], classes=10,
    )  # fmt: skip


def teacher(samples: int, shape: tuple[int, int, int], classes: int, dtype: np.dtype[Any]) -> Dataset:
    """``samples`` samples of ``shape`` in ``classes`` classes, a fifth of them for testing."""
    random = np.random.default_rng([_SEED, samples, *shape, classes])
    inputs = math.prod(shape)
    first = random.normal(scale=math.sqrt(_GAIN / inputs), size=(inputs, _HIDDEN))
    second = random.normal(size=(_HIDDEN, classes))
    second -= second.mean(axis=0)  # else one class might take most samples
    values = random.standard_normal((samples, inputs), dtype=np.float32)  # float32 for both precisions
    labels = np.argmax(np.tanh(values @ first) @ second, axis=1).astype(np.int64)
    images = values.reshape(samples, *shape).astype(dtype, copy=False)
    train, test = split(samples)
    return Dataset(
        train_images=images[train], train_labels=labels[train],
        test_images=images[test], test_labels=labels[test], classes=classes,
    )  # fmt: skip
