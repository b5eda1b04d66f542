"""Local SGD: every rank trains by itself for H iterations; then all average their models.

Source: Stich, "Local SGD converges fast and communicates little", ICLR 2019 (arXiv:1805.09767), Algorithm 1. Idea:
models that start together stay close for a while, so averaging them every H iterations loses little and sends H times
less.

1. Compute the gradient g_i of the local batch, and step: w_i <- w_i - eta * g_i.
2. After every H-th iteration, average: w_i <- sum_j(b_j w_j) / sum_j(b_j), b_j the samples in the batch of rank j.
3. With layers: inside a layer after every ``period_within`` iterations, over all after every ``period_between``
   (collectives/averaging.py).

Laws: with H = 1 and plain SGD it equals Allreduce (float64: 1e-9 over 100 iterations), also for unequal batches; with
period_within = period_between it equals the flat form to rounding; after an average over all, the ranks that took part
hold the same parameters.

The model is the mean of all ranks' after the last iteration, as in the paper, whatever H.

Differences from the paper: the paper averages all ranks alike, which is ``weights: equal``; its last average is sent as
the others are, here a run that ends inside a period leaves it to who collects the model. What the optimizer remembers
(momentum) stays local, as in torch's PostLocalSGDOptimizer. Layers are not the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from e2c_dl.strategies.base import Setting, Strategy, Worker, any_pair
from e2c_dl.strategies.collectives.averaging import Averaging, local_step, periods


class LocalSGD(Strategy):
    """Local steps, then an average of models; see the module."""

    name: ClassVar[str] = "localsgd"
    exact_with: ClassVar[Mapping[str, Setting] | None] = {"period": 1}

    def __init__(
        self, *, period: int = 4, period_within: int = 0, period_between: int = 0, weights: str = "samples"
    ) -> None:
        """Periods in iterations; ``weights`` is samples or equal. Raises: InputError."""
        self._averaging = Averaging(
            strategy=self.name, period=period, period_within=period_within, period_between=period_between,
            weights=weights,
        )  # fmt: skip
        self.cycle = self._averaging.cycle

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Every pair: layers decide which."""
        return any_pair(size)  # a class does not know its settings

    @classmethod
    def tried(cls, layers: Sequence[str], iterations: int) -> Sequence[Mapping[str, Setting]]:
        return periods(layers, iterations)

    def used_links(self, layers: Sequence[str]) -> Sequence[tuple[int, int]]:
        return self._averaging.links(layers)

    def model_weights(self, samples: Sequence[int]) -> Sequence[float]:
        """The mean of all models, which a run that ends inside a period has not brought together."""
        return self._averaging.weights_of(samples)

    async def run(self, worker: Worker) -> None:
        async for iteration in worker.iterations():
            await local_step(worker)
            scope = self._averaging.scope_after(iteration)
            if scope is not None:  # None: this iteration sends nothing
                await self._averaging.mean(worker, worker.parameters, iteration, scope)
