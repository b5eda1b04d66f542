"""The task of the comparison: textures that a small residual network learns over some hundred iterations.

A sample is a picture of 16 x 16 pixels. Each of 20 classes has 3 prototypes, smooth random fields of unit variance; a
sample is one of its class's, shifted around the edges by up to 3 pixels each way, with the field of another class laid
over it at 0.5 of its strength, and noise::

    x = a * roll(prototype[class, mode], (dy, dx)) + 0.5 * prototype[other, mode'] + 0.5 * noise,  a ~ U(0.7, 1.3)

All of it is drawn from one seed, so that every host has the same samples; nothing is downloaded.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

SEED = 20210621
CLASSES, MODES, PIXELS = 20, 3, 16
TRAINING, TEST = 6000, 600
SHIFT, OVERLAY, NOISE = 3, 0.5, 0.5
CHANNELS = (16, 32, 64, 128)
GROUPS = 8


class Textures(torch.utils.data.Dataset):
    """``count`` samples; those of another ``stream`` are others of the same classes."""

    def __init__(self, count: int, stream: int) -> None:
        fields = _fields(np.random.default_rng([SEED]))
        random = np.random.default_rng([SEED, stream])
        self.targets = random.integers(CLASSES, size=count)
        others = (self.targets + random.integers(1, CLASSES, size=count)) % CLASSES
        modes = random.integers(MODES, size=(2, count))
        shifts = random.integers(-SHIFT, SHIFT + 1, size=(count, 2))
        strengths = random.uniform(0.7, 1.3, size=count)
        noise = random.standard_normal((count, PIXELS, PIXELS), dtype=np.float32)
        self._images = np.empty((count, 1, PIXELS, PIXELS), dtype=np.float32)
        for index in range(count):
            own = np.roll(fields[self.targets[index], modes[0, index]], tuple(shifts[index]), axis=(0, 1))
            laid_over = fields[others[index], modes[1, index]]
            self._images[index, 0] = strengths[index] * own + OVERLAY * laid_over + NOISE * noise[index]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self._images[index], int(self.targets[index])


def textures() -> tuple[Textures, Textures]:
    """(training, test) samples."""
    return Textures(TRAINING, 1), Textures(TEST, 2)


def _fields(random: np.random.Generator) -> np.ndarray:
    """Smooth fields (classes, modes, pixels, pixels): white noise, its frequencies damped."""
    white = random.standard_normal((CLASSES, MODES, PIXELS, PIXELS))
    along = np.fft.fftfreq(PIXELS)
    damped = np.exp(-0.5 * (np.hypot(*np.meshgrid(along, along)) / 0.15) ** 2)
    smooth = np.fft.ifft2(np.fft.fft2(white) * damped).real
    return (smooth / smooth.std(axis=(-2, -1), keepdims=True)).astype(np.float32)


class Block(nn.Module):
    """Two normalised convolutions of 3 x 3 beside a shortcut; ``stride`` divides height and width."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, kernel_size=3, padding=1, stride=stride, bias=False)
        self.first_norm = nn.GroupNorm(GROUPS, out)
        self.second = nn.Conv2d(out, out, kernel_size=3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(GROUPS, out)
        self.shortcut = nn.Conv2d(channels, out, kernel_size=1, stride=stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        inner = functional.silu(self.first_norm(self.first(images)))
        return functional.silu(self.second_norm(self.second(inner)) + self.shortcut(images))


def network() -> nn.Module:
    """A residual network of four stages, each but the first at half the size of the one before; 309,860 parameters."""
    ins = (CHANNELS[0], *CHANNELS[:-1])
    stages = [Block(i, o, 2) for i, o in zip(ins, CHANNELS, strict=True)]
    return nn.Sequential(
        nn.Conv2d(1, CHANNELS[0], kernel_size=3, padding=1), nn.SiLU(), *stages,
        nn.Flatten(), nn.Linear(CHANNELS[-1], CLASSES),
    )
