"""A researcher's training script over Horovod and gloo, knowing nothing of whoever looks on.

``with_horovod.py ITERATIONS WIDTH``, with the environment of ``benchmarks.script_bed.torch_environ``.
"""

from __future__ import annotations

import os
import sys

import torch

from benchmarks.flows.horovod import meet


def main(iterations: int, width: int) -> None:
    """Train."""
    meet(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    import horovod.torch as hvd  # reads the environment that meet has set

    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for _ in range(iterations):
        optimizer.zero_grad()
        model(torch.randn(16, width)).square().mean().backward()
        optimizer.step()
    hvd.allreduce(torch.zeros(1))  # all are done before anybody's connections end
    hvd.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
