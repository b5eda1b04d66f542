"""The optimizers one can train with: torch's own, over the one flat vector that holds all parameters.

Both work on each number by itself, so one flat vector gives the same bits as the model's tensors one by one.

sgd     v <- momentum v + (g + weight_decay w); w <- w - rate v
adamw   Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019; betas 0.9 and 0.999, epsilon 1e-8

torch's functions are called, not its classes: the first use of a torch.optim.Optimizer imports torch's compiler,
CPU time of each worker before it can train. The numbers are the same to the bit (tests/laws/test_against_torch.py).
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from e2c_dl.errors import InputError
from e2c_dl.scenario.model import Training

_BETAS, _EPSILON = (0.9, 0.999), 1e-8  # torch's defaults, and the paper's


class Optimizer(Protocol):
    """What turns a gradient into new parameters; remembers what it needs of the gradients before."""

    def step(self) -> None:
        """Change the parameters in place, by the gradient as it is now."""


class Sgd:
    """Stochastic gradient descent with momentum, of ``vector`` and its ``grad``."""

    def __init__(self, training: Training, vector: nn.Parameter) -> None:
        self._training, self._vector = training, vector
        self._momenta: list[torch.Tensor | None] = [None]  # torch makes it, of the first gradient

    @torch.no_grad()
    def step(self) -> None:
        sgd(
            [self._vector], [_gradient(self._vector)], self._momenta,
            lr=self._training.learning_rate, momentum=self._training.momentum,
            weight_decay=self._training.weight_decay,
            dampening=0.0, nesterov=False, maximize=False, foreach=False,
        )  # fmt: skip


class AdamW:
    """Adam with decoupled weight decay, of ``vector`` and its ``grad``."""

    def __init__(self, training: Training, vector: nn.Parameter) -> None:
        self._training, self._vector = training, vector
        self._means, self._squares = [torch.zeros_like(vector)], [torch.zeros_like(vector)]
        self._steps = [torch.tensor(0.0)]  # a tensor: torch counts in place

    @torch.no_grad()
    def step(self) -> None:
        adamw(
            [self._vector], [_gradient(self._vector)], self._means, self._squares, [], self._steps,
            lr=self._training.learning_rate, beta1=_BETAS[0], beta2=_BETAS[1], eps=_EPSILON,
            weight_decay=self._training.weight_decay,
            amsgrad=False, maximize=False, foreach=False,
        )  # fmt: skip


def optimizer(training: Training, vector: nn.Parameter) -> Optimizer:
    """The optimizer that ``training`` asks for, of ``vector`` and its ``grad``. Raises: InputError, for any other."""
    if training.optimizer == "sgd":
        return Sgd(training, vector)
    if training.optimizer == "adamw":
        return AdamW(training, vector)
    raise InputError(f"optimizer {training.optimizer!r} does not exist; write sgd or adamw")


def _gradient(vector: nn.Parameter) -> torch.Tensor:
    if vector.grad is None:
        raise RuntimeError("the flat gradient was set to None; zero it in place instead")
    return vector.grad
