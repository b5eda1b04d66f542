"""The one tracer of this process, and the hooks that each module takes when it is imported."""

from __future__ import annotations

import os

from e2c_dl.tracing.hooks import (
    backward,
    collectives,
    files,
    loaders,
    modules,
    optimizers,
    parallel,
    with_horovod,
)  # fmt: skip
from e2c_dl.tracing.settings import Settings
from e2c_dl.tracing.tracer import Tracer

HOOKS = {
    "torch": (
        optimizers.install, loaders.install, modules.install, backward.install, parallel.install, collectives.install,
        files.install, files.install_exports,
    ),
    "torch._dynamo.eval_frame": (modules.install_compiled,),
    "torch.distributed._functional_collectives": (collectives.install_functional,),
    "torch.distributed.tensor.parallel.api": (collectives.install_tensor_parallel,),
    "torch.distributed.checkpoint.state_dict_saver": (files.install_sharded,),
    "safetensors.torch": (files.install_safetensors,),
    "horovod.torch": (with_horovod.install,),
}  # fmt: skip

_TRACERS: list[Tracer] = []


def tracer(settings: Settings | None = None) -> Tracer | None:
    """This process's; made if there is none and ``settings``, or the environment, say where to. None: nothing is."""
    if not _TRACERS:
        found = settings or Settings.of(os.environ)
        if found is None:
            return None
        _TRACERS.append(Tracer(found, HOOKS))
    return _TRACERS[0]


def imported(name: str) -> None:
    """What sitecustomize tells: ``name`` was imported."""
    found = tracer()
    if found is not None:
        found.imported(name)
