"""Sparse selections of vectors: which entries are chosen, how many fit so many bytes, and how they are added again.

::

    max_n        the largest N whose entries fit: |g| >= (1 - N/100) * max|g|, the maximum of each bucket its own
    significant  accumulated updates that matter to their parameter: |a / w| > threshold
    add_sparse   into[indices] += values

Choices are pure functions of vectors; strategies call them in ``Worker.calculate``, which they cost time in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Array, Sparse, Vector, Worker
from e2c_dl.strategies.seam.messages import ENTRY_BYTES, TABLE_BYTES, padded_bytes

__all__ = [
    "FILTERING",
    "INDEX_BYTES",
    "SELECTING",
    "add_sparse",
    "max_n",
    "most_entries",
    "significant",
    "sparse_bytes",
]

INDEX_BYTES = 4  # int32
# In accumulations of as many bytes (of a million float32, 0.1 ms where these were measured, by timeit):
SELECTING = 150  # finding a vector's largest entries, most of it np.partition
FILTERING = 40  # comparing it with a bound entry by entry, most of it np.flatnonzero
_ADDING = 25  # entries that lie apart


def sparse_bytes(count: int, itemsize: int) -> int:
    """Bytes that ``count`` entries take in a message, their values of ``itemsize`` each."""
    return TABLE_BYTES + 2 * ENTRY_BYTES + padded_bytes(count * INDEX_BYTES) + padded_bytes(count * itemsize)


def most_entries(budget_bytes: float, itemsize: int) -> int:
    """The most entries that fit into ``budget_bytes``; 0, if none does."""
    most = max(0, int((budget_bytes - sparse_bytes(0, itemsize)) // (INDEX_BYTES + itemsize)))
    while most and sparse_bytes(most, itemsize) > budget_bytes:  # by what pads both arrays
        most -= 1
    return most


def max_n(values: Vector, buckets: Sequence[slice], most: int, least_n: float = 0.0) -> Array:
    """Indices (int32, ascending) of Max N's entries for the largest N that chooses at most ``most`` of them.

    An entry is chosen if it is at least (1 - N/100) of the largest of its bucket, in absolute value. Equal ones are
    chosen together or not at all. N is not below ``least_n``, whatever fits.

    Source: Hong and Chandra, HPDC 2021, Max N.
    """
    scores = np.abs(values)
    for where in buckets:
        peak = scores[where].max(initial=0.0)
        if peak > 0:  # of zeros, none is worth sending before others
            scores[where] /= peak
    if most >= len(scores):
        return np.arange(len(scores), dtype=np.int32)
    bound = np.inf
    if most > 0:
        bound = np.partition(scores, len(scores) - most)[len(scores) - most]
        if np.count_nonzero(scores >= bound) > most:  # the last that would fit has equals that do not
            bound = np.nextafter(bound, np.inf, dtype=scores.dtype)
    return np.flatnonzero(scores >= min(bound, 1 - least_n / 100)).astype(np.int32)


def significant(accumulated: Vector, parameters: Vector, threshold: float) -> Array:
    """Indices (int32, ascending) of what is accumulated and significant: not 0, and of a parameter that is 0 or that
    it is more than ``threshold`` times in absolute value.

    Source: Hsieh et al., NSDI 2017, section 4.1.
    """
    if threshold == np.inf:  # nothing is more
        return np.flatnonzero((parameters == 0) & (accumulated != 0)).astype(np.int32)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # 0 / 0 is no number, which is not more either
        return np.flatnonzero(np.abs(accumulated / parameters) > threshold).astype(np.int32)


async def add_sparse(worker: Worker, into: Vector, part: Sparse, factor: float = 1.0) -> None:
    """``into[indices] += factor * values``. Raises: TrainingError, if an index is none of ``into``."""

    def add() -> None:
        indices, values = part
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < len(into):
            raise TrainingError(f"a sparse vector has entries beyond {len(into)}; run one model everywhere")
        into[indices] += values if factor == 1.0 else factor * values

    nbytes = _ADDING * (part.indices.nbytes + part.values.nbytes)
    await worker.calculate(add, nbytes=nbytes, shapes=lambda: None)
