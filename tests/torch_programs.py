"""Distributed training as torch and torchft have it, one process per rank over gloo: what our strategies are held to.

Run as a program, one rank: ``python torch_programs.py JOB RANK``, where the file JOB holds what :func:`run` was given.
What is drawn, and the model at the start, are the package's; everything between ranks is theirs.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from e2c_dl.scenario.model import Training

TIMEOUT_S = 120
TRAINED = b"trained\n"
"""What a rank prints once its parameters are on disk; it then waits to be ended, its connections open."""


def run(directory: Path, kind: str, training: Training, **options: Any) -> list[np.ndarray]:
    """The flat parameters of every rank after ``kind``: ddp, post_local_sgd, hierarchical or diloco; see there."""
    job = directory / "job.json"
    job.write_text(json.dumps({"kind": kind, "training": dataclasses.asdict(training), "options": options}))
    ranks = range(len(training.batch_sizes))
    environ = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    environ["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    with ExitStack() as stack:
        processes = []
        for rank in ranks:
            log = stack.enter_context((directory / f"{rank}.log").open("wb"))
            command = [sys.executable, __file__, str(job), str(rank)]
            processes.append(
                subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
            )
            stack.callback(_end, processes[-1])
        for rank, process in enumerate(processes):
            assert process.stdout is not None
            assert process.stdout.readline() == TRAINED, (directory / f"{rank}.log").read_text()
    return [np.load(directory / f"{rank}.npy") for rank in ranks]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # no leaving in good order: gloo's threads end a process that exits by SIGABRT now and then
    process.communicate()


def one_rank(job: Path, rank: int) -> None:
    """Train as ``rank``, and write its parameters beside ``job``."""
    import torch
    from torch import distributed

    from e2c_dl.training import datasets, models
    from e2c_dl.training.compute import make_deterministic
    from e2c_dl.training.partitions import Stream, parts

    asked = json.loads(job.read_text())
    training = Training(**asked["training"])
    size = len(training.batch_sizes)
    make_deterministic()
    distributed.init_process_group(
        "gloo", init_method=f"file://{job.parent / 'store'}", rank=rank, world_size=size,
        timeout=timedelta(seconds=TIMEOUT_S),
    )  # fmt: skip
    data = datasets.load(training.dataset, dtype=training.dtype)
    stream = Stream(parts(data.train_labels, seed=training.seed, size=size)[rank], seed=training.seed, rank=rank)
    model = models.build(training.model, seed=training.seed, dtype=models.dtype_of(training.dtype))
    with ExitStack() as stack:
        forward, step = PROGRAMS[asked["kind"]](model, training, stack, **asked["options"])
        for iteration in range(training.iterations):
            batch = stream.at(iteration * training.batch_sizes[rank], training.batch_sizes[rank])
            images, labels = torch.from_numpy(data.train_images[batch]), torch.from_numpy(data.train_labels[batch])
            for parameter in model.parameters():
                parameter.grad = None
            torch.nn.functional.cross_entropy(forward(images), labels).backward()
            step()
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    np.save(job.parent / f"{rank}.npy", flat.numpy())
    sys.stdout.buffer.write(TRAINED)
    sys.stdout.flush()
    sys.stdin.read()


Program = tuple[Callable[[Any], Any], Callable[[], Any]]
"""(the forward pass, the step)."""


def optimizer_of(model: Any, training: Training) -> Any:
    import torch

    if training.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
    return torch.optim.SGD(
        model.parameters(), lr=training.learning_rate, momentum=training.momentum, weight_decay=training.weight_decay
    )


def ddp(model: Any, training: Training, stack: ExitStack) -> Program:
    """torch.nn.parallel.DistributedDataParallel."""
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model), optimizer_of(model, training).step


def post_local_sgd(model: Any, training: Training, stack: ExitStack, *, period: int) -> Program:
    """torch's optimizer that averages models; it counts iterations from 0, and begins after ``warmup_steps``."""
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    averager = PeriodicModelAverager(period=period, warmup_steps=period - 1)
    return model, PostLocalSGDOptimizer(optimizer_of(model, training), averager).step


def hierarchical(model: Any, training: Training, stack: ExitStack, *, periods: dict[str, int]) -> Program:
    """torch's averager over groups of consecutive ranks; ``periods`` maps each period to the size of its groups."""
    from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    sizes = OrderedDict((int(period), size) for period, size in periods.items())
    averager = HierarchicalModelAverager(period_group_size_dict=sizes)
    averager.step = 1  # it averages where its count is a multiple of a period; ours is 1 after the first step
    return model, PostLocalSGDOptimizer(optimizer_of(model, training), averager).step


class Members:
    """What torchft's DiLoCo asks of its Manager, for ranks that never fail: the mean over gloo, and nothing else."""

    _use_async_quorum = False

    def __init__(self) -> None:
        self._step = 0

    def allreduce(self, tensor: Any, should_quantize: bool = False) -> Any:
        from torch import distributed

        tensor /= distributed.get_world_size()
        return distributed.all_reduce(tensor, async_op=True)

    def should_commit(self) -> bool:
        self._step += 1
        return True

    def current_step(self) -> int:
        return self._step

    def start_quorum(self) -> None:
        """Everybody takes part."""

    def allow_state_dict_read(self) -> None:
        """Nobody reads."""

    def disallow_state_dict_read(self) -> None:
        """Nobody reads."""

    def register_state_dict_fn(self, *_: Any) -> None:
        """Nobody recovers."""


def diloco(model: Any, training: Training, stack: ExitStack, *, period: int, rate: float, momentum: float) -> Program:
    """torchft.local_sgd.DiLoCo, one fragment, its outer optimizer torch's SGD with Nesterov momentum."""
    import torch
    from torchft.local_sgd import DiLoCo

    inner = optimizer_of(model, training)
    outer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum, nesterov=momentum > 0)
    members: Any = Members()
    stack.enter_context(DiLoCo(members, [model], inner, outer, sync_every=period))
    return model, inner.step


PROGRAMS: dict[str, Callable[..., Program]] = {
    "ddp": ddp,
    "post_local_sgd": post_local_sgd,
    "hierarchical": hierarchical,
    "diloco": diloco,
}

if __name__ == "__main__":
    one_rank(Path(sys.argv[1]), int(sys.argv[2]))
