"""What a trial learns, where gradients are real: the loss of the model over virtual time, and each host's accuracy."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from e2c_dl.errors import InputError
from e2c_dl.scenario.model import Training
from e2c_dl.strategies.base import Compute, Evaluation
from e2c_dl.worlds.trained import CURVE_RANK, trained_model
from e2c_dl.worlds.virtual import SimulatedIteration

EVALUATIONS = 20
"""Over a run, evenly by samples."""


@dataclass(frozen=True, kw_only=True)
class Learned:
    """``curve``: (virtual seconds, loss on the test samples), rising in time, of the model that is trained."""

    curve: tuple[tuple[float, float], ...]
    accuracy: float  # of the model in the end
    by_host: tuple[float, ...]  # accuracy of each rank's own parameters in the end

    @property
    def loss(self) -> float:
        return self.curve[-1][1]

    def loss_after(self, part: float) -> float:
        """The loss after about that ``part`` of all samples. The curve begins behind its first samples, not at none,
        and its end is told twice."""
        return self.curve[max(0, round(part * (len(self.curve) - 1)) - 1)][1]

    def reached_s(self, loss: float) -> float | None:
        """When the model was first at least as good as ``loss``; None if it never was."""
        return next((at_s for at_s, reached in self.curve if reached <= loss), None)


class ModelBeside:
    """The mathematics of one trial's ranks, and the model that they train, which is evaluated now and then."""

    def __init__(self, training: Training) -> None:
        self.computes: Sequence[Compute] = computes(training)
        self._model = trained_model(training)

    def evaluate(self) -> Evaluation:
        """The model that the strategy trains, as it is now, by whose rank evaluates it in every world.

        What is no parameter, such as the statistics of batch normalisation, is that rank's own.
        """
        there = self.computes[CURVE_RANK]
        own = there.parameters.copy()
        there.parameters[:] = self._model.assembled(lambda rank: self.computes[rank].parameters)
        evaluation = there.evaluate()
        there.parameters[:] = own
        return evaluation


class Learning(ModelBeside):
    """The loss over one trial."""

    def __init__(self, training: Training, total_samples: int) -> None:
        super().__init__(training)
        self._batches = training.batch_sizes
        self._every = max(1, total_samples // EVALUATIONS)
        self._samples = 0
        self._at_s = 0.0
        self._curve: list[tuple[float, float]] = []

    def ended(self, iteration: SimulatedIteration) -> None:
        """A rank has ended an iteration: evaluate, if it is time to."""
        before, self._at_s = self._samples // self._every, iteration.at_ns / 1e9
        self._samples += self._batches[iteration.rank]
        if self._samples // self._every > before:
            self._note()

    def concluded(self) -> Learned:
        """What was learned, at the end."""
        accuracy = self._note().accuracy
        own = tuple(compute.evaluate().accuracy for compute in self.computes)
        return Learned(curve=tuple(self._curve), accuracy=accuracy, by_host=own)

    def _note(self) -> Evaluation:
        evaluation = self.evaluate()
        self._curve.append((self._at_s, evaluation.loss if np.isfinite(evaluation.loss) else np.inf))
        return evaluation


def need_torch() -> None:
    """Does nothing, where gradients can be computed. Raises: InputError, where torch is absent."""
    if importlib.util.find_spec("torch") is None:
        needs = "gradients are to be computed, and torch is not installed"
        raise InputError(f"{needs}; install e2c_dl[train], or choose --objective makespan or cost, or --shapes-only")


def computes(training: Training) -> tuple[Compute, ...]:
    """The mathematics of all ranks on torch. Raises: InputError, where torch is absent."""
    need_torch()
    from e2c_dl.training.compute import TorchCompute, make_deterministic  # only here: shapes need no torch

    make_deterministic()
    size = len(training.batch_sizes)
    return tuple(TorchCompute(training, rank=rank, size=size) for rank in range(size))
