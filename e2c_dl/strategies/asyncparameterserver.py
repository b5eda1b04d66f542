"""Parameter server, asynchronous: workers push updates to one rank's master copy, and wait for nobody but its link.

Source: Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014, sections 3 and 4.
Idea: what many workers share lives in one place; an update counts at once, whoever else is still computing.

1. Compute the gradient on the parameters pulled last, and step; the update u is how far the parameters moved.
2. Push u, weighted by b_i / sum(b). The server adds it to the master copy at once, while it trains itself.
3. Pull: the server answers each push with the master copy as it is then.

The staleness of an update is how many others the server has applied between the pull that its gradient was computed at
and itself.

Laws: the master copy ends at the first parameters plus all updates; no worker waits for another but through the
server's link; between two updates of a rank, its staleness counts those of all others that were applied meanwhile.

Differences from the paper: one server, which is also a worker; whole vectors instead of key ranges. Workers push
updates of the configured optimizer rather than gradients (for SGD without momentum the same but for eta), so that what
the optimizer remembers is each worker's own. One update of each rank moves the model as far as one synchronous
iteration does.
"""

from __future__ import annotations

from typing import ClassVar

from e2c_dl.strategies.base import Message, Vector, Worker
from e2c_dl.strategies.collectives.averaging import local_update
from e2c_dl.strategies.collectives.server import Served


class AsyncParameterServer(Served):
    """Push updates, pull the master copy, each at its own pace; see the module."""

    name: ClassVar[str] = "asyncparameterserver"
    asynchronous = True

    async def follow(self, worker: Worker) -> None:
        update = worker.zeros()
        async for iteration in worker.iterations():
            await local_update(worker, update, worker.samples / worker.total_samples)
            sent = worker.send(self._server, Message(kind="push", iteration=iteration, payload=update, adds=True))
            pulled = await worker.receive("pull", src=self._server, iteration=iteration)
            await worker.copy(worker.parameters, pulled.vector)
            await sent  # the next update is written where this one leaves from

    async def serve(self, worker: Worker) -> None:
        await _Master(worker).run()


class _Master:
    """The server: the master copy, changed by each update as it comes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._copy = worker.zeros()
        self._updates = 0  # that were applied to the copy
        self._read = [0] * worker.size  # by rank: how many the copy had when that rank's parameters were taken from it
        self._trained = False  # until then the parameters are read by gradients, which must not see them change

    async def run(self) -> None:
        worker, update = self._worker, self._worker.zeros()
        await worker.copy(self._copy, worker.parameters)
        worker.spawn(self._serve(), background=True)  # beside its own gradients: pushes wait for no iteration
        async for _ in worker.iterations():
            await local_update(worker, update, worker.samples / worker.total_samples)
            await self._apply(update, worker.rank)  # added: pushes changed the copy meanwhile
            self._read[worker.rank] = self._updates
            await worker.copy(worker.parameters, self._copy)
        self._trained = True
        await worker.copy(worker.parameters, self._copy)

    async def _serve(self) -> None:
        worker = self._worker
        others = [rank for rank in range(worker.size) if rank != worker.rank]
        while others:
            pushed = await worker.receive_any("push", sources=others)
            if pushed is None:  # after a timeout alone, and none is given
                continue
            await self._apply(pushed.vector, pushed.src)
            if self._trained:  # what is evaluated in the end holds every update
                await worker.copy(worker.parameters, self._copy)
            answer = worker.zeros()  # its own: the copy goes on changing while this one leaves
            self._read[pushed.src] = self._updates
            await worker.copy(answer, self._copy)
            worker.send(pushed.src, Message(kind="pull", iteration=pushed.iteration, payload=answer))

    async def _apply(self, update: Vector, src: int) -> None:
        staleness = self._updates - self._read[src]
        self._updates += 1  # before it is awaited: the copy changes at once, and others may read it meanwhile
        await self._worker.apply(self._copy, update, src=src, staleness=staleness)
