"""Synchronous data parallelism by ring all-reduce: every rank applies the mean gradient of all samples.

Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", Journal of Parallel
and Distributed Computing 69 (2009), section 3. Idea: cut a vector into n chunks and pass them around a ring, so that
every rank sends and receives 2 (n-1)/n of the vector, however many ranks there are.

1. Compute the gradient g_i of the local batch of b_i samples. As each bucket of it is complete, reduce that bucket
   beside the remaining backward pass:
2. weight: multiply the bucket by b_i / sum(b), so that unequal batches count by their samples;
3. reduce-scatter: n-1 times, send one chunk to rank+1, and add the chunk that comes from rank-1; in the end rank r has
   the complete sum of chunk r+1;
4. all-gather: n-1 times, pass the completed chunk on, and take over the one that comes from rank-1.
5. When all buckets are reduced, and everything has been sent, step: w <- w - eta * sum(b_i g_i) / sum(b_i).

The chunks that 4 ranks send (S: complete)::

    step      0    1    2  |  3    4    5
    rank 0    0    3    2  |  1S   0S   3S
    rank 1    1    0    3  |  2S   1S   0S
    rank 2    2    1    0  |  3S   2S   1S
    rank 3    3    2    1  |  0S   3S   2S

Laws: equals single-process SGD on the concatenated batches, also for unequal ones (float64: 1e-9 relative over 100
iterations); all ranks hold the same parameters, to the bit; per bucket a rank sends 2 (n-1) messages.

Differences from the paper: a vector shorter than n leaves some chunks empty; they travel as empty messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from e2c_dl.strategies.base import Bucket, Message, Pending, Strategy, Vector, Worker


class Allreduce(Strategy):
    """Ring all-reduce of each bucket, overlapped with backward; see the module."""

    name: ClassVar[str] = "allreduce"

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """The ring: each rank to the next."""
        return [(rank, (rank + 1) % size) for rank in range(size)] if size > 1 else []

    async def run(self, worker: Worker) -> None:
        async for iteration in worker.iterations():
            reductions = [worker.spawn(reduce(worker, iteration, bucket)) async for bucket in worker.gradient()]
            for reduction in reductions:
                await reduction
            await worker.step()


async def reduce(worker: Worker, iteration: int, bucket: Bucket) -> None:
    """Turn ``bucket.values`` into the sample-weighted mean over all ranks; returns when they may be written again."""
    await worker.scale(bucket.values, worker.samples / worker.total_samples)
    chunks = split(bucket.values, worker.size)
    sent: list[Pending[None]] = []
    last = worker.size - 1  # steps of each half
    for step in range(2 * last):
        leaving = chunks[(worker.rank - step) % worker.size]
        message = Message(kind="chunk", iteration=iteration, bucket=bucket.index, step=step, payload=leaving)
        sent.append(worker.send((worker.rank + 1) % worker.size, message))
        came = await worker.receive(
            "chunk", src=(worker.rank - 1) % worker.size, iteration=iteration, bucket=bucket.index, step=step
        )
        coming = chunks[(worker.rank - step - 1) % worker.size]
        if step < last:
            await worker.accumulate(coming, came.vector)
        else:
            await sent[step - last]  # this chunk left in reduce-scatter; it is overwritten now
            coming[:] = came.vector
    for each in sent[last:]:
        await each


def split(values: Vector, count: int) -> list[Vector]:
    """``count`` consecutive views of ``values`` whose lengths differ by at most one; some are empty if it is short."""
    bounds = [len(values) * index // count for index in range(count + 1)]
    return [values[begin:end] for begin, end in pairwise(bounds)]
