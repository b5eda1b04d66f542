"""A convolutional network on drawn images, over gloo: what a script of torch's own documentation looks like."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    data = TensorDataset(torch.randn(128, 1, 16, 16), torch.randint(0, 10, (128,)))
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=16, sampler=sampler, num_workers=args.workers)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 256), nn.ReLU(),
        nn.Linear(256, 10),
    )  # fmt: skip
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.1)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for number, (images, labels) in enumerate(loader):
            last = (number + 1) % args.accumulate == 0
            with torch.autocast("cpu", torch.bfloat16, enabled=args.amp):
                if last:
                    loss = nn.functional.cross_entropy(ddp(images), labels)
                    loss.backward()
                else:
                    with ddp.no_sync():
                        loss = nn.functional.cross_entropy(ddp(images), labels)
                        loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
        ddp.eval()
        with torch.no_grad():
            right = (ddp(data.tensors[0]).argmax(1) == data.tensors[1]).sum()
        ddp.train()
        dist.all_reduce(right)
    if rank == 0 and args.out:
        torch.save(model.state_dict(), args.out)
    print(f"rank {rank}: {float(loss):.6f}, {int(right)}\n", end="", flush=True)  # in one piece: ranks share a pipe
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
