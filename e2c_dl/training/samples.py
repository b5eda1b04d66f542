"""One rank's samples: the batches it trains on, one after the other, and those it is tested on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from e2c_dl.errors import TrainingError
from e2c_dl.scenario.model import Training
from e2c_dl.training.datasets.model import Dataset, Images, Labels, Positions
from e2c_dl.training.partitions import Stream, parts, too_few

TEST_BATCH = 512  # samples evaluated at once: activations of a whole test set may not fit

Batch = tuple[torch.Tensor, torch.Tensor]
"""(images, labels)."""


class Samples:
    """The part of ``data`` that ``rank`` trains on, drawn batch by batch, of any sizes, along one stream.

    Raises: InputError, if its part has less samples than ``training`` wants in a batch.
    """

    def __init__(self, data: Dataset, training: Training, *, rank: int, size: int) -> None:
        self._data, self._rank = data, rank
        own = parts(data.train_labels, partition=training.partition, seed=training.seed, size=size)[rank]
        self._length, self._stream = len(own), Stream(own, seed=training.seed, rank=rank)
        self._drawn = 0
        if not 1 <= training.batch_sizes[rank] <= len(own):  # at once, not in the first iteration
            raise too_few(
                training.batch_sizes[rank], rank=rank, own=len(own), samples=len(data.train_labels),
                partition=training.partition,
            )  # fmt: skip

    def __len__(self) -> int:
        return self._length

    def draw(self, count: int) -> Batch:
        """The next ``count`` samples. Raises: TrainingError, if they are more than this rank has."""
        batch = self.ahead(count)
        self._drawn += count  # after ahead(): a batch that was refused is not skipped
        return batch

    def ahead(self, count: int) -> Batch:
        """What :meth:`draw` would return, without taking it."""
        if not 1 <= count <= self._length:
            raise TrainingError(
                f"rank {self._rank}: a batch of {count} samples was requested, and it has {self._length}; "
                "write smaller batch_size values, or batching: fixed"
            )
        where = self._stream.at(self._drawn, count)
        return _batch(self._data.train_images, self._data.train_labels, where)

    def tests(self) -> Iterator[Batch]:
        """All test samples, in batches of at most :data:`TEST_BATCH`."""
        count = len(self._data.test_labels)
        for begin in range(0, count, TEST_BATCH):
            where = np.arange(begin, min(count, begin + TEST_BATCH))
            yield _batch(self._data.test_images, self._data.test_labels, where)


def _batch(images: Images, labels: Labels, where: Positions) -> Batch:
    return torch.from_numpy(images[where]), torch.from_numpy(labels[where])
