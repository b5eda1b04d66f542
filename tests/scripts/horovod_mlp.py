"""A perceptron on drawn digits with Horovod's optimizer, as Horovod's own page shows how to write one."""

import argparse

import horovod.torch as hvd
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--recorded", default="")
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(128, 64), torch.randint(0, 10, (128,)))
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank(), seed=1)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), backward_passes_per_step=args.passes
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    if args.recorded:
        hvd.start_timeline(args.recorded)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for number, (images, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            if (number + 1) % args.passes == 0:
                optimizer.step()
                optimizer.zero_grad()
    if args.recorded:
        hvd.stop_timeline()
    mean = hvd.allreduce(loss.detach(), name="loss")
    if hvd.rank() == 0 and args.out:
        torch.save(model.state_dict(), args.out)
    print(f"rank {hvd.rank()}: {float(loss.detach()):.6f}, {float(mean):.6f}")


if __name__ == "__main__":
    main()
