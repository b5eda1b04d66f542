"""Partitions: which samples a rank trains on, and in which order; pure functions of the seed, the same on any host.

::

    all samples   --divided by partition and seed-->   | rank 0 | rank 1 | rank 2 |      each sample in one part
    a rank's part --permuted by (seed, rank, epoch)-->  one long stream, epoch after epoch, cut into batches

iid: sizes differ by at most 1. sizes:ALPHA: ranks' shares of the samples are drawn from a Dirichlet distribution.
classes:ALPHA: ranks' shares of each class are. Source: Li et al., "Federated learning on non-IID data silos: an
experimental study", ICDE 2022, sections 4.1 (distribution-based label imbalance) and 4.3 (quantity skew).

A batch may begin in one epoch and end in the next; in each epoch every sample of the part is drawn exactly once,
whatever the batches' sizes.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import InputError
from e2c_dl.scenario.data import Partition, parse_partition

Indices = npt.NDArray[np.int64]

IID = "iid"


def parts(labels: Indices, *, partition: str = IID, seed: int, size: int) -> tuple[Indices, ...]:
    """The positions that each of ``size`` ranks trains on, out of those of ``labels``, which are the samples' classes.

    Raises: InputError, if there is no such partition.
    """
    try:
        asked = parse_partition(partition)
    except ValueError as error:
        raise InputError(f"partition: {error}") from error
    random = np.random.default_rng([seed])  # without the rank: all ranks divide alike
    if asked.kind == "classes":
        return _by_class(labels, asked, random, size)
    order = random.permutation(len(labels))  # many data sets are sorted by class
    shares = np.full(size, 1 / size) if asked.kind == "iid" else random.dirichlet(np.full(size, asked.alpha))
    return tuple(order[begin:end] for begin, end in pairwise(_bounds(len(labels), shares)))


def too_few(batch_size: int, *, rank: int, own: int, samples: int, partition: str) -> InputError:
    """What is wrong if ``rank`` shall draw ``batch_size`` at once from ``own`` of all ``samples``; to be raised."""
    by = "" if partition == IID else f" by partition {partition}"
    # of an empty part, no batch can be drawn, however small
    remedy = "write a batch_size between 1 and that" if own else "write another seed or a larger ALPHA"
    return InputError(f"batch_size {batch_size} of rank {rank}: it has {own} of {samples} samples{by}; {remedy}")


class Stream:
    """The samples of ``rank``, whose part is ``own``, not empty, in the order in which it draws them, without end."""

    def __init__(self, own: Indices, *, seed: int, rank: int) -> None:
        self._own, self._seed, self._rank = own, seed, rank
        self._epoch, self._order = -1, own  # the last epoch that was asked for: permuting all for a batch would be slow

    def at(self, begin: int, count: int) -> Indices:
        """The samples at ``begin`` to ``begin + count``, counted over all epochs."""
        taken: list[Indices] = []
        while count:
            epoch, offset = divmod(begin, len(self._own))
            batch = self._permuted(epoch)[offset : offset + count]
            taken.append(batch)
            begin, count = begin + len(batch), count - len(batch)
        return np.concatenate(taken)

    def _permuted(self, epoch: int) -> Indices:
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self._seed, self._rank, epoch]).permutation(self._own)
        return self._order


def _by_class(labels: Indices, asked: Partition, random: np.random.Generator, size: int) -> tuple[Indices, ...]:
    pieces: list[list[Indices]] = [[] for _ in range(size)]
    for label in np.unique(labels):  # sorted, so that every host draws in the same order
        order = random.permutation(np.flatnonzero(labels == label))
        shares = random.dirichlet(np.full(size, asked.alpha))
        for rank, (begin, end) in enumerate(pairwise(_bounds(len(order), shares))):
            pieces[rank].append(order[begin:end])
    return tuple(np.concatenate(own) for own in pieces)


def _bounds(samples: int, shares: npt.NDArray[np.float64]) -> list[int]:
    """0, then where each rank's part ends, the last at ``samples``."""
    if np.all(shares == shares[0]):
        return [samples * rank // len(shares) for rank in range(len(shares) + 1)]  # exact, where sums would round
    ends = np.rint(np.cumsum(shares) * samples).astype(int)
    return [0, *ends[:-1].tolist(), samples]  # rounding must not lose the last sample
