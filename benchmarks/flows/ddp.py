"""A rank of DistributedDataParallel over gloo: some iterations of a small model; spans and sockets are recorded.

``python -m benchmarks.flows.ddp ITERATIONS PARAMETERS``, with torchrun's environment, HOST and HOST_DIR.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from e2c_dl.trace.model import Phase
from e2c_dl.trace.propagation.sockets import SocketSampler
from e2c_dl.trace.recording.recorder import Recorder


def main(iterations: int, parameters: int) -> None:
    """Train, and leave what was recorded in HOST_DIR."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, host, own = int(os.environ["RANK"]), os.environ["HOST"], Path(os.environ["HOST_DIR"])
    dist.init_process_group("gloo")
    side = int(parameters**0.5)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(side, side, bias=False)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with (
        Recorder(own / "spans.bin", rank=rank, host=host, layer="all") as recorder,
        SocketSampler(own / "connections.bin", rank=rank, host=host) as sampler,
    ):
        begin_ns = recorder.clock()
        for iteration in range(iterations):
            start_ns = recorder.clock()
            sampler.iteration(iteration)
            optimizer.zero_grad()
            model(torch.randn(4, side)).square().mean().backward()
            optimizer.step()
            recorder.record(Phase.ITERATION, start_ns, start_ns, recorder.clock(), iteration=iteration)
        recorder.record(Phase.TRAINING, begin_ns, begin_ns, recorder.clock())
        dist.barrier()
        sampler.close()
        print(f"{sampler.rounds} rounds, {sampler.cpu_s / (recorder.clock() - begin_ns) * 1e9:.2%} of a core")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
