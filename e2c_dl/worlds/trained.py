"""Trained models: what a strategy's ranks have trained together, which is evaluated in the end, and saved.

::

    allreduce, butterfly           every rank holds it
    (async)parameterserver         the server does
    localsgd, diloco, adpsgd       the mean of all ranks' parameters: sum of weight * parameters

While it trains, rank 0 evaluates its own parameters: to bring others together then would cost what is being measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from e2c_dl import strategies
from e2c_dl.scenario.model import Training
from e2c_dl.strategies.base import Strategy, Vector

CURVE_RANK = 0
"""Who evaluates while training, and who is given the model in the end."""

EVERY_RANKS = "every rank's parameters"


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """Where the model of a run is: ``weights`` of all ranks' parameters; None: every rank holds it."""

    weights: tuple[float, ...] | None

    @classmethod
    def of(cls, strategy: Strategy, samples: Sequence[int]) -> TrainedModel:
        """That of ``strategy``, whose ranks' last batches had so many ``samples``."""
        weights = strategy.model_weights(samples)
        return cls(weights=None if weights is None else tuple(weights))

    @property
    def holders(self) -> tuple[int, ...]:
        """The ranks whose parameters it is made of, sorted; where all hold it, the one that evaluates."""
        weights = self.weights or (1.0,)
        return tuple(rank for rank, weight in enumerate(weights) if weight)

    def assembled(self, parameters: Callable[[int], Vector]) -> Vector:
        """It, from the ``parameters`` of its holders, asked for by rank, in order: the same bits in every world."""
        first, *others = self.holders
        assembling = Assembling(self, parameters(first))
        for rank in others:
            assembling.add(rank, parameters(rank))
        return assembling.model()

    def described(self) -> str:
        """Whose parameters it is, in a few words."""
        if self.weights is None:
            return EVERY_RANKS
        if len(self.holders) == 1:
            return f"rank {self.holders[0]}'s parameters"
        by = "" if len(set(self.weights)) == 1 else ", by samples"
        return f"the mean of all ranks' parameters{by}"

    @property
    def curve(self) -> str:
        """Whose parameters are evaluated while training."""
        return EVERY_RANKS if self.weights is None else f"rank {CURVE_RANK}'s parameters"


class Assembling:
    """``model`` under way, of which one holder's parameters are there at a time: added in order of ranks."""

    def __init__(self, model: TrainedModel, first: Vector) -> None:
        self._weights, self._first = model.weights or (1.0,), first
        self._total = None if len(model.holders) == 1 else self._weights[model.holders[0]] * first.astype(np.float64)

    def add(self, rank: int, parameters: Vector) -> None:
        """Add those of ``rank``, the next holder."""
        if self._total is not None:
            self._total += self._weights[rank] * parameters.astype(np.float64)

    def model(self) -> Vector:
        """The model, once all are added."""
        if self._total is None:
            return self._first
        assembled: Vector = self._total.astype(self._first.dtype)
        return assembled


def trained_model(training: Training) -> TrainedModel:
    """Where the model of ``training`` will be, as far as batches stay as they are."""
    strategy = strategies.load(training.strategy)(**training.strategy_settings)
    return TrainedModel.of(strategy, training.batch_sizes)


def model_facts(training: Training) -> Mapping[str, str]:
    """Whose parameters are evaluated and saved in the end, and whose while training, for run.json."""
    model = trained_model(training)
    return {"trained": model.described(), "curve": model.curve}
