"""AD-PSGD: every rank goes at its own pace, and averages its model with one neighbour's while it computes.

Source: Lian, Zhang, Zhang and Liu, "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018
(arXiv:1710.06952), Algorithm 1 and section 3 (implementation). Idea: nobody waits for the slowest; pairwise averages
spread what each rank learns.

The ranks stand on a ring. Even ranks are active, odd ones passive, and only an active rank and a passive neighbour
average: a passive one answers whenever it is asked, an active one waits for one answer only, so no circle of ranks can
wait for one another. Of an odd number of ranks, the first and the last (both even) are no neighbours.

1. Take a snapshot of the model x_i; compute the gradient on it, and step; the update u is how far the snapshot moved.
2. Meanwhile, an active rank sends x_i to a random neighbour j;
3. which computes d = (x_j - x_i) / 2, takes it off its own model, x_j <- x_j - d, and answers with d;
4. the active rank adds it: x_i <- x_i + d.
5. When the gradient and the exchange are done: x_i <- x_i + u.

With ``route_around`` it hears verdicts while it trains: a neighbour, the links to and from which are f times slower
(the product of both), is asked at most once in f^2 exchanges, as long as another is there to ask. So trying it costs
about 1/f of what a fast one does, and tells when it is well again.

The staleness of an update is how many averages have changed the model between its snapshot and the update. (The paper
counts all updates of all ranks since then: nobody knows these while training.)

Laws: an average preserves the mean of all models, whatever happens beside it, for it adds to one what it takes off the
other; no deadlock; a slow rank slows its neighbours down only by its answers' way.

Whom a rank asks is drawn without a look at models: whomever it draws, each average is of a pair and weighs both alike
(a doubly stochastic matrix), and none is left out for ever, so models still come together.

Differences from the paper: neighbours need not be equally likely. It locks the model while two ranks average; here the
difference is added, so that a gradient which is applied meanwhile is kept. Models are averaged once per iteration of an
active rank, as there. An update counts by its rank's samples, n b_i / sum(b): 1 for equal batches. The step is the
configured optimizer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from e2c_dl.strategies.base import Message, Strategy, Vector, Verdict, Worker
from e2c_dl.strategies.collectives.averaging import local_update


class ADPSGD(Strategy):
    """Averages of pairs beside local training; see the module."""

    name: ClassVar[str] = "adpsgd"
    asynchronous = True

    def __init__(self, *, route_around: bool = False) -> None:
        self.hears_verdicts = route_around

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Both ways between each active rank and its passive neighbours."""
        return [(rank, other) for rank in range(size) for other in neighbours(rank, size)]

    def model_weights(self, samples: Sequence[int]) -> Sequence[float]:
        """The average of all models, as in the paper's theorem."""
        return [1 / len(samples)] * len(samples)

    async def run(self, worker: Worker) -> None:
        rank = _Rank(worker, Routes(worker) if self.hears_verdicts else None)
        await worker.copy(rank.model, worker.parameters)
        if rank.passive:
            worker.spawn(rank.answer(), background=True)  # until all are done: an active neighbour may be the slower
        await rank.train()


class _Rank:
    """One rank's model, which its own training and its averages with others change."""

    def __init__(self, worker: Worker, routes: Routes | None) -> None:
        self._routes = routes  # None: any neighbour, each as likely
        self.model = worker.zeros()  # the parameters are its snapshot: a gradient must not see them change
        self.passive = worker.rank % 2 == 1
        self._worker = worker
        self._neighbours = neighbours(worker.rank, worker.size)
        self._trained = False
        self._averages = 0  # that changed the model since the parameters were taken from it

    async def train(self) -> None:
        worker, update, leaving = self._worker, self._worker.zeros(), self._worker.zeros()
        async for iteration in worker.iterations():
            average = None
            if self._neighbours and not self.passive:
                other = self._neighbours[self._drawn()]
                average = worker.spawn(self._ask(iteration, other, leaving))  # beside the gradient, which hides its way
            await local_update(worker, update, worker.size * worker.samples / worker.total_samples)
            if average is not None:
                await average
            # added, not copied: averages changed the model meanwhile
            await worker.apply(self.model, update, src=worker.rank, staleness=self._averages)
            self._averages = 0
            await worker.copy(worker.parameters, self.model)
        self._trained = True  # no gradient reads the parameters any more: answers may change them
        await worker.copy(worker.parameters, self.model)

    def _drawn(self) -> int:
        """Which neighbour to average with."""
        if self._routes is None:
            return int(self._worker.random.integers(len(self._neighbours)))
        return self._routes.drawn(self._neighbours)

    async def answer(self) -> None:
        """Average with whoever asks, for as long as anybody may."""
        worker = self._worker
        while True:
            asked = await worker.receive_any("ask", sources=self._neighbours)
            if asked is None:  # after a timeout alone, and none is given
                continue
            half = worker.zeros()  # its own: others may ask while this one leaves
            await self._halve(half, asked.vector)
            worker.send(asked.src, Message(kind="answer", iteration=asked.iteration, payload=half))

    async def _ask(self, iteration: int, other: int, leaving: Vector) -> None:
        """Average with ``other``. ``leaving`` is room for the model as it is sent."""
        worker = self._worker
        await worker.copy(leaving, self.model)
        sent = worker.send(other, Message(kind="ask", iteration=iteration, payload=leaving))
        came = await worker.receive("answer", src=other, iteration=iteration)
        self._averages += 1
        await worker.accumulate(self.model, came.vector)
        await sent  # ``leaving`` is written again by the next

    async def _halve(self, half: Vector, asked: Vector) -> None:
        """``half`` becomes half the difference to ``asked``, and leaves this model."""
        worker = self._worker
        await worker.copy(half, self.model)
        await worker.accumulate(half, asked, -1.0)
        await worker.scale(half, 0.5)
        self._averages += 1
        await worker.accumulate(self.model, half, -1.0)  # what one gives the other gets: the mean of all stays
        if self._trained:
            await worker.copy(worker.parameters, self.model)


class Routes:
    """Draws of neighbours among those behind links that are as designed; of the others now and then, by the verdict."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._last = Verdict(slow=())
        self._left_alone = [0] * worker.size  # exchanges since the last with each, by rank

    def drawn(self, neighbours: Sequence[int]) -> int:
        """The place of one of ``neighbours``."""
        rank = self._worker.rank
        self._last = next(iter(reversed(self._worker.verdicts())), self._last)
        slower = [self._last.factor(rank, other) * self._last.factor(other, rank) for other in neighbours]
        for other in neighbours:
            self._left_alone[other] += 1
        due = [self._left_alone[other] >= times**2 for other, times in zip(neighbours, slower, strict=True)]
        fit = [place for place, times in enumerate(slower) if (due[place] if any(due) else times == min(slower))]
        chosen = fit[int(self._worker.random.integers(len(fit)))]
        self._left_alone[neighbours[chosen]] = 0
        return chosen


def neighbours(rank: int, size: int) -> list[int]:
    """The ranks beside ``rank`` on the ring of ``size`` that it may average with: one of both is even, one odd."""
    beside = sorted({(rank - 1) % size, (rank + 1) % size})  # a set: of two ranks both sides are one
    return [other for other in beside if (other - rank) % 2 == 1]
