"""Models whose iterations take some 60 ms on a core that nobody else uses, and data for them.

Not much more: where others use it, too, they are to stay below 200 ms, from which on sockets are looked at within them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

Job = tuple[nn.Module, Dataset[tuple[torch.Tensor, ...]], int]
"""Model, data, batch size."""


class Residual(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(wide, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(),
            nn.Conv2d(wide, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide),
        )  # fmt: skip

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.relu(inputs + self.body(inputs))


class Encoder(nn.Module):
    """A Transformer that classifies sequences."""

    def __init__(self, wide: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.embedded = nn.Embedding(1000, wide)
        layer = nn.TransformerEncoderLayer(wide, 4, 2 * wide, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(wide, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.encoder(self.embedded(tokens)).mean(1))
        return logits


def cnn() -> Job:
    """Four convolutions."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 10),
    )  # fmt: skip
    return model, _images(), 56


def resnet() -> Job:
    """Eight residual blocks: 17 convolutions, as ResNet-18 has."""
    stem = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return nn.Sequential(stem, *(Residual(32) for _ in range(8)), *head), _images(), 42


def transformer() -> Job:
    """Four layers, 128 wide."""
    return Encoder(), TensorDataset(torch.randint(0, 1000, (320, 64)), torch.randint(0, 10, (320,))), 26


def _images() -> TensorDataset:
    return TensorDataset(torch.randn(320, 3, 32, 32), torch.randint(0, 10, (320,)))


MODELS: dict[str, Callable[[], Job]] = {"cnn": cnn, "resnet": resnet, "transformer": transformer}
