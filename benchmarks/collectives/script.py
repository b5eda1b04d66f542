"""A researcher's training script: DistributedDataParallel over gloo, knowing nothing of whoever looks on.

``torchrun ... script.py ITERATIONS WIDTH [SLOW_RANK SLOW_PART]``: that rank takes 200 ms longer in ``backward``,
``data`` or ``optimizer``.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

SLOW_S = 0.2
BUCKET_MB = 1


class Slow(torch.autograd.Function):
    """The identity, whose gradient takes its time."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        time.sleep(SLOW_S)
        return grad


class Layers(torch.nn.Module):
    """Two layers; the first one's gradients are complete last."""

    def __init__(self, width: int, slow: bool) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(width, width), torch.nn.Linear(width, width)
        self.slow = slow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x))
        return self.second(Slow.apply(hidden) if self.slow else hidden)


class Samples(Dataset[torch.Tensor]):
    """Random ones, the same in every run."""

    def __init__(self, count: int, width: int, slow: bool) -> None:
        self.count, self.width, self.slow = count, width, slow

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.slow and index % BATCH == 0:
            time.sleep(SLOW_S)
        return torch.randn(self.width, generator=torch.Generator().manual_seed(index))


BATCH = 16


def main(iterations: int, width: int, slow_rank: int = -1, slow_part: str = "") -> None:
    """Train."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    part = slow_part if dist.get_rank() == slow_rank else ""
    model = DistributedDataParallel(Layers(width, part == "backward"), bucket_cap_mb=BUCKET_MB)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if part == "optimizer":
        optimizer.register_step_pre_hook(lambda *_: time.sleep(SLOW_S))
    for batch in DataLoader(Samples(iterations * BATCH, width, part == "data"), batch_size=BATCH):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *(int(each) for each in sys.argv[3:4]), *sys.argv[4:5])
