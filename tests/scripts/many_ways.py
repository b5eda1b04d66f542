"""What scripts do beside plain DistributedDataParallel: each way trains some steps, and leaves its parameters.

Collectives of their own, both FSDPs, torch.compile, mixed precision, a communication hook, forks.
"""

import os
import sys
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

STEPS = 3


def perceptron() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def batches(steps: int = STEPS) -> Iterator[torch.Tensor]:
    torch.manual_seed(dist.get_rank())
    for _ in range(steps):
        yield torch.randn(8, 64)


def own_part(parameter: torch.Tensor) -> torch.Tensor:
    """What of it lies on this rank: how ranks share it is saved in another order each time."""
    return (parameter.to_local() if isinstance(parameter, DTensor) else parameter).detach().clone()


def train(model: nn.Module) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters())
    for inputs in batches():
        model(inputs).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def by_hand() -> nn.Module:
    """Gradients are averaged by the script, half of them while it goes on."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for inputs in batches():
        model(inputs).square().sum().backward()
        works = []
        for number, parameter in enumerate(model.parameters()):
            work = dist.all_reduce(parameter.grad, async_op=number % 2 == 1)
            works += [work] if work is not None else []
        for work in works:
            work.wait()
        optimizer.step()
        optimizer.zero_grad()
    return model


def forked() -> nn.Module:
    """A child that trains by itself and leaves without a word: it is no rank."""
    child = os.fork()
    if not child:
        optimizer = torch.optim.SGD([weight := torch.ones(4, requires_grad=True)], lr=0.1)
        weight.sum().backward()
        optimizer.step()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return nn.Module()


def sharded() -> nn.Module:
    """FSDP: its all-gathers and reduce-scatters are torch.distributed's."""
    model = perceptron()
    fully_shard(model)
    return train(model)


def wrapped() -> nn.Module:
    """The first FSDP, which wraps a model."""
    return train(FullyShardedDataParallel(perceptron(), device_id=torch.device("cpu")))


def compiled() -> nn.Module:
    """A graph whose insides nobody sees, by itself and of DistributedDataParallel."""
    train(torch.compile(perceptron(), backend="aot_eager"))
    return train(torch.compile(DistributedDataParallel(perceptron()), backend="aot_eager"))


def scaled() -> nn.Module:
    """Mixed precision. The first batch overflows: the scaler leaves out that step."""
    model = DistributedDataParallel(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler("cpu")
    for number, inputs in enumerate(batches(STEPS + 1)):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(inputs if number else inputs * 1e38).square().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return model


def hooked() -> nn.Module:
    """A communication hook of the script's own: half the bits of a gradient."""
    called = []

    def halved(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        called.append(bucket.index())
        half = bucket.buffer().to(torch.bfloat16).div_(dist.get_world_size())
        future = dist.all_reduce(half, async_op=True).get_future()
        return future.then(lambda done: bucket.buffer().copy_(done.value()[0]))

    model = DistributedDataParallel(perceptron())
    model.register_comm_hook(None, halved)
    train(model)
    assert called == [0] * STEPS, "nobody has taken its hook"
    return model


if __name__ == "__main__":
    dist.init_process_group("gloo")
    left = {
        way.__name__: [own_part(parameter) for parameter in way().parameters()]
        for way in (by_hand, forked, sharded, wrapped, compiled, scaled, hooked)
    }
    torch.save(left, f"{sys.argv[1]}.{dist.get_rank()}")
    print("done\n", end="", flush=True)  # in one piece: ranks share a pipe
    dist.destroy_process_group()
