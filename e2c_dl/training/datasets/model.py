"""A data set as training sees it: samples that can be indexed by many positions at once, and their classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

TEST_FRACTION = 0.2
_SPLIT_SEED = 20090117  # fixed: the split is part of the data set, not of a run

Labels = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int64]


class Images(Protocol):
    """Samples by position: a NumPy array is one, and so is what reads files only when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(samples, and the shape of one: channels, height, width)."""

    def __getitem__(self, positions: Positions, /) -> npt.NDArray[Any]:
        """The samples at ``positions``, stacked in this order."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Images, normalised by the training images' mean and deviation, and labels from 0 to ``classes`` - 1."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    classes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample."""
        return self.train_images.shape[1:]


@dataclass(frozen=True, kw_only=True)
class Normalised:
    """Bytes of images, (samples, channels, height, width), turned into normalised numbers when they are read."""

    raw: npt.NDArray[np.uint8]
    mean: npt.NDArray[np.float64]  # per channel
    deviation: npt.NDArray[np.float64]
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.raw.shape

    def __getitem__(self, positions: Positions, /) -> npt.NDArray[Any]:
        return normalised(self.raw[positions], self.mean, self.deviation, self.dtype)


def normalised(
    raw: npt.NDArray[np.uint8], mean: npt.NDArray[np.float64], deviation: npt.NDArray[np.float64], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """(``raw`` - mean) / deviation, channel by channel; ``raw`` is (samples, channels, height, width)."""
    per_channel = (1, -1, 1, 1)
    values = raw.astype(dtype)  # a copy, which the next lines change in place
    values -= mean.reshape(per_channel).astype(dtype)
    values /= deviation.reshape(per_channel).astype(dtype)
    return values


def split(samples: int) -> tuple[Positions, Positions]:
    """(training, test) positions of a data set that comes in one piece; the same whenever it is asked."""
    order = np.random.default_rng(_SPLIT_SEED).permutation(samples)
    tests = round(samples * TEST_FRACTION)
    return order[tests:], order[:tests]
