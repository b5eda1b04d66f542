"""A small Transformer encoder over an image's patches, read as a sequence.

Source: Vaswani et al., "Attention is all you need", NeurIPS 2017, Eq. (1); Dosovitskiy et al., "An image is worth 16 x
16 words", ICLR 2021, Eqs. (1)-(4): patches become tokens, normalisation comes before each part of a block.

Differences from the papers: no dropout; learned positions; the mean over tokens stands for the class token. Attention
is written out: torch's fused kernels choose their order of sums by size and processor.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

WIDTH = 64  # of a token
HEADS = 4
BLOCKS = 2
PATCHES = 8  # along a side, about; of at least 2 pixels each


class Attention(nn.Module):
    """Every token looks at every other, with several heads."""

    def __init__(self) -> None:
        super().__init__()
        self.inward = nn.Linear(WIDTH, 3 * WIDTH)  # queries, keys, values
        self.outward = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(n, tokens, width) to the same."""
        samples, count, _ = tokens.shape
        split = self.inward(tokens).view(samples, count, 3, HEADS, WIDTH // HEADS)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)  # each (n, heads, tokens, width of a head)
        weights = torch.softmax(queries @ keys.transpose(-1, -2) / math.sqrt(WIDTH // HEADS), dim=-1)
        mixed = (weights @ values).transpose(1, 2).reshape(samples, count, WIDTH)
        result: torch.Tensor = self.outward(mixed)
        return result


class TransformerBlock(nn.Module):
    """Attention, then two linear layers on each token; both beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.linear_norm = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(n, tokens, width) to the same."""
        tokens = tokens + self.attention(self.attention_norm(tokens))
        result: torch.Tensor = tokens + self.narrow(functional.gelu(self.wide(self.linear_norm(tokens))))
        return result


class Transformer(nn.Module):
    """Patches to tokens, blocks, and a linear layer on the tokens' mean."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        patch = (min(height, max(2, height // PATCHES)), min(width, max(2, width // PATCHES)))
        self.patches = nn.Conv2d(channels, WIDTH, kernel_size=patch, stride=patch)
        self.positions = nn.Parameter(0.02 * torch.randn((height // patch[0]) * (width // patch[1]), WIDTH))
        self.blocks = nn.Sequential(*(TransformerBlock() for _ in range(BLOCKS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.last = nn.Linear(WIDTH, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(n, channels, h, w) to scores (n, classes); pixels beyond the last whole patch are not read."""
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        encoded: torch.Tensor = self.norm(self.blocks(tokens))
        scores: torch.Tensor = self.last(encoded.mean(dim=1))
        return scores


def transformer(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Two blocks of four heads, 64 wide, with torch's own initial parameters; for digits 102,090."""
    return Transformer(shape, classes)
