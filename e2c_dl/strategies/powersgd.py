"""PowerSGD: all-reduce of two thin factors instead of the gradient; what they miss of it is added to the next.

Source: Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization",
NeurIPS 2019, Algorithms 1 and 2. Idea: a gradient is nearly of low rank, and a product with a fixed matrix is linear:
it can be summed around a ring.

Each tensor is a matrix M of n x m, its first dimension by all others; r is the rank.

1. As a bucket is complete: M_i <- n b_i / sum(b) g_i + E_i, E_i what this rank has yet to send.
2. P <- sum_i M_i Q by ring, orthogonalised. Q: that of the iteration before, orthogonalised; at first random.
3. Q <- mean_i M_i^T P by ring.
4. The tensor becomes P Q^T; E_i <- M_i - P Q^T. When all buckets are done, step.

The factors of a bucket's tensors travel together. A tensor of which they would be no shorter, any vector among them,
is summed as it is, beside P.

Laws: equals torch's ``powerSGD_hook`` from the same first Q, to rounding; the mean of what ranks have sent and the mean
of what they have yet to are that of what they were to; of full rank it is all-reduce; all ranks hold the same
parameters, to the bit.

Differences from the paper: the step is the configured optimizer's, and momentum its, as in torch. Where a bucket's
tensors are not known (a profile of shapes alone that does not say), it is one matrix, as square as may be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import ClassVar

import numpy as np

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Array, Bucket, Setting, Strategy, Vector, Worker
from e2c_dl.strategies.collectives import Tag, ring_links, ring_sum
from e2c_dl.strategies.compression.powersgd import as_matrix, first_right, matrix_shape, orthogonal

FULL = 1 << 20
"""A rank with which no factors are shorter."""


class PowerSGD(Strategy):
    """All-reduce of factors, overlapped with backward; see the module."""

    name: ClassVar[str] = "powersgd"
    exact_with: ClassVar[Mapping[str, Setting] | None] = {"rank": FULL}

    def __init__(self, *, rank: int = 4) -> None:
        """Raises: InputError."""
        if rank < 1:
            raise InputError(f"strategy 'powersgd': rank is {rank}; write 1 or more")
        self._rank = rank

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        return sorted(ring_links(range(size)))

    @classmethod
    def tried(cls, layers: Sequence[str], iterations: int) -> Sequence[Mapping[str, Setting]]:
        return [{"rank": rank} for rank in (1, 4)]

    async def run(self, worker: Worker) -> None:
        factors: dict[int, _Factors] = {}  # by bucket
        async for iteration in worker.iterations():
            reductions = []
            async for bucket in worker.gradient():
                if bucket.index not in factors:
                    factors[bucket.index] = _Factors(worker, bucket, self._rank)
                reductions.append(worker.spawn(factors[bucket.index].reduce(iteration, bucket)))
            for each in reductions:
                await each
            await worker.step()


@dataclass(frozen=True)
class _Tensor:
    """A matrix of a bucket, or what stays as it is (``shape`` None)."""

    where: slice  # in the bucket
    shape: tuple[int, int] | None


class _Factors:
    """One bucket's Qs, and what this rank has yet to send of it."""

    def __init__(self, worker: Worker, bucket: Bucket, rank: int) -> None:
        self._worker, self._rank = worker, rank
        tensors = _tensors(bucket, rank)
        self._whole = [each.where for each in tensors if each.shape is None]
        self._matrices = [(each.where, each.shape) for each in tensors if each.shape is not None]
        self._owed: Vector = worker.zeros()[bucket.where]  # E
        self._right: Array | None = None  # Q of each matrix, one after the other, flat

    async def reduce(self, iteration: int, bucket: Bucket) -> None:
        """Turn ``bucket.values`` into what all ranks apply."""
        worker, values = self._worker, bucket.values
        await worker.scale(values, worker.size * worker.samples / worker.total_samples)
        if not self._matrices:
            await self._mean(values, Tag(kind="whole", iteration=iteration, bucket=bucket.index))
            return
        await worker.accumulate(values, self._owed)
        length = self._rank * sum(rows for _, (rows, _) in self._matrices)
        left = await self._calculated(lambda: self._left(values), length + sum(map(_length, self._whole)), values)
        tag = Tag(kind="left", iteration=iteration, bucket=bucket.index)
        await ring_sum(worker, left, tag, range(worker.size), adds=True)
        whole, left = left[length:], left[:length]
        if self._whole:
            await worker.scale(whole, 1 / worker.size)
        begin = 0
        for where in self._whole:
            await worker.copy(values[where], whole[begin : begin + _length(where)])
            begin += _length(where)
        left = await self._calculated(lambda: self._orthogonal(left), length, left)
        length = self._rank * sum(columns for _, (_, columns) in self._matrices)
        right = await self._calculated(lambda: self._turned(values, left), length, values)
        await self._mean(right, Tag(kind="right", iteration=iteration, bucket=bucket.index))
        self._right = right
        product = await self._calculated(lambda: self._product(values, left, right), len(values), values)
        await worker.copy(self._owed, values)
        await worker.accumulate(self._owed, product, -1.0)
        await worker.copy(values, product)

    async def _mean(self, values: Vector, tag: Tag) -> None:
        await ring_sum(self._worker, values, tag, range(self._worker.size), adds=True)
        await self._worker.scale(values, 1 / self._worker.size)

    async def _calculated(self, work: Callable[[], Array], length: int, read: Vector) -> Array:
        """What ``work`` computes, of ``length``, going over ``read`` once for each column."""
        dtype = str(self._worker.parameters.dtype)
        return await self._worker.calculate(
            work, nbytes=read.nbytes * self._rank, shapes=lambda: self._worker.zeros(length, dtype)
        )

    def _left(self, values: Vector) -> Array:
        """Each matrix's M Q, then what stays as it is; flat."""
        if self._right is None:
            rights = [first_right(columns, self._rank, values.dtype) for _, (_, columns) in self._matrices]
        else:
            rights = self._split(self._right, [columns for _, (_, columns) in self._matrices])
        pairs = zip(self._matrices, rights, strict=True)
        products = [as_matrix(values[where], shape) @ orthogonal(right) for (where, shape), right in pairs]
        return np.concatenate([each.reshape(-1) for each in products] + [values[where] for where in self._whole])

    def _orthogonal(self, left: Array) -> Array:
        return np.concatenate([orthogonal(each).reshape(-1) for each in self._lefts(left)])

    def _turned(self, values: Vector, left: Array) -> Array:
        """Each matrix's M^T P, flat."""
        pairs = zip(self._matrices, self._lefts(left), strict=True)
        return np.concatenate(
            [(as_matrix(values[where], shape).T @ each).reshape(-1) for (where, shape), each in pairs]
        )

    def _product(self, values: Vector, left: Array, right: Array) -> Array:
        """``values`` with P Q^T for each matrix."""
        products: Array = values.copy()
        rights = self._split(right, [columns for _, (_, columns) in self._matrices])
        for (where, _), mine, other in zip(self._matrices, self._lefts(left), rights, strict=True):
            products[where] = (mine @ other.T).reshape(-1)[: _length(where)]
        return products

    def _lefts(self, left: Array) -> list[Array]:
        return self._split(left, [rows for _, (rows, _) in self._matrices])

    def _split(self, factors: Array, sides: Sequence[int]) -> list[Array]:
        """Matrices of so many rows each, that lie one after the other."""
        rows: Array = factors.reshape(-1, self._rank)
        return [rows[end - side : end] for side, end in zip(sides, accumulate(sides), strict=True)]


def _tensors(bucket: Bucket, rank: int) -> list[_Tensor]:
    """What ``bucket`` holds, one after the other; a matrix is what is longer than its factors of ``rank``."""
    length = len(bucket.values)
    if not bucket.tensor_shapes:
        return [_tensor(slice(0, length), matrix_shape(length), rank)]
    found, begin = [], 0
    for shape in bucket.tensor_shapes:
        where = slice(begin, begin + prod(shape))
        found.append(_tensor(where, (shape[0], prod(shape[1:])) if shape else (1, 1), rank))
        begin = where.stop
    return found


def _tensor(where: slice, shape: tuple[int, int], rank: int) -> _Tensor:
    return _Tensor(where, shape if rank * sum(shape) < _length(where) else None)


def _length(where: slice) -> int:
    return int(where.stop - where.start)
