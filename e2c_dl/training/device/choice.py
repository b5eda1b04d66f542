"""The mathematics of a rank on what its scenario says, and what is wrong with a host that cannot offer that."""

from __future__ import annotations

import os

import torch

from e2c_dl.errors import InputError
from e2c_dl.scenario.model import Training
from e2c_dl.training.compute import TorchCompute, torch_facts
from e2c_dl.training.device.compute import DeviceCompute
from e2c_dl.training.device.events import CudaEvents
from e2c_dl.training.pacing import Pacing

CUDA = "cuda"


def compute_on(
    training: Training, *, rank: int, size: int, slot: int = 0, pacing: Pacing | None = None
) -> TorchCompute:
    """On the processor, or on the GPU number ``slot`` of this host. Raises: InputError, if there is none."""
    if training.device != CUDA:
        return TorchCompute(training, rank=rank, size=size, pacing=pacing)
    wrong = cuda_problem(slot)
    if wrong:
        raise InputError(f"device cuda: {wrong}, or write device: cpu")
    # cuBLAS adds up in one order only where its memory is fixed, before it is first used.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.cuda.set_device(slot)
    return DeviceCompute(training, CudaEvents(slot), rank=rank, size=size, pacing=pacing)


def cuda_problem(slot: int = 0) -> str:
    """Why the GPU number ``slot`` of this host cannot be computed on, and what to do; empty: it can."""
    if not torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        return f"torch {torch.__version__} on this host is built without CUDA; install a build with it"
    if not torch.cuda.is_available():
        return "CUDA finds no GPU on this host; see what nvidia-smi says"
    count = torch.cuda.device_count()
    if slot >= count:
        return f"this host has {count} GPUs for {slot + 1} ranks or more, and each takes one; use more hosts"
    return ""


def device_facts(training: Training, slot: int) -> dict[str, str | int]:
    """What of torch decides bits and speed: on a GPU, that too."""
    if training.device != CUDA:
        return torch_facts()
    properties = torch.cuda.get_device_properties(slot)
    return {
        **torch_facts(),
        "device": f"{CUDA}:{slot}",
        "device_name": properties.name,
        "device_uuid": f"GPU-{properties.uuid}",
        "cuda": str(torch.version.cuda),
    }
