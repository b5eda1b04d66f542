"""CIFAR-10 and CIFAR-100, 60,000 colour images of 32 x 32 pixels, read from the folder that their archive unpacks to.

Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009; the files "python version"::

    cifar-10-batches-py/     data_batch_1 ... data_batch_5, test_batch      b"data" (n, 3072) bytes, b"labels"
    cifar-100-python/        train, test                                    b"data", b"fine_labels"

The files are pickles, a format that can hold any program. Nothing but arrays, their types and plain values is loaded.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import TrainingError
from e2c_dl.training.datasets.model import Dataset, Labels, Normalised

_SHAPE = (3, 32, 32)
_FILES = {  # kind -> (folder in the archive, training files, test file, key of the labels, classes)
    "cifar10": ("cifar-10-batches-py", [f"data_batch_{i}" for i in range(1, 6)], "test_batch", b"labels", 10),
    "cifar100": ("cifar-100-python", ["train"], "test", b"fine_labels", 100),
}
_RECONSTRUCT: Any = np.empty(0).__reduce__()[0]  # asked for: NumPy 2 moved its module
_NUMPY: Mapping[str, Any] = {"_reconstruct": _RECONSTRUCT, "ndarray": np.ndarray, "dtype": np.dtype}

Raw = npt.NDArray[np.uint8]


class _Arrays(pickle.Unpickler):
    """Finds NumPy's arrays and types, wherever the NumPy that wrote them kept them, and nothing else."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        # numpy.core in files of NumPy 1, numpy._core of NumPy 2
        if f"{module_name}.".startswith("numpy.") and global_name in _NUMPY:
            return _NUMPY[global_name]
        if (module_name, global_name) == ("_codecs", "encode"):
            return lambda text, _: text.encode("latin1")  # bytes, as Python 3 writes them for Python 2
        raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}, which no CIFAR file needs")


def load(data_dir: Path, kind: str, dtype: np.dtype[Any]) -> Dataset:
    """``kind``, cifar10 or cifar100, from ``data_dir``: its folder, or the one that this stands in.

    Raises: TrainingError, if a file is missing, damaged or holds anything else.
    """
    inner, training, test, key, classes = _FILES[kind]
    folder = data_dir / inner if (data_dir / inner).is_dir() else data_dir  # either may be named
    parts = [_read(folder / name, kind, key, classes) for name in training]
    images = np.concatenate([raw for raw, _ in parts])
    test_images, test_labels = _read(folder / test, kind, key, classes)
    mean, deviation = _statistics(images)
    return Dataset(
        train_images=Normalised(raw=images, mean=mean, deviation=deviation, dtype=dtype),
        train_labels=np.concatenate([labels for _, labels in parts]),
        test_images=Normalised(raw=test_images, mean=mean, deviation=deviation, dtype=dtype),
        test_labels=test_labels, classes=classes,
    )  # fmt: skip


def _read(path: Path, kind: str, key: bytes, classes: int) -> tuple[Raw, Labels]:
    remedy = f"unpack the python version of {kind} again, and name its folder as data_dir"
    try:
        with path.open("rb") as file:
            content = _Arrays(file, encoding="bytes").load()  # bytes: Python 2 wrote the files
    except OSError as error:
        raise TrainingError(f"{path}: cannot read dataset {kind}: {error.strerror}; {remedy}") from error
    except Exception as error:  # a damaged pickle may fail in any way
        raise TrainingError(f"{path}: no file of dataset {kind}: {error}; {remedy}") from error
    data = content.get(b"data") if isinstance(content, dict) else None
    labels = content.get(key) if isinstance(content, dict) else None
    if not (isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.shape[1:] == (np.prod(_SHAPE),)):
        raise TrainingError(f"{path}: no file of dataset {kind}: it holds no images of 3072 bytes; {remedy}")
    if not (isinstance(labels, list) and len(labels) == len(data) and set(labels) <= set(range(classes))):
        raise TrainingError(f"{path}: no file of dataset {kind}: it holds no label for each image; {remedy}")
    return data.reshape(-1, *_SHAPE), np.array(labels, dtype=np.int64)


def _statistics(images: Raw) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(mean, deviation) of each channel, exact, from how often each of the 256 values occurs: no large copy is made."""
    values = np.arange(256)
    counts = np.stack([np.bincount(images[:, channel].ravel(), minlength=256) for channel in range(_SHAPE[0])])
    totals = counts.sum(axis=1)
    mean = counts @ values / totals
    return mean, np.sqrt(counts @ values**2 / totals - mean**2)
