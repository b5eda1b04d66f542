"""A small convolutional network: most of its parameters in convolutions, so that backward goes on while it sends."""

from __future__ import annotations

from torch import nn

from e2c_dl.training.models.initial import initialised


def cnn(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Four convolutions of 3 x 3, the last with stride 2, and two linear layers; for digits 109,914 parameters.

    Of those about half stand in convolutions, so that much of backward is left when the first buckets are sent.
    """
    channels, height, width = shape
    return initialised(
        nn.Sequential(
            nn.Conv2d(channels, 16, kernel_size=3, padding=1),
            nn.Tanh(),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.Tanh(),
            nn.Conv2d(32, 64, kernel_size=3, padding=1),
            nn.Tanh(),
            nn.Conv2d(64, 64, kernel_size=3, padding=1, stride=2),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(64 * ((height + 1) // 2) * ((width + 1) // 2), 48),
            nn.Tanh(),
            nn.Linear(48, classes),
        )
    )
