"""Parameter server: one rank keeps the master copy of the model; the others push gradients to it and pull parameters.

Source: Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014, sections 3 and 4.
Idea: what many workers share lives in one place; how long they wait for one another is a choice.

Synchronous (the default):

1. Compute the gradient of the local batch; weight each bucket by b_i / sum(b), and push it as soon as it is complete.
2. The server, which trains as well, adds what is pushed to its own bucket, in rank order, and steps.
3. Pull: the server sends the new parameters, bucket by bucket; each worker takes them over.

Asynchronous:

1. Compute the gradient on the parameters pulled last, and step; the update u is how far the parameters moved.
2. Push u, weighted by b_i / sum(b). The server adds it to the master copy at once, while it trains itself.
3. Pull: the server answers each push with the master copy as it is then.

Laws: synchronous equals single-process SGD on the concatenated batches (float64: 1e-9 over 100 iterations), and all
ranks end with the same parameters, to the bit; asynchronous, the master copy ends at the first parameters plus all
updates, and no worker waits for another but through the server's link.

Differences from the paper: one server, which is also a worker; whole vectors instead of key ranges. Asynchronous
workers push updates of the configured optimizer rather than gradients (for SGD without momentum the same but for eta),
so that what the optimizer remembers is each worker's own. One update of each rank moves the model as far as one
synchronous iteration does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Bucket, Message, Pending, Setting, Strategy, Worker
from e2c_dl.strategies.collectives import Tag
from e2c_dl.strategies.collectives.links import any_pair
from e2c_dl.strategies.collectives.local import local_update

MODES = ("synchronous", "asynchronous")


class ParameterServer(Strategy):
    """Push gradients, pull parameters; see the module."""

    name: ClassVar[str] = "parameterserver"
    exact_with: ClassVar[Mapping[str, Setting] | None] = {}

    def __init__(self, *, mode: str = "synchronous", server: int = 0) -> None:
        """``mode`` is synchronous or asynchronous; ``server`` is the rank that serves. Raises: InputError."""
        if mode not in MODES or server < 0:
            raise InputError(
                f"strategy 'parameterserver': mode is {mode!r}, server {server}; write {' or '.join(MODES)}, and a rank"
            )
        self._mode, self._server = mode, server

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Every pair: any rank may serve."""
        return any_pair(size)

    def used_links(self, layers: Sequence[str]) -> Sequence[tuple[int, int]]:
        self._check(len(layers))
        return [pair for pair in any_pair(len(layers)) if self._server in pair]

    async def run(self, worker: Worker) -> None:
        self._check(worker.size)
        if self._mode == "asynchronous":
            await (_Master(worker).run() if worker.rank == self._server else self._push_updates(worker))
        else:
            await (self._collect(worker) if worker.rank == self._server else self._push_gradients(worker))

    def _check(self, size: int) -> None:
        if self._server >= size:
            raise InputError(f"strategy 'parameterserver': server is {self._server}; write a rank from 0 to {size - 1}")

    async def _push_gradients(self, worker: Worker) -> None:
        """A worker, synchronously."""
        async for iteration in worker.iterations():
            buckets: list[Bucket] = []
            sent: list[Pending[None]] = []
            async for bucket in worker.gradient():
                await worker.scale(bucket.values, worker.samples / worker.total_samples)
                tag = Tag(kind="push", iteration=iteration, bucket=bucket.index)
                sent.append(worker.send(self._server, tag.message(0, bucket.values)))
                buckets.append(bucket)
            for bucket in buckets:
                tag = Tag(kind="pull", iteration=iteration, bucket=bucket.index)
                await worker.copy(worker.parameters[bucket.where], await tag.receive(worker, self._server, 0))
            for each in sent:
                await each

    async def _collect(self, worker: Worker) -> None:
        """The server, synchronously."""
        others = [rank for rank in range(worker.size) if rank != self._server]
        sent: list[Pending[None]] = []
        async for iteration in worker.iterations():
            buckets: list[Bucket] = []
            sums: list[Pending[None]] = []
            async for bucket in worker.gradient():
                buckets.append(bucket)
                sums.append(worker.spawn(self._sum(worker, iteration, bucket, others)))
            for each in sums:
                await each
            for each in sent:  # of the iteration before: the parameters change now
                await each
            await worker.step()
            sent = []
            for bucket in buckets:
                tag = Tag(kind="pull", iteration=iteration, bucket=bucket.index)
                sent += [worker.send(dst, tag.message(0, worker.parameters[bucket.where])) for dst in others]

    async def _sum(self, worker: Worker, iteration: int, bucket: Bucket, others: Sequence[int]) -> None:
        """Add what ``others`` push to the server's own ``bucket``, in rank order."""
        await worker.scale(bucket.values, worker.samples / worker.total_samples)
        tag = Tag(kind="push", iteration=iteration, bucket=bucket.index)
        for src in others:
            await worker.accumulate(bucket.values, await tag.receive(worker, src, 0))

    async def _push_updates(self, worker: Worker) -> None:
        """A worker, asynchronously."""
        update = worker.zeros()
        async for iteration in worker.iterations():
            await local_update(worker, update, worker.samples / worker.total_samples)
            sent = worker.send(self._server, Message(kind="push", iteration=iteration, payload=update))
            pulled = await worker.receive("pull", src=self._server, iteration=iteration)
            await worker.copy(worker.parameters, pulled.vector)
            await sent


class _Master:
    """The server, asynchronously: the master copy, changed by each update as it comes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._copy = worker.zeros()
        self._trained = False  # until then the parameters are read by gradients, which must not see them change

    async def run(self) -> None:
        worker, update = self._worker, self._worker.zeros()
        await worker.copy(self._copy, worker.parameters)
        worker.spawn(self._serve(), background=True)
        async for _ in worker.iterations():
            await local_update(worker, update, worker.samples / worker.total_samples)
            await worker.accumulate(self._copy, update)
            await worker.copy(worker.parameters, self._copy)
        self._trained = True
        await worker.copy(worker.parameters, self._copy)

    async def _serve(self) -> None:
        worker = self._worker
        others = [rank for rank in range(worker.size) if rank != worker.rank]
        while others:
            pushed = await worker.receive_any("push", sources=others)
            if pushed is None:
                continue
            await worker.accumulate(self._copy, pushed.vector)
            if self._trained:
                await worker.copy(worker.parameters, self._copy)
            answer = worker.zeros()  # its own: the copy goes on changing while this one leaves
            await worker.copy(answer, self._copy)
            worker.send(pushed.src, Message(kind="pull", iteration=pushed.iteration, payload=answer))
