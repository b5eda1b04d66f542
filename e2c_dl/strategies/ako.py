"""Ako: in every iteration a rank sends all others one part of its accumulated gradient, and waits for nobody.

Source: Watcharapichat, Morales, Fernandez and Pietzuch, "Ako: Decentralised Deep Learning with Partial Gradient
Exchange", SoCC 2016, section 3. Idea: of a gradient that is cut into p parts, each iteration sends one; what was not
sent is accumulated, so that nothing is lost, and a link carries 1/p of the bytes.

In iteration k a rank

1. computes its gradient, weighted by b_i / sum(b), and adds it to what it owes;
2. sends all others part k mod p of what it owes, which is then owed no more;
3. adds the parts that have come from others meanwhile to its own gradient; step.

Nobody waits for a part: after its last iteration a rank says so, adds up what still comes until all have said so, and
applies that in one step.
A rank sends on when a whole round of its parts has left: so a link never holds more than one gradient.

The staleness of an update is how many iterations of its own the oldest part in it is behind.

Laws: what was sent and what is owed add up to all of a rank's gradients, part by part exactly; every part is sent once
in p iterations; a slow rank slows nobody down but through links.

Differences from the paper: ``partitions`` is a setting, not computed from the bandwidth (the default is not the
paper's: it has none). Parts are equal in length. A rank applies the parts of others together with its own gradient,
so that they pass the configured optimizer, and the weights make one round equal one synchronous iteration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Message, Pending, Strategy, Vector, Worker, any_pair
from e2c_dl.strategies.collectives import split

ENDED = 1  # step of a rank's last message: nothing more comes


class Ako(Strategy):
    """Partial gradients, round robin; see the module."""

    name: ClassVar[str] = "ako"
    asynchronous = True

    def __init__(self, *, partitions: int = 4) -> None:
        """Raises: InputError, unless ``partitions`` is at least 1."""
        if partitions < 1:
            raise InputError(f"strategy 'ako': partitions is {partitions}; write 1 or more")
        self._partitions = partitions

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Every pair: all send to all."""
        return any_pair(size)

    def model_weights(self, samples: Sequence[int]) -> Sequence[float]:
        """The mean of all models: each has applied the others' gradients at other times."""
        return [1 / len(samples)] * len(samples)

    async def run(self, worker: Worker) -> None:
        await _Rank(worker, self._partitions).run()


class _Rank:
    """One rank, and what it owes the others."""

    def __init__(self, worker: Worker, partitions: int) -> None:
        self._worker, self._partitions = worker, partitions
        self._others = [rank for rank in range(worker.size) if rank != worker.rank]
        self._open = set(self._others)  # those of which more may come
        self._owed = worker.zeros()
        self._leaving: deque[list[Pending[None]]] = deque()  # by iteration

    async def run(self) -> None:
        worker, done = self._worker, 0
        async for iteration in worker.iterations():
            async for _ in worker.gradient():
                pass
            await worker.scale(worker.gradients, worker.samples / worker.total_samples)
            await worker.accumulate(self._owed, worker.gradients)
            await self._send(iteration)
            came = worker.zeros()
            oldest = await self._take(came)
            staleness = max(0, iteration - oldest) if oldest is not None else 0  # the fast send parts from ahead
            await worker.apply(came, worker.gradients, src=worker.rank, staleness=staleness)
            await worker.copy(worker.gradients, came)
            await worker.step()
            done = iteration + 1
        await self._end(done)

    async def _send(self, iteration: int) -> None:
        """Send the part whose turn it is; wait for room, if a whole round has not left yet."""
        worker, place = self._worker, iteration % self._partitions
        part = split(self._owed, self._partitions)[place]
        leaving = worker.zeros(len(part))
        await worker.copy(leaving, part)
        await worker.copy(part, worker.zeros(len(part)))
        message = Message(kind="part", iteration=iteration, bucket=place, payload=leaving, adds=True)
        self._leaving.append([worker.send(dst, message) for dst in self._others])
        if len(self._leaving) > self._partitions:
            for each in self._leaving.popleft():
                await each

    async def _take(self, into: Vector) -> int | None:
        """Add the parts that are there to ``into``; the iteration of the oldest, None: there is none."""
        came = [message for message in self._worker.arrived("part") if await self._add(message, into)]
        return min((message.iteration for message in came), default=None)

    async def _add(self, message: Message, into: Vector) -> bool:
        """Whether ``message`` had a part, which is then added to ``into``; else its source has ended."""
        if message.step == ENDED:
            self._open.discard(message.src)
            return False
        await self._worker.accumulate(split(into, self._partitions)[message.bucket], message.vector)
        return True

    async def _end(self, done: int) -> None:
        """Tell all others that nothing more comes, and apply what they sent until they said so."""
        worker = self._worker
        for dst in self._others:
            worker.send(dst, Message(kind="part", iteration=done, step=ENDED))  # behind this rank's parts on that link
        rest = worker.zeros()
        more = await self._take(rest) is not None
        while self._open:  # as they come: a slow rank may send more than may wait
            message = await worker.receive_any("part", sources=sorted(self._open))
            more |= message is not None and await self._add(message, rest)
        if more:
            await worker.copy(worker.gradients, rest)
            await worker.step()
