"""Synchronous data parallelism by all-reduce: every rank applies the mean gradient of all samples.

Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", Journal of Parallel
and Distributed Computing 69 (2009), section 3. Idea: a sum around a ring costs each rank twice the vector, however many
ranks there are; a sum over a tree costs fewer delays, which is what counts for small vectors.

1. Compute the gradient g_i of the local batch of b_i samples. As each bucket of it is complete, reduce that bucket
   beside the remaining backward pass:
2. weight: multiply the bucket by b_i / sum(b), so that unequal batches count by their samples;
3. sum over all ranks: by ring (see collectives/ring.py), or, if the bucket is small, by tree (collectives/tree.py).
4. When all buckets are reduced, and everything has been sent, step: w <- w - eta * sum(b_i g_i) / sum(b_i).

Laws: equals single-process SGD on the concatenated batches, also for unequal ones (float64: 1e-9 relative over 100
iterations); all ranks hold the same parameters, to the bit; per bucket a rank sends 2 (n-1) messages around a ring.

Differences from the paper: a vector shorter than n leaves some chunks empty; they travel as empty messages. The tree is
not the paper's; below which size it is faster depends on the links, so it is a setting, off by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Bucket, Setting, Strategy, Worker
from e2c_dl.strategies.collectives import Tag, ring_links, ring_sum, tree_links, tree_sum


class Allreduce(Strategy):
    """Sum of each bucket over all ranks, overlapped with backward; see the module."""

    name: ClassVar[str] = "allreduce"
    exact_with: ClassVar[Mapping[str, Setting] | None] = {}

    def __init__(self, *, tree_below_bytes: int = 0) -> None:
        """``tree_below_bytes``: smaller buckets go over a tree (0: none does). Raises: InputError."""
        if tree_below_bytes < 0:
            raise InputError(f"strategy 'allreduce': tree_below_bytes is {tree_below_bytes}; write 0 or more")
        self._tree_below_bytes = tree_below_bytes

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """The ring and the tree."""
        return sorted({*ring_links(range(size)), *tree_links(range(size))})  # both: a class does not know its settings

    @classmethod
    def tried(cls, layers: Sequence[str], iterations: int) -> Sequence[Mapping[str, Setting]]:
        return [{}, {"tree_below_bytes": 64 * 1024}]

    def used_links(self, layers: Sequence[str]) -> Sequence[tuple[int, int]]:
        return self.links(len(layers)) if self._tree_below_bytes else sorted(ring_links(range(len(layers))))

    async def run(self, worker: Worker) -> None:
        async for iteration in worker.iterations():
            # Each is reduced beside what backward still computes.
            reductions = [worker.spawn(self._mean(worker, iteration, bucket)) async for bucket in worker.gradient()]
            for reduction in reductions:
                await reduction  # the step reads the whole gradient
            await worker.step()

    async def _mean(self, worker: Worker, iteration: int, bucket: Bucket) -> None:
        """Turn ``bucket.values`` into the sample-weighted mean over all ranks."""
        await worker.scale(bucket.values, worker.samples / worker.total_samples)  # only this rank knows its batch
        tag = Tag(kind="chunk", iteration=iteration, bucket=bucket.index)
        sum_over = tree_sum if bucket.values.nbytes < self._tree_below_bytes else ring_sum  # small: delays count
        await sum_over(worker, bucket.values, tag, range(worker.size), adds=True)
