"""Initial parameters that keep the variance of signals from layer to layer."""

from __future__ import annotations

from torch import nn


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
