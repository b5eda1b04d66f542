"""Fast links: ranks average with neighbours over the fastest links only, as few as still bring all models together.

Source: Lian, Zhang, Zhang, Hsieh, Zhang and Liu, "Can decentralized algorithms outperform centralized algorithms?",
NeurIPS 2017 (D-PSGD), Algorithm 1; which links: collectives/fastest.py. Idea: an average over neighbours is as slow as
the slowest link that it uses, and a graph of a few fast ones mixes well enough.

1. Send the model x_i to all neighbours, tagged with the iteration; compute the gradient on it meanwhile; the update u_i
   is what the step makes of it.
2. When all neighbours' models of this iteration are there: x_i <- sum_j W_ij x_j + u_i, W Metropolis's weights.
3. In iteration 0, and again every ``period``, all ranks are neighbours. Each then tells all others the rates that its
   links had, as measured; so all choose the same links, by the slower way of each: a spanning tree of the fastest, and
   more of them, fastest first, until the spectral gap of W is at least ``gap``.

Laws: an average preserves the mean of all models; the graph is connected and its gap as asked (of all links together
the gap is 1, so that there always is one); all ranks use the same graph.

Differences from the paper: there the graph is given. A link that a whole model did not fill has no rate, and counts as
faster than all that have one. An update counts by its rank's samples, n b_i / sum(b): 1 for equal batches. Every
``period`` costs an exchange over all links, the slow ones too: without it, nobody would know that they are well again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Message, Setting, Strategy, Vector, Worker, any_pair
from e2c_dl.strategies.collectives.averaging import local_update
from e2c_dl.strategies.collectives.fastest import fastest, slower_ways
from e2c_dl.strategies.collectives.graph import weights
from e2c_dl.strategies.collectives.rates import measured_rates


class FastLinks(Strategy):
    """Averages over the fastest links beside local training; see the module."""

    name: ClassVar[str] = "fastlinks"
    adapts_to_links = True

    def __init__(self, *, gap: float = 0.2, period: int = 50) -> None:
        """``gap``: least spectral gap; ``period``: iterations between choices, 0: only one. Raises: InputError."""
        if not 0 < gap <= 1:
            raise InputError(f"strategy 'fastlinks': gap is {gap}; write more than 0, at most 1")
        if period < 0:
            raise InputError(f"strategy 'fastlinks': period is {period}; write 0 or more iterations")
        self.gap, self._period, self.cycle = gap, period, max(1, period)

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Every pair: what is measured decides which."""
        return any_pair(size)

    @classmethod
    def tried(cls, layers: Sequence[str], iterations: int) -> Sequence[Mapping[str, Setting]]:
        return [{"gap": gap} for gap in (0.1, 0.4)]

    def model_weights(self, samples: Sequence[int]) -> Sequence[float]:
        """The average of all models, as in the paper's theorem."""
        return [1 / len(samples)] * len(samples)

    def measures_in(self, iteration: int) -> bool:
        """Whether all ranks are neighbours in ``iteration``, and choose links after it."""
        return iteration == 0 or (self._period > 0 and iteration % self._period == 0)

    async def run(self, worker: Worker) -> None:
        everyone = any_pair(worker.size)
        model, leaving, update = worker.zeros(), worker.zeros(), worker.zeros()
        await worker.copy(model, worker.parameters)
        chosen = everyone
        async for iteration in worker.iterations():
            measures = self.measures_in(iteration)
            row = weights(everyone if measures else chosen, worker.rank)
            others = sorted(row.keys() - {worker.rank})
            await worker.copy(leaving, model)
            message = Message(kind="model", iteration=iteration, payload=leaving)
            sent = [worker.send(other, message) for other in others]
            await local_update(worker, update, worker.size * worker.samples / worker.total_samples)
            await _average(worker, model, row, iteration)
            await worker.accumulate(model, update)
            await worker.copy(worker.parameters, model)
            for each in sent:  # the next model leaves from there
                await each
            if measures:
                chosen = fastest(worker.size, slower_ways(await measured_rates(worker, iteration)), self.gap).directed


async def _average(worker: Worker, model: Vector, row: Mapping[int, float], iteration: int) -> None:
    """``model`` becomes the mean by ``row``, of this iteration's models."""
    await worker.scale(model, row[worker.rank])
    for src in sorted(row.keys() - {worker.rank}):  # in rank order: sums of floats depend on it
        came = await worker.receive("model", src=src, iteration=iteration)
        await worker.accumulate(model, came.vector, row[src])
