"""1797 grey images of 8 x 8 pixels of handwritten digits, as scikit-learn ships them.

They are the test part of UCI's Optical Recognition of Handwritten Digits (Alpaydin and Kaynak 1998): a file inside
scikit-learn's package, so nothing is downloaded, and scikit-learn itself is not imported.
"""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from e2c_dl.errors import TrainingError
from e2c_dl.training.datasets.model import Dataset, split

_FILE = Path("datasets", "data", "digits.csv.gz")  # in the package sklearn
_PIXELS = 64
_LARGEST = 16.0


def load(dtype: np.dtype[Any]) -> Dataset:
    """The digits. Raises: TrainingError, if their file is missing."""
    spec = importlib.util.find_spec("sklearn")
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
    normalised = ((images - images[train].mean()) / images[train].std()).astype(dtype)
    return Dataset(
        train_images=normalised[train], train_labels=labels[train],
        test_images=normalised[test], test_labels=labels[test], classes=10,
    )  # fmt: skip
