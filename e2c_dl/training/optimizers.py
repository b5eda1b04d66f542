"""The optimizers one can train with: torch's own, over the one flat vector that holds all parameters.

Both work on each number by itself, so one flat vector gives the same bits as the model's tensors one by one.

sgd     v <- momentum v + (g + weight_decay w); w <- w - rate v
adamw   Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019; betas 0.9 and 0.999, epsilon 1e-8
"""

from __future__ import annotations

import torch
from torch import nn

from e2c_dl.errors import InputError
from e2c_dl.scenario.model import Training


def optimizer(training: Training, vector: nn.Parameter) -> torch.optim.Optimizer:
    """The optimizer that ``training`` asks for, of ``vector`` and its ``grad``. Raises: InputError, for any other."""
    if training.optimizer == "sgd":
        return torch.optim.SGD(
            [vector], lr=training.learning_rate, momentum=training.momentum, weight_decay=training.weight_decay,
            foreach=False,
        )  # fmt: skip
    if training.optimizer == "adamw":
        return torch.optim.AdamW([vector], lr=training.learning_rate, weight_decay=training.weight_decay, foreach=False)
    raise InputError(f"optimizer {training.optimizer!r} does not exist; write sgd or adamw")
