"""A user's own ``torch.utils.data.Dataset``, by import path, called without arguments.

It has a length, and each of its items is (sample, class): the sample a tensor or array, the class a whole number from
0. One data set is split as all are; a pair of them is (training, test). Samples are taken when a batch needs them, in
the training thread; classes are read once, from ``targets`` where it has that, else item by item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import InputError
from e2c_dl.training.datasets.model import Dataset, Labels, Positions, split
from e2c_dl.training.imported import call


class _Items(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> tuple[Any, Any]: ...


@dataclass(frozen=True, kw_only=True)
class ImportedSamples:
    """The samples of ``items`` at ``chosen`` positions; fractions in ``dtype``, whole numbers as they are."""

    items: _Items
    chosen: Positions
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __getitem__(self, positions: Positions, /) -> npt.NDArray[Any]:
        stacked = np.stack([np.asarray(self.items[int(index)][0]) for index in self.chosen[positions]])
        return stacked.astype(self.dtype) if np.issubdtype(stacked.dtype, np.floating) else stacked


def load(path: str, dtype: np.dtype[Any], code: str | None = None) -> Dataset:
    """The data set at ``path``; ``code``: the folder of the scenario's own.

    Raises: InputError, if it is none that can be trained on.
    """
    came = call(path, "dataset", code)
    if isinstance(came, tuple) and len(came) == 2:
        (train_items, train_labels), (test_items, test_labels) = (_checked(path, each) for each in came)
        train, test = np.arange(len(train_labels)), np.arange(len(test_labels))  # all of each: it came divided
    else:
        train_items, labels = _checked(path, came)
        test_items = train_items  # one set: the positions divide it
        train, test = split(len(labels))
        train_labels, test_labels = labels[train], labels[test]
    shape = np.asarray(train_items[0][0]).shape
    return Dataset(
        train_images=ImportedSamples(items=train_items, chosen=train, shape=(len(train), *shape), dtype=dtype),
        train_labels=train_labels,
        test_images=ImportedSamples(items=test_items, chosen=test, shape=(len(test), *shape), dtype=dtype),
        test_labels=test_labels,
        classes=int(max(train_labels.max(), test_labels.max())) + 1,
    )


def _checked(path: str, items: Any) -> tuple[_Items, Labels]:
    if not (hasattr(items, "__len__") and hasattr(items, "__getitem__")):
        kind = type(items).__name__
        raise InputError(f"dataset {path}: it returns a {kind} without length or items; return a map-style Dataset")
    if len(items) < 5:  # a fifth is kept for testing
        raise InputError(f"dataset {path}: it has {len(items)} samples; return at least 5")
    return items, _labels(path, items)


def _labels(path: str, items: _Items) -> Labels:
    targets: Sequence[Any] | None = getattr(items, "targets", None)
    try:
        read = [items[index][1] for index in range(len(items))] if targets is None else targets
        labels = np.asarray(read)
    except (TypeError, ValueError, LookupError) as error:
        raise InputError(f"dataset {path}: its items are not (sample, class): {error}; return such pairs") from error
    whole = np.issubdtype(labels.dtype, np.integer)
    if not whole or labels.shape != (len(items),) or labels.min() < 0:
        raise InputError(f"dataset {path}: its classes are not one whole number from 0 per sample; return such classes")
    return labels.astype(np.int64)
