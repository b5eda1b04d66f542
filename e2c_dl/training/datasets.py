"""The data sets one can train on, split into training and test samples the same way on every host.

``digits``: 1797 grey images of 8 x 8 pixels of handwritten digits (UCI Optical Recognition of Handwritten Digits, test
part; Alpaydin and Kaynak 1998), as scikit-learn ships them: a file inside its package, so nothing is downloaded, and
scikit-learn itself is not imported.
"""

from __future__ import annotations

import difflib
import gzip
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import InputError, TrainingError

TEST_FRACTION = 0.2
_SPLIT_SEED = 20090117  # fixed: the split is part of the data set, not of a run
_DIGITS = Path("datasets", "data", "digits.csv.gz")  # in the package sklearn
_DIGITS_PIXELS = 64
_DIGITS_LARGEST = 16.0

Images = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Images (samples, channels, height, width), normalised by the training images' mean and deviation; labels."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels


def load(name: str, *, dtype: str) -> Dataset:
    """The data set called ``name``, images in ``dtype`` (float32 or float64).

    Raises: InputError, naming the closest match, if there is no such data set; TrainingError if its file is missing.
    """
    if name not in _DATASETS:
        close = difflib.get_close_matches(name, _DATASETS, n=1) or sorted(_DATASETS)
        raise InputError(f"dataset {name!r} does not exist; write {' or '.join(close)}")
    images, labels = _DATASETS[name]()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(labels))
    tests = round(len(labels) * TEST_FRACTION)
    test, train = order[:tests], order[tests:]
    normalised = ((images - images[train].mean()) / images[train].std()).astype(dtype)
    return Dataset(
        train_images=normalised[train], train_labels=labels[train],
        test_images=normalised[test], test_labels=labels[test],
    )  # fmt: skip


def _digits() -> tuple[npt.NDArray[np.float64], Labels]:
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise TrainingError("dataset digits: scikit-learn, which ships it, is not installed; pip install scikit-learn")
    path = Path(spec.origin).parent / _DIGITS
    try:
        with gzip.open(path, "rt") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.float64)
    except OSError as error:
        raise TrainingError(f"{path}: cannot read dataset digits: {error}; reinstall scikit-learn") from error
    images = table[:, :_DIGITS_PIXELS].reshape(-1, 1, 8, 8) / _DIGITS_LARGEST
    return images, table[:, _DIGITS_PIXELS].astype(np.int64)


_DATASETS: dict[str, Callable[[], tuple[npt.NDArray[np.float64], Labels]]] = {"digits": _digits}
