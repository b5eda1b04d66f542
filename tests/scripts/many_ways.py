"""What scripts do beside DistributedDataParallel: collectives of their own, FSDP, torch.compile, forks."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def by_hand(steps: int) -> None:
    """Gradients are averaged by the script, half of them while it goes on."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(8, 64)).sum().backward()
        works = []
        for number, parameter in enumerate(model.parameters()):
            work = dist.all_reduce(parameter.grad, async_op=number % 2 == 1)
            works += [work] if work is not None else []
        for work in works:
            work.wait()
        optimizer.step()
        optimizer.zero_grad()


def forked() -> None:
    """A child that trains by itself and leaves without a word: it is no rank."""
    child = os.fork()
    if not child:
        optimizer = torch.optim.SGD([weight := torch.ones(4, requires_grad=True)], lr=0.1)
        weight.sum().backward()
        optimizer.step()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def sharded(steps: int) -> None:
    """FSDP: its all-gathers and reduce-scatters are torch.distributed's."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        model(torch.randn(8, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def compiled(steps: int) -> None:
    """A graph whose insides nobody sees."""
    model = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    by_hand(3)
    forked()
    sharded(3)
    compiled(3)
    print("done\n", end="", flush=True)  # in one piece: ranks share a pipe
    dist.destroy_process_group()
