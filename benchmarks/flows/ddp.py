"""A rank of DistributedDataParallel over gloo: some iterations of a small model; spans and sockets are recorded.

``python -m benchmarks.flows.ddp ITERATIONS PARAMETERS``, with torchrun's environment, HOST and HOST_DIR.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.flows.recorded import trained


def main(iterations: int, parameters: int) -> None:
    """Train, and leave what was recorded in HOST_DIR."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    side = int(parameters**0.5)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(side, side, bias=False)))
    trained(model, torch.optim.SGD(model.parameters(), lr=0.01), iterations, dist.barrier)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
