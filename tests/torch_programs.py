"""Distributed training as torch and torchft have it, one process per rank over gloo: what our strategies are held to.

What is drawn, and the model at the start, are the package's; everything between ranks is theirs. Ranks are forked from
one process that has imported torch, once for all tests: importing it takes longer than most of these trainings.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from e2c_dl.scenario.model import Training

TIMEOUT_S = 120
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    ["torch.distributed.optim", "torch.nn.parallel", "torchft.local_sgd", "sklearn.datasets", "torch_programs"]
)


def run(directory: Path, kind: str, training: Training, **options: Any) -> list[np.ndarray]:
    """The flat parameters of every rank after ``kind``: ddp, post_local_sgd, hierarchical or diloco; see there."""
    ranks = range(len(training.batch_sizes))
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"))
        trained = []
        for rank in ranks:
            ours, theirs = FORKED.Pipe()
            process = FORKED.Process(target=one_rank, args=(directory, rank, kind, training, options, theirs))
            process.start()
            stack.callback(_end, process)
            theirs.close()
            trained.append(stack.enter_context(ours))
        for rank, pipe in enumerate(trained):
            try:
                pipe.recv()
            except EOFError:
                raise AssertionError((directory / f"{rank}.log").read_text()) from None
    return [np.load(directory / f"{rank}.npy") for rank in ranks]


def _end(process: Any) -> None:
    process.kill()  # no leaving in good order: gloo's threads end a process that exits by SIGABRT now and then
    process.join()


def one_rank(
    directory: Path, rank: int, kind: str, training: Training, options: dict[str, Any], trained: Connection
) -> None:
    """Train as ``rank``, and write its parameters into ``directory``."""
    with (directory / f"{rank}.log").open("wb") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
    import torch
    from torch import distributed

    from e2c_dl.training import datasets, models
    from e2c_dl.training.compute import make_deterministic
    from e2c_dl.training.partitions import Stream, parts

    size = len(training.batch_sizes)
    make_deterministic()
    distributed.init_process_group(
        "gloo", init_method=f"file://{directory / 'store'}", rank=rank, world_size=size,
        timeout=timedelta(seconds=TIMEOUT_S),
    )  # fmt: skip
    data = datasets.load(training.dataset, dtype=training.dtype)
    stream = Stream(parts(data.train_labels, seed=training.seed, size=size)[rank], seed=training.seed, rank=rank)
    model = models.build(training.model, seed=training.seed, dtype=models.dtype_of(training.dtype))
    with ExitStack() as stack:
        forward, step = PROGRAMS[kind](model, training, stack, **options)
        for iteration in range(training.iterations):
            batch = stream.at(iteration * training.batch_sizes[rank], training.batch_sizes[rank])
            images, labels = torch.from_numpy(data.train_images[batch]), torch.from_numpy(data.train_labels[batch])
            for parameter in model.parameters():
                parameter.grad = None
            torch.nn.functional.cross_entropy(forward(images), labels).backward()
            step()
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    np.save(directory / f"{rank}.npy", flat.numpy())
    trained.send(True)
    trained.recv()  # until it is ended, its connections open


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


def powersgd(model: Any, training: Training, stack: ExitStack, *, rank: int) -> Program:
    """DistributedDataParallel under torch's powerSGD_hook, from the first iteration on."""
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel

    from e2c_dl.training.models import DIGITS_SHAPE

    state = PowerSGDState(
        process_group=None, matrix_approximation_rank=rank, start_powerSGD_iter=2, min_compression_rate=1
    )  # fmt: skip
    state.iter = state.start_powerSGD_iter - 1
    parallel = DistributedDataParallel(model)
    parallel.register_comm_hook(state, powerSGD_hook)
    # Of plain all-reduce, and without a step: after it buckets are built anew, and stay so.
    parallel(torch.zeros(1, *DIGITS_SHAPE, dtype=next(model.parameters()).dtype)).sum().backward()
    parallel.zero_grad()
    return parallel, optimizer_of(model, training).step


def square() -> Any:
    """A model of digits with one square matrix: 64 pixels to 64 features, means of which are the scores."""
    import torch

    torch.manual_seed(1)
    wide = torch.nn.Linear(64, 64, bias=False)
    return torch.nn.Sequential(torch.nn.Flatten(), wide, torch.nn.Tanh(), torch.nn.AdaptiveAvgPool1d(10))


def several() -> Any:
    """A model of digits with a convolution, matrices that are not square, vectors, and small ones."""
    import torch

    torch.manual_seed(1)
    first = torch.nn.Conv2d(1, 12, 3, bias=False)  # 12 x 9
    layers = [torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(12 * 36, 40), torch.nn.Tanh()]
    small = [torch.nn.Linear(11, 6, bias=False), torch.nn.Linear(6, 10)]
    return torch.nn.Sequential(first, *layers, torch.nn.Linear(40, 11), *small)


def first_rights(columns: Sequence[int], rank: int) -> dict[int, np.ndarray]:
    """The random matrices that powerSGD_hook begins with, of tensors of so many columns, last first."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(np.random.RandomState(0).randint(1_000_000_000))
        return {each: torch.randn(each, rank, dtype=torch.float64).numpy() for each in columns}


PROGRAMS: dict[str, Callable[..., Program]] = {
    "ddp": ddp,
    "post_local_sgd": post_local_sgd,
    "hierarchical": hierarchical,
    "diloco": diloco,
    "powersgd": powersgd,
}
