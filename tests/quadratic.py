"""A Compute without torch whose training can be followed by hand: each rank has a quadratic loss of its own.

Rank r's loss is w'Aw/2 - (1 + iteration mod 3) c'w, with A positive definite; its gradient is the same for any number
of samples, so that references know it whatever a batch controller does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from e2c_dl.strategies.base import Evaluation, OnSegment, TensorShapes, Vector
from e2c_dl.trace.model import Phase

Gradient = Callable[[int, Vector], Vector]
"""Of iteration and parameters."""


class Quadratic:
    """Plain SGD at ``rate`` from ``start``; ``history`` is how many samples each gradient was requested."""

    def __init__(
        self, gradient: Gradient, start: Vector, buckets: Sequence[slice], rate: float,
        tensor_shapes: Sequence[TensorShapes] = (),
    ) -> None:  # fmt: skip
        self.parameters: Vector = start.copy()
        self.gradients: Vector = np.zeros_like(start)
        self.buckets, self.tensor_shapes = buckets, tensor_shapes
        self.history: list[int] = []
        self._gradient, self._rate = gradient, rate

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        self.history.append(samples)
        self.gradients[:] = self._gradient(iteration, self.parameters)
        for index in range(len(self.buckets)):
            on_segment(Phase.BACKWARD, index, 0, 0)
        return 0.0

    def step(self) -> None:
        self.parameters -= self._rate * self.gradients

    def evaluate(self) -> Evaluation:
        return Evaluation(loss=float(np.sum(self.parameters)), accuracy=0.0)


class Problem:
    """``size`` quadratic losses in ``length`` dimensions, all drawn by ``seed``; where training starts, how fast."""

    def __init__(
        self, size: int, seed: int, *, lengths: Sequence[int] = (5, 3, 1), dtype: type = np.float64,
        tensor_shapes: Sequence[TensorShapes] = (),
    ) -> None:  # fmt: skip
        draw = np.random.default_rng(seed)
        length = sum(lengths)
        roots = draw.normal(size=(size, length, length))
        self.matrices = (roots @ roots.transpose(0, 2, 1) / length).astype(dtype)
        self.targets = draw.normal(size=(size, length)).astype(dtype)
        self.start: Vector = draw.normal(size=length).astype(dtype)
        self.samples: list[int] = draw.integers(1, 20, size).tolist()
        self.rate = 0.05
        ends = length - np.cumsum([0, *lengths])
        self.buckets = [slice(int(end), int(begin)) for begin, end in pairwise(ends)]
        self.tensor_shapes = tensor_shapes

    def gradient(self, rank: int, iteration: int, w: Vector) -> Vector:
        gradient: Vector = self.matrices[rank] @ w - self.targets[rank] * (1 + iteration % 3)
        return gradient

    def computes(self, gradient: Callable[[int, int, Vector], Vector] | None = None) -> list[Quadratic]:
        """One per rank; ``gradient`` of (rank, iteration, parameters) replaces the problem's own."""
        of = gradient or self.gradient
        return [
            Quadratic(
                lambda iteration, w, rank=rank: of(rank, iteration, w), self.start, self.buckets, self.rate,
                self.tensor_shapes,
            )
            for rank in range(len(self.samples))
        ]  # fmt: skip

    def sgd(self, iterations: int, samples: Sequence[Sequence[int]] | None = None) -> Vector:
        """Where one process ends with SGD on all batches together; ``samples`` by rank and iteration, if they vary."""
        w = self.start.astype(np.float64)
        ranks = range(len(self.samples))
        for iteration in range(iterations):
            weights = self.samples if samples is None else [each[iteration] for each in samples]
            gradients = [self.gradient(rank, iteration, w) for rank in ranks]
            w = w - self.rate * np.average(gradients, axis=0, weights=weights)
        return w


def difference(values: Vector, expected: Vector) -> float:
    """Relative, in the Euclidean norm."""
    return float(np.linalg.norm(values - expected) / np.linalg.norm(expected))
