"""PowerSGD: all-reduce of two thin factors instead of the gradient; what they miss of it is added to the next.

Source: Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization",
NeurIPS 2019, Algorithms 1 and 2. Idea: a gradient is nearly of low rank, and a product with a fixed matrix is linear:
it can be summed around a ring.

Each bucket is read as a matrix M of n x m, as square as may be (compression/powersgd.py); r is the rank.

1. As a bucket is complete: M_i <- n b_i / sum(b) g_i + E_i, E_i what this rank has yet to send.
2. P <- sum_i M_i Q by ring, orthogonalised. Q: that of the iteration before, orthogonalised; at first random.
3. Q <- mean_i M_i^T P by ring.
4. The bucket becomes P Q^T; E_i <- M_i - P Q^T. When all buckets are done, step.

A bucket of which the factors would be no shorter is summed as it is.

Laws: equals torch's ``powerSGD_hook`` from the same first Q, where each bucket is one square tensor, to rounding; the
mean of what ranks have sent and the mean of what they have yet to are that of what they were to; of full rank it is
all-reduce; all ranks hold the same parameters, to the bit.

Differences from the paper: there each tensor is a matrix; here each bucket is, as the seam knows no tensors. The step
is the configured optimizer's, and momentum its, as in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

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


class _Factors:
    """One bucket's Q, and what this rank has yet to send of it."""

    def __init__(self, worker: Worker, bucket: Bucket, rank: int) -> None:
        self._worker, self._rank = worker, rank
        self._rows, self._columns = matrix_shape(len(bucket.values))
        self._shorter = rank * (self._rows + self._columns) < len(bucket.values)
        self._owed: Vector = worker.zeros()[bucket.where]  # E
        self._right: Array | None = None  # Q, flat

    async def reduce(self, iteration: int, bucket: Bucket) -> None:
        """Turn ``bucket.values`` into what all ranks apply."""
        worker, values = self._worker, bucket.values
        await worker.scale(values, worker.size * worker.samples / worker.total_samples)
        if not self._shorter:
            await self._mean(values, Tag(kind="whole", iteration=iteration, bucket=bucket.index))
            return
        await worker.accumulate(values, self._owed)
        left = await self._calculated(lambda: self._left(values), self._rows * self._rank, values)
        await ring_sum(worker, left, Tag(kind="left", iteration=iteration, bucket=bucket.index), range(worker.size))
        left = await self._calculated(lambda: self._orthogonal(left), self._rows * self._rank, left)
        right = await self._calculated(lambda: self._turned(values, left), self._columns * self._rank, values)
        await self._mean(right, Tag(kind="right", iteration=iteration, bucket=bucket.index))
        self._right = right
        product = await self._calculated(lambda: self._product(left, right, len(values)), len(values), values)
        await worker.copy(self._owed, values)
        await worker.accumulate(self._owed, product, -1.0)
        await worker.copy(values, product)

    async def _mean(self, values: Vector, tag: Tag) -> None:
        await ring_sum(self._worker, values, tag, range(self._worker.size))
        await self._worker.scale(values, 1 / self._worker.size)

    async def _calculated(self, work: Callable[[], Array], length: int, read: Vector) -> Array:
        """What ``work`` computes, of ``length``, going over ``read`` once for each column."""
        dtype = str(self._worker.parameters.dtype)
        return await self._worker.calculate(
            work, nbytes=read.nbytes * self._rank, shapes=lambda: self._worker.zeros(length, dtype)
        )

    def _left(self, values: Vector) -> Array:
        """M Q, flat."""
        if self._right is None:
            right = first_right(self._columns, self._rank, values.dtype)
        else:
            right = self._right.reshape(self._columns, self._rank)
        left: Array = as_matrix(values) @ orthogonal(right)
        return left.reshape(-1)

    def _orthogonal(self, left: Array) -> Array:
        return orthogonal(left.reshape(self._rows, self._rank)).reshape(-1)

    def _turned(self, values: Vector, left: Array) -> Array:
        """M^T P, flat."""
        right: Array = as_matrix(values).T @ left.reshape(self._rows, self._rank)
        return right.reshape(-1)

    def _product(self, left: Array, right: Array, length: int) -> Array:
        """P Q^T, flat."""
        product: Array = left.reshape(self._rows, self._rank) @ right.reshape(self._columns, self._rank).T
        return product.reshape(-1)[:length]
