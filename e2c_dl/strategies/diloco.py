"""DiLoCo: local training for H iterations, then one step of an outer optimizer on how far the models have moved.

Source: Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models" (arXiv:2311.08105, 2023),
Algorithm 1. Idea: the mean distance that all ranks went in H iterations is a gradient for the shared model; Nesterov
momentum on it makes up for synchronising a hundred times less.

1. Keep an anchor: the parameters theta that all ranks share.
2. For H iterations, train with the configured (inner) optimizer, by itself.
3. Outer gradient: delta = mean over ranks of (theta - w_i), all-reduced.
4. Outer SGD with Nesterov momentum: v <- mu v + delta; theta <- theta - lr (delta + mu v).
5. Go on from there: w_i <- theta.
6. With layers, inside a layer after every ``period_within`` iterations the models are averaged, and the outer step is
   taken over all after every ``period_between`` (collectives/averaging.py).

Laws: with H = 1, lr 1, mu 0 and plain SGD it equals Allreduce (float64: 1e-9 over 100 iterations); with lr 1 and mu 0
it equals Local SGD; with period_within = period_between it equals the flat form to rounding; after an outer step all
ranks hold the same parameters, to the bit.

The model is the mean of all ranks': after an outer step that is theta.

Differences from the paper: H is 50 by default, the paper's main results have 500; the inner optimizer is the scenario's
(the paper: AdamW), and what it remembers stays local, as there. Ranks count by the samples in their batches; the
paper's plain mean is ``weights: equal``, the same for equal batches. The paper's runs end with an outer step; one that
ends inside a period takes none on the rest of it. Layers are not the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Setting, Strategy, Vector, Worker, any_pair
from e2c_dl.strategies.collectives.averaging import Averaging, Scope, local_step, periods


class DiLoCo(Strategy):
    """Local steps, then an outer step on the difference of parameters; see the module."""

    name: ClassVar[str] = "diloco"
    exact_with: ClassVar[Mapping[str, Setting] | None] = {
        "period": 1, "outer_learning_rate": 1.0, "outer_momentum": 0.0,
    }  # fmt: skip

    def __init__(
        self, *, period: int = 50, period_within: int = 0, period_between: int = 0, weights: str = "samples",
        outer_learning_rate: float = 0.7, outer_momentum: float = 0.9,
    ) -> None:  # fmt: skip
        """Periods in iterations; ``weights`` is samples or equal. Raises: InputError."""
        if not outer_learning_rate > 0 or not 0 <= outer_momentum < 1:
            said = f"outer_learning_rate is {outer_learning_rate}, outer_momentum {outer_momentum}"
            remedy = "write a rate above 0 and a momentum from 0 to less than 1"
            raise InputError(f"strategy 'diloco': {said}; {remedy}")
        self._rate, self._momentum = outer_learning_rate, outer_momentum
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
        anchor, velocity, delta = worker.zeros(), worker.zeros(), worker.zeros()
        await worker.copy(anchor, worker.parameters)
        async for iteration in worker.iterations():
            await local_step(worker)
            scope = self._averaging.scope_after(iteration)
            if scope is Scope.LAYER:  # without an outer step: the anchor is one for all ranks
                await self._averaging.mean(worker, worker.parameters, iteration, scope)
            elif scope is Scope.ALL:  # all ranks keep the velocity alike: their deltas are one after the mean
                await worker.copy(delta, anchor)  # back to the anchor: as a gradient, it points against the way
                await worker.accumulate(delta, worker.parameters, -1.0)
                await self._averaging.mean(worker, delta, iteration, scope, adds=True)
                await self._outer_step(worker, anchor, velocity, delta)

    async def _outer_step(self, worker: Worker, anchor: Vector, velocity: Vector, delta: Vector) -> None:
        """Move ``anchor`` against ``delta`` by SGD with Nesterov momentum; the parameters follow."""
        await worker.scale(velocity, self._momentum)
        await worker.accumulate(velocity, delta)  # before the anchor: Nesterov steps with the new velocity
        await worker.accumulate(anchor, delta, -self._rate)
        await worker.accumulate(anchor, velocity, -self._rate * self._momentum)
        await worker.copy(worker.parameters, anchor)  # from here, so that all start the next period alike
