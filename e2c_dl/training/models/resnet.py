"""A small residual network with group normalisation, which unlike batch normalisation takes each sample by itself.

Source: He et al., "Deep residual learning for image recognition", CVPR 2016, section 4.2: three stages of 16, 32 and 64
channels, the last two halving height and width; here one block per stage. Wu and He, "Group normalization", ECCV 2018.

Differences from the papers: SiLU in place of ReLU (see :mod:`e2c_dl.training.models`); a block that changes the shape
has a 1 x 1 convolution on its shortcut, where section 4.2 pads with zeros.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from e2c_dl.training.models.plain import initialised

CHANNELS = (16, 32, 64)  # of the stages
GROUPS = 8  # of each normalisation


class ResidualBlock(nn.Module):
    """Two normalised convolutions of 3 x 3 beside a shortcut; ``stride`` divides height and width."""

    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out_channels, kernel_size=3, padding=1, stride=stride, bias=False)
        self.first_norm = nn.GroupNorm(GROUPS, out_channels)  # has a bias: the convolution needs none
        self.second = nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(GROUPS, out_channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out_channels:
            self.shortcut = nn.Conv2d(channels, out_channels, kernel_size=1, stride=stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(n, channels, h, w) to (n, out_channels, h / stride, w / stride), rounded up."""
        inner = functional.silu(self.first_norm(self.first(images)))
        inner = self.second_norm(self.second(inner))
        result: torch.Tensor = functional.silu(inner + self.shortcut(images))
        return result


class ResNet(nn.Module):
    """One block per stage between a first convolution and a linear layer on the mean over pixels."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, CHANNELS[0], kernel_size=3, padding=1)
        ins = (CHANNELS[0], *CHANNELS[:-1])
        self.blocks = nn.Sequential(
            *(ResidualBlock(width, out, 1 if width == out else 2) for width, out in zip(ins, CHANNELS, strict=True))
        )
        self.last = nn.Linear(CHANNELS[-1], classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(n, channels, h, w) to scores (n, classes)."""
        features: torch.Tensor = self.blocks(functional.silu(self.first(images)))
        scores: torch.Tensor = self.last(features.mean(dim=(2, 3)))
        return scores


def resnet(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Eight layers deep; for grey images and 10 classes 77,642 parameters, whatever the images' size."""
    return initialised(ResNet(shape[0], classes))
