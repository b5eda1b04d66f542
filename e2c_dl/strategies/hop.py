"""Hop: every rank averages its model with its neighbours' on a graph, and is never more than so many iterations ahead.

Source: Luo, Lin, Zhuo and Qian, "Hop: Heterogeneity-aware Decentralized Training", ASPLOS 2019 (arXiv:1902.01064),
sections 3 to 5. Idea: nobody is the centre, so nobody need wait for the slowest but its neighbours; queues say how long
they do.

In iteration k a rank

1. inserts a token into its queue of each in-neighbour, and sends its out-neighbours its model x, tagged k;
2. computes its gradient on x, which leads to the update u;
3. waits for the models of its in-neighbours that are tagged k, and averages them with its own (doubly stochastic
   weights, collectives/graph.py); then x <- average + u;
4. takes one token from the queue that each out-neighbour keeps for it, waiting for those that are empty, and goes on.

A queue begins with max_ig - 1 tokens. Rank j has taken k to be in iteration k, and i has inserted one for each of its
iterations, the first included: so k <= max_ig + that of i, and some order of events reaches it.

``max_ig``: 0 keeps no tokens. ``backup_workers`` b: step 3 goes on with the models of all but b in-neighbours, and
takes the others' if they are there. ``staleness`` s: step 3 takes the newest model of each with a tag of k - s or
later, which counts (tag - (k - s) + 1) times as much. ``max_jump``: a rank all of whose out-neighbours are ahead, as
their tokens show, skips as many iterations, at most so many at once; it first averages the models tagged with the last
of those with its own, and sends none of them. As all whom it sends to are past them, nobody waits for what was skipped.

A rank that has ended says so: it is waited for no more, and its queues never empty.

Laws: a rank is never ahead of one that it sends to by more than max_ig; without backup workers, of one that it hears
from by more than s + 1: along a path, by the sum. Without backup workers and staleness, what is computed does not
depend on speeds, and the average preserves the mean of all models. Every order of events ends
(tests/laws/test_hop_laws.py, benchmarks/schedules).

The staleness of an update is how many iterations behind the oldest model in its average was; its gradient is never
stale: it is of the same x that enters the average.

Differences from the paper: tokens are sent to who takes them, not fetched, so that a queue is short by those on their
way. A model that was averaged may be so again while it is the newest there is (staleness). The defaults (ring-based,
max_ig 4, one backup worker) and what triggers a jump are not verified against the paper's text. Of unequal degrees,
weights are Metropolis's. An update counts by its rank's samples, n b_i / sum(b): 1 for equal batches. The step is the
configured optimizer's. Skipped iterations count as iterations of their rank, and draw on a budget of updates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Message, Pending, Strategy, Vector, Worker
from e2c_dl.strategies.collectives.averaging import local_update
from e2c_dl.strategies.collectives.graph import GRAPHS, edges, into, out_of, weights

ENDED = 1  # step of a rank's last messages


class Hop(Strategy):
    """Averages with neighbours, bounded by tokens; see the module."""

    name: ClassVar[str] = "hop"
    asynchronous = True

    def __init__(
        self, *, graph: str = "ring-based", max_ig: int = 4, backup_workers: int = 1, staleness: int = 0,
        max_jump: int = 0,
    ) -> None:  # fmt: skip
        """Raises: InputError, for a graph that there is not, a number below 0, and jumps without tokens."""
        if graph not in GRAPHS:
            raise InputError(f"strategy 'hop': graph is {graph!r}; write one of {', '.join(GRAPHS)}")
        self.graph, self.max_ig, self.backup_workers = graph, max_ig, backup_workers
        self.staleness, self.max_jump = staleness, max_jump
        for name in ("max_ig", "backup_workers", "staleness", "max_jump"):
            if getattr(self, name) < 0:
                raise InputError(f"strategy 'hop': {name} is {getattr(self, name)}; write 0 or more")
        if not max_ig and (backup_workers or max_jump):
            raise InputError(
                "strategy 'hop': without tokens (max_ig: 0) nothing bounds how far ranks get ahead of those that they "
                "do not wait for, and none sees that it is behind; write backup_workers: 0 and max_jump: 0, or a max_ig"
            )
        self.skips_iterations = bool(max_jump)
        self.asynchronous = bool(backup_workers or staleness)  # else all wait for the same models, however late

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Those of any graph, and back, for tokens."""
        return sorted({way for graph in GRAPHS for link in edges(graph, size) for way in (link, link[::-1])})

    def used_links(self, layers: Sequence[str]) -> Sequence[tuple[int, int]]:
        models = edges(self.graph, len(layers))
        return sorted({*models, *(link[::-1] for link in models if self.max_ig)})

    def model_weights(self, samples: Sequence[int]) -> Sequence[float]:
        """The average of all models, as in the paper's theorem."""
        return [1 / len(samples)] * len(samples)

    async def run(self, worker: Worker) -> None:
        await _Rank(worker, self).train()


class _Rank:
    """One rank's model, and what it has of its neighbours."""

    def __init__(self, worker: Worker, hop: Hop) -> None:
        links = edges(hop.graph, worker.size)
        self._worker, self._jump = worker, hop.max_jump
        self._out = out_of(links, worker.rank)
        self._models = Models(worker, into(links, worker.rank), backup=hop.backup_workers, staleness=hop.staleness)
        self._tokens = Tokens(worker, self._models.sources, self._out, hop.max_ig)
        self._weights = weights(links, worker.rank)
        self._model, self._leaving = worker.zeros(), worker.zeros()
        self._skip_until = 0

    async def train(self) -> None:
        worker, update = self._worker, self._worker.zeros()
        await worker.copy(self._model, worker.parameters)
        async for iteration in worker.iterations():
            if iteration < self._skip_until:
                continue
            self._tokens.insert(iteration)
            sent = await self._send(iteration)
            await local_update(worker, update, worker.size * worker.samples / worker.total_samples)
            oldest = await self._average(iteration)
            await worker.apply(self._model, update, src=worker.rank, staleness=iteration - oldest)
            await worker.copy(worker.parameters, self._model)
            for each in sent:  # the next models are sent from there
                await each
            await self._tokens.remove(iteration + 1)
            await self._jump_ahead(iteration + 1)
        await self._end()

    async def _send(self, iteration: int) -> list[Pending[None]]:
        if self._out:
            await self._worker.copy(self._leaving, self._model)
        message = Message(kind="model", iteration=iteration, payload=self._leaving)
        return [self._worker.send(dst, message) for dst in self._out]

    async def _average(self, iteration: int) -> int:
        """Average with the models of ``iteration``; returns the tag of the oldest."""
        found = await self._models.of(iteration)
        oldest = iteration
        fresh = self._models.freshness(iteration, iteration)
        shares = {self._worker.rank: self._weights[self._worker.rank] * fresh}
        for src, (tag, _) in found.items():
            oldest = min(oldest, tag)
            shares[src] = self._weights[src] * self._models.freshness(tag, iteration)
        whole = sum(shares.values())  # not 1, if some are left out
        await self._worker.scale(self._model, shares[self._worker.rank] / whole)
        for src, (_, values) in found.items():
            await self._worker.accumulate(self._model, values, shares[src] / whole)
        return oldest

    async def _jump_ahead(self, iteration: int) -> None:
        """Skip iterations from ``iteration`` on, which would be the next, if all out-neighbours are past them."""
        ahead = min(self._jump, self._tokens.ahead(iteration)) if self._jump and self._out else 0
        if ahead <= 0:
            return
        self._skip_until = iteration + ahead
        await self._average(self._skip_until - 1)
        await self._worker.copy(self._worker.parameters, self._model)
        await self._tokens.remove(self._skip_until)

    async def _end(self) -> None:
        for dst in self._out:
            self._worker.send(dst, Message(kind="model", step=ENDED))
        self._tokens.end()
        await self._models.rest()
        await self._tokens.rest()


class Queue(ABC):
    """What came from ``sources`` in messages of one kind, until each has said that it has ended."""

    def __init__(self, worker: Worker, kind: str, sources: Sequence[int]) -> None:
        self.sources = sources
        self._worker, self._kind = worker, kind
        self._ended: dict[int, bool] = dict.fromkeys(sources, False)

    async def rest(self) -> None:
        """Take what still comes. Raises: PeerLost."""
        for src in self.sources:
            while not self._ended[src]:
                await self._await([src])
        self._arrived()

    async def _await(self, sources: Sequence[int]) -> None:
        """Wait for one message of any of ``sources``. Raises: PeerLost."""
        message = await self._worker.receive_any(self._kind, sources=sources)
        if message is not None:  # never without a timeout
            self._put(message)

    def _arrived(self) -> None:
        for message in self._worker.arrived(self._kind):
            self._put(message)

    def _put(self, message: Message) -> None:
        if message.step == ENDED:
            self._ended[message.src] = True
        else:
            self._keep(message)

    @abstractmethod
    def _keep(self, message: Message) -> None: ...


class Models(Queue):
    """Update queue: what came of the models of ``sources``, by source and tag."""

    def __init__(self, worker: Worker, sources: Sequence[int], *, backup: int, staleness: int) -> None:
        super().__init__(worker, "model", sources)
        self._backup, self._staleness = backup, staleness
        self._waiting: dict[int, dict[int, Vector]] = {src: {} for src in sources}

    async def of(self, iteration: int) -> dict[int, tuple[int, Vector]]:
        """Source -> tag and model, of as many as must be there for ``iteration``, and of those that are, by rank.

        Older ones are forgotten. Raises: PeerLost.
        """
        self._arrived()
        while len(missing := self._missing(iteration)) > self._backup:
            await self._await(missing)
            self._arrived()
        found: dict[int, tuple[int, Vector]] = {}
        for src in self.sources:
            tag = self._fit(src, iteration)
            if tag is not None:
                found[src] = tag, self._waiting[src][tag]
        for src, models in self._waiting.items():
            oldest = max(models, default=0) if self._staleness else iteration + 1  # what a later average may take
            self._waiting[src] = {tag: model for tag, model in models.items() if tag >= oldest}
        return found

    def freshness(self, tag: int, iteration: int) -> int:
        """How much a model counts in an average of ``iteration``."""
        return tag - (iteration - self._staleness) + 1 if self._staleness else 1

    def _missing(self, iteration: int) -> list[int]:
        """Whose model an average of ``iteration`` lacks; one that has ended sends none any more."""
        return [src for src in self.sources if not self._ended[src] and self._fit(src, iteration) is None]

    def _fit(self, src: int, iteration: int) -> int | None:
        """The tag of the model of ``src`` that an average of ``iteration`` takes, if it is there."""
        tags = self._waiting[src]
        if not self._staleness:
            return iteration if iteration in tags else None
        return max((tag for tag in tags if tag >= iteration - self._staleness), default=None)

    def _keep(self, message: Message) -> None:
        self._waiting[message.src][message.iteration] = message.vector


class Tokens(Queue):
    """Token queues: tokens for ``takers``, who send to this rank, and those of ``givers``, whom it sends to.

    ``most``: max_ig; 0: there are none.
    """

    def __init__(self, worker: Worker, takers: Sequence[int], givers: Sequence[int], most: int) -> None:
        self._takers, self._givers = (takers, givers) if most else ((), ())
        super().__init__(worker, "token", self._givers)
        self._most = most
        self._left = dict.fromkeys(self._givers, most - 1)  # in each giver's queue
        self._inserted = self._removed = 0

    def insert(self, iteration: int) -> None:
        """One token into each queue for every iteration until this one that has none yet."""
        count = iteration + 1 - self._inserted
        self._inserted = iteration + 1
        for dst in self._takers:
            self._worker.send(dst, Message(kind="token", iteration=iteration, bucket=count))

    async def remove(self, iteration: int) -> None:
        """Take as many tokens from each queue as allow ``iteration``, waiting for them. Raises: PeerLost."""
        self._arrived()
        count = iteration - self._removed
        self._removed = iteration
        for src in self._givers:
            while self._left[src] < count and not self._ended[src]:
                await self._await([src])
            self._left[src] -= count
        self._arrived()

    def ahead(self, iteration: int) -> int:
        """How many iterations past ``iteration`` all givers that train are, as the tokens left show."""
        left = [self._left[src] for src in self._givers if not self._ended[src]]
        return min(left) - (self._most + iteration - self._removed) if left else 0

    def end(self) -> None:
        for dst in self._takers:
            self._worker.send(dst, Message(kind="token", step=ENDED))

    def _keep(self, message: Message) -> None:
        self._left[message.src] += message.bucket
