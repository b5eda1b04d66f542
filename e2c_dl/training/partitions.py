"""Which samples a rank trains on, and in which order: pure functions of the seed, the same on any host.

::

    all samples   --permuted by seed-->   | rank 0 | rank 1 | rank 2 |     parts: sizes differ by at most 1
    a rank's part --permuted by (seed, rank, epoch)-->  one long stream, epoch after epoch, cut into batches

A batch may begin in one epoch and end in the next; in each epoch every sample of the part is drawn exactly once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import InputError

Indices = npt.NDArray[np.int64]


def part(samples: int, *, seed: int, rank: int, size: int) -> Indices:
    """The samples of ``rank`` of ``size``, out of 0..samples-1: identically distributed over ranks, and disjoint."""
    order = np.random.default_rng([seed]).permutation(samples)
    return order[samples * rank // size : samples * (rank + 1) // size]


def batch_indices(samples: int, *, seed: int, rank: int, size: int, batch_size: int, iteration: int) -> Indices:
    """The ``batch_size`` samples, out of 0..samples-1, that ``rank`` of ``size`` trains on in ``iteration``.

    Raises: InputError, if the rank has less samples than one batch needs.
    """
    own = part(samples, seed=seed, rank=rank, size=size)
    if not 1 <= batch_size <= len(own):
        raise InputError(
            f"batch_size {batch_size} of rank {rank}: it has {len(own)} of {samples} samples; "
            "write a batch_size between 1 and that"
        )
    begin = iteration * batch_size
    epoch, offset = divmod(begin, len(own))
    drawn = _epoch(own, seed, rank, epoch)[offset : offset + batch_size]
    missing = batch_size - len(drawn)
    return np.concatenate([drawn, _epoch(own, seed, rank, epoch + 1)[:missing]]) if missing else drawn


def _epoch(own: Indices, seed: int, rank: int, epoch: int) -> Indices:
    return np.random.default_rng([seed, rank, epoch]).permutation(own)
