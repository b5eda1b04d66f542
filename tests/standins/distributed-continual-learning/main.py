"""Stand-in for the application of the published Horovod scenarios: the same command line, a small model, real training.

Reads ``lr`` and ``batch_size`` of its configuration, trains a classifier of synthetic points, and writes
``results/CONFIG/metrics.csv``. Prints a checksum of its weights: it must be the same on all ranks.
"""

import argparse
import zlib
from pathlib import Path

import horovod.torch as hvd
import torch
import yaml

STEPS, FEATURES, CLASSES, MOST = 20, 32, 4, 16


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--checkpoint")
    parser.add_argument("--save-dir", type=Path, default=Path())
    return parser.parse_args()


def main() -> None:
    said = arguments()
    settings = yaml.safe_load(Path("config.yaml").read_text())[said.config]
    torch.set_num_threads(1)
    hvd.init()
    torch.manual_seed(hvd.rank())  # weights differ until they are broadcast, samples all the time
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=8 * settings["lr"])
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))
    losses = []
    for _ in range(STEPS):
        labels = torch.randint(CLASSES, (min(MOST, settings["batch_size"]),))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(centres[labels] + torch.randn(len(labels), FEATURES)), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(hvd.allreduce(loss.detach())))
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"rank {hvd.rank()} of {hvd.size()}, local {hvd.local_rank()}: weights {zlib.crc32(weights):08x}", flush=True)
    if hvd.rank() == 0:
        place = said.save_dir / "results" / said.config
        place.mkdir(parents=True, exist_ok=True)
        (place / "metrics.csv").write_text("".join(f"{step},{loss}\n" for step, loss in enumerate(losses)))
    hvd.shutdown()


if __name__ == "__main__":
    main()
