"""A multi-layer perceptron: the smallest model, and the one whose computing costs least beside its messages."""

from __future__ import annotations

import math

from torch import nn

from e2c_dl.training.models.initial import initialised

HIDDEN = 128


def mlp(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Two hidden layers of :data:`HIDDEN` units; for digits 26,122 parameters."""
    return initialised(
        nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(shape), HIDDEN),
            nn.Tanh(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.Tanh(),
            nn.Linear(HIDDEN, classes),
        )
    )
