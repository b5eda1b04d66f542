"""The plain models, a small convolutional network and a multi-layer perceptron, and the initial parameters of both.

The cnn has most of its parameters in convolutions, so that backward goes on while it sends; the mlp is the smallest
model, and the one whose computing costs least beside its messages. Initial parameters keep the variance of signals from
layer to layer.
"""

from __future__ import annotations

import math

from torch import nn

HIDDEN = 128


def initialised(model: nn.Module) -> nn.Module:
    """``model``, its convolutions and linear layers drawn from torch's generator, layer after layer, biases zero.

    Source: He et al., "Delving deep into rectifiers", ICCV 2015, Eq. (10).
    """
    return model.apply(_initialise)


def _initialise(layer: nn.Module) -> None:
    if isinstance(layer, (nn.Conv2d, nn.Linear)):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def cnn(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Four convolutions of 3 x 3, the last with stride 2, and two linear layers; for digits 109,914 parameters.

    Of those about half stand in convolutions, so that much of backward is left when the first buckets are sent.
    """
    channels, height, width = shape
    return initialised(
        nn.Sequential(
            nn.Conv2d(channels, 16, kernel_size=3, padding=1), nn.Tanh(),
            nn.Conv2d(16, 32, kernel_size=3, padding=1), nn.Tanh(),
            nn.Conv2d(32, 64, kernel_size=3, padding=1), nn.Tanh(),
            nn.Conv2d(64, 64, kernel_size=3, padding=1, stride=2), nn.Tanh(),
            nn.Flatten(),
            nn.Linear(64 * ((height + 1) // 2) * ((width + 1) // 2), 48), nn.Tanh(),
            nn.Linear(48, classes),
        )
    )  # fmt: skip


def mlp(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Two hidden layers of :data:`HIDDEN` units; for digits 26,122 parameters."""
    return initialised(
        nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(shape), HIDDEN), nn.Tanh(),
            nn.Linear(HIDDEN, HIDDEN), nn.Tanh(),
            nn.Linear(HIDDEN, classes),
        )
    )  # fmt: skip
