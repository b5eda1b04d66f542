"""A rank of DistributedDataParallel over gloo: model, data, batches and pace of the scenario in HOST_DIR/scenario.

``python -m benchmarks.systems.ddp``, with the environment of ``benchmarks.script_bed.torch_environ``. What is drawn,
the model at the start, and how long computing takes are ours: its buckets are held back as our workers' are, by the
scenario's profile. Everything between ranks is torch's. Rank 0 evaluates its model now and then, at its own cost, as
our rank 0 does. Left in HOST_DIR/told.jsonl, a line per evaluation::

    {"at_s": 12.3, "iteration": 20, "accuracy": 0.21, "sent_bytes": 41234567}      accuracy: rank 0's alone
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from e2c_dl.drivers.live.stored import stored_segments_s
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.training import datasets, models
from e2c_dl.training.compute import make_deterministic
from e2c_dl.training.flat import buckets
from e2c_dl.training.pacing import PacedGradient, Pacing, SegmentTimes
from e2c_dl.training.samples import Samples

TOLD = "told.jsonl"
SCENARIO = "scenario"


class Paced:
    """Holds each gradient of ``model`` back until ``host`` would have computed it, bucket by bucket."""

    def __init__(self, model: nn.Module, scenario: Scenario, host: str, samples: int) -> None:
        training, parameters = scenario.training, list(model.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        where, bucket_of = buckets(sizes, parameters[0].element_size(), training.bucket_bytes)
        self.pacing = Pacing((scenario.compute.cores or 1.0) / scenario.emulated_factor(host))
        segments_s = stored_segments_s(scenario, samples, len(where))
        if segments_s is None:
            raise RuntimeError(f"{scenario.path} has no compute profile")
        none_fixed = (0.0,) * len(segments_s)
        self.pacing.calibrated(SegmentTimes(samples=samples, seconds=tuple(segments_s), fixed=none_fixed))
        self._samples, self._counts = samples, [bucket_of.count(bucket) for bucket in range(len(where))]
        self._missing: list[int] = []
        self._gradient: PacedGradient
        for parameter, bucket in zip(parameters, bucket_of, strict=True):
            # it is called before DistributedDataParallel hears that this gradient is there
            parameter.register_post_accumulate_grad_hook(self._hook(bucket))  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        """A gradient begins: its samples are drawn next."""
        self._missing = list(self._counts)
        self._gradient = self.pacing.gradient(time.monotonic_ns(), self._samples)

    def forward_done(self) -> None:
        """Return when the forward pass may end."""
        self._gradient.segment(0)

    def _hook(self, bucket: int) -> Callable[[torch.Tensor], None]:
        def accumulated(_: torch.Tensor) -> None:
            self._missing[bucket] -= 1
            if not self._missing[bucket]:
                self._gradient.segment(bucket + 1)

        return accumulated


@torch.no_grad()
def accuracy_of(model: nn.Module, samples: Samples, pacing: Pacing) -> float:
    """On the test samples; it takes as long as it would on this host."""
    begin_ns, begin_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
    batches = [(labels, model(images).argmax(dim=1)) for images, labels in samples.tests()]
    pacing.once(begin_ns, time.thread_time_ns() - begin_cpu_ns)
    right = sum(int((labels == found).sum()) for labels, found in batches)
    return right / sum(len(labels) for labels, _ in batches)


def sent_bytes(device: str) -> int:
    """Bytes of frames, headers included, that ``device`` has sent."""
    lines = Path("/proc/self/net/dev").read_text(encoding="utf-8").splitlines()
    counters = {name.strip(): values.split() for name, _, values in (line.partition(":") for line in lines)}
    return int(counters[device][8])


def main() -> None:
    """Train for as long as the scenario says."""
    own, device = Path(os.environ["HOST_DIR"]), os.environ["GLOO_SOCKET_IFNAME"]
    scenario = load(own / SCENARIO)
    training = scenario.training
    make_deterministic()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    data = datasets.load(training.dataset, dtype=training.dtype, data_dir=training.data_dir, code=training.code)
    samples = Samples(data, training, rank=rank, size=size)
    model = models.build(
        training.model, seed=training.seed, dtype=models.dtype_of(training.dtype), shape=data.shape,
        classes=data.classes, code=training.code,
    )  # fmt: skip
    batch = training.batch_sizes[rank]
    paced = Paced(model, scenario, os.environ["HOST"], batch)
    wrapped = DistributedDataParallel(model, bucket_cap_mb=training.bucket_bytes / 2**20)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=training.learning_rate, momentum=training.momentum, weight_decay=training.weight_decay
    )
    dist.barrier()
    before, begin_s = sent_bytes(device), time.monotonic()
    with (own / TOLD).open("w", encoding="utf-8") as told:
        for iteration in itertools.count(1):
            paced.begin()
            images, labels = samples.draw(batch)
            optimizer.zero_grad()
            loss = functional.cross_entropy(wrapped(images), labels)
            paced.forward_done()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if iteration % training.evaluate_every:
                continue
            accuracy = accuracy_of(model, samples, paced.pacing) if rank == 0 else None
            at_s = time.monotonic() - begin_s
            line = {
                "at_s": at_s,
                "iteration": iteration,
                "accuracy": accuracy,
                "sent_bytes": sent_bytes(device) - before,
            }
            told.write(json.dumps(line) + "\n")
            goes_on = torch.tensor([at_s < training.ends.amount])
            dist.broadcast(goes_on, src=0)
            if not goes_on:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
