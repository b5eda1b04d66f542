"""Some iterations of a small model on one rank, with its spans and its sockets on record, whatever library reduces."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from e2c_dl.trace.model import Phase
from e2c_dl.trace.propagation.sockets import SocketSampler
from e2c_dl.trace.recording.recorder import Recorder


def trained(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, iterations: int, met: Callable[[], object]
) -> None:
    """Train, and leave what was recorded in HOST_DIR; ``met`` returns when all ranks have called it."""
    rank, host, own = int(os.environ["RANK"]), os.environ["HOST"], Path(os.environ["HOST_DIR"])
    width = next(model.parameters()).shape[1]
    with (
        Recorder(own / "spans.bin", rank=rank, host=host, layer="all") as recorder,
        SocketSampler(own / "connections.bin", rank=rank, host=host) as sampler,
    ):
        begin_ns = recorder.clock()
        for iteration in range(iterations):
            start_ns = recorder.clock()
            sampler.iteration(iteration)
            optimizer.zero_grad()
            model(torch.randn(4, width)).square().mean().backward()
            optimizer.step()
            recorder.record(Phase.ITERATION, start_ns, start_ns, recorder.clock(), iteration=iteration)
        recorder.record(Phase.TRAINING, begin_ns, begin_ns, recorder.clock())
        met()  # all are done before anybody's connections end
        sampler.close()
        print(f"{sampler.rounds} rounds, {sampler.cpu_s / (recorder.clock() - begin_ns) * 1e9:.2%} of a core")
    met()
