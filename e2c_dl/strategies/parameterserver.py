"""Parameter server, synchronous: one rank keeps the master copy; the others push gradients and pull parameters.

Source: Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014, sections 3 and 4.
Idea: what many workers share lives in one place. Here all wait for the slowest; ``asyncparameterserver`` does not.

1. Compute the gradient of the local batch; weight each bucket by b_i / sum(b), and push it as soon as it is complete.
2. The server, which trains as well, adds what is pushed to its own bucket, in rank order, and steps.
3. Pull: the server sends the new parameters, bucket by bucket; each worker takes them over.

Laws: equals single-process SGD on the concatenated batches (float64: 1e-9 over 100 iterations); all ranks end with the
same parameters, to the bit.

Differences from the paper: one server, which is also a worker; whole vectors instead of key ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from e2c_dl.strategies.base import Bucket, Pending, Setting, Worker
from e2c_dl.strategies.collectives import Tag
from e2c_dl.strategies.collectives.server import Served


class ParameterServer(Served):
    """Push gradients, pull parameters, all in step; see the module."""

    name: ClassVar[str] = "parameterserver"
    exact_with: ClassVar[Mapping[str, Setting] | None] = {}
    former_settings: ClassVar[Mapping[str, str]] = {
        "mode": "choose by strategy: parameterserver (synchronous) or asyncparameterserver (asynchronous)"
    }

    async def follow(self, worker: Worker) -> None:
        """A worker: its gradient goes out bucket by bucket, the new parameters come back so."""
        async for iteration in worker.iterations():
            buckets: list[Bucket] = []
            sent: list[Pending[None]] = []
            async for bucket in worker.gradient():
                await worker.scale(bucket.values, worker.samples / worker.total_samples)
                tag = Tag(kind="push", iteration=iteration, bucket=bucket.index)
                sent.append(worker.send(self._server, tag.message(0, bucket.values, adds=True)))
                buckets.append(bucket)
            for bucket in buckets:
                tag = Tag(kind="pull", iteration=iteration, bucket=bucket.index)
                # Behind the loop: backward reads the parameters until the last bucket.
                await worker.copy(worker.parameters[bucket.where], await tag.receive(worker, self._server, 0))
            for each in sent:  # the next gradient overwrites the buckets
                await each

    async def serve(self, worker: Worker) -> None:
        """The server: it sums each bucket as pushes come, beside its own backward pass."""
        others = [rank for rank in range(worker.size) if rank != self._server]
        sent: list[Pending[None]] = []
        async for iteration in worker.iterations():
            buckets: list[Bucket] = []
            sums: list[Pending[None]] = []
            async for bucket in worker.gradient():
                buckets.append(bucket)
                sums.append(worker.spawn(self._sum(worker, iteration, bucket, others)))  # none waits for another
            for each in sums:  # the step reads the whole gradient
                await each
            for each in sent:  # of the iteration before: the parameters change now
                await each
            await worker.step()
            sent = []
            for bucket in buckets:
                tag = Tag(kind="pull", iteration=iteration, bucket=bucket.index)
                sent += [worker.send(dst, tag.message(0, worker.parameters[bucket.where])) for dst in others]

    async def _sum(self, worker: Worker, iteration: int, bucket: Bucket, others: Sequence[int]) -> None:
        """Add what ``others`` push to the server's own ``bucket``, in rank order: sums are the same in every run."""
        await worker.scale(bucket.values, worker.samples / worker.total_samples)
        tag = Tag(kind="push", iteration=iteration, bucket=bucket.index)
        for src in others:
            await worker.accumulate(bucket.values, await tag.receive(worker, src, 0))
