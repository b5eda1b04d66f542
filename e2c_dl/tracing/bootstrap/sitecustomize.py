"""Begun by Python itself, from PYTHONPATH: a rank is given its slot's GPU, and the tracer, where these are asked for.

The tracer is attached to any process that imports torch or Horovod. This only watches, and notes with which status the
script exits: neither torch nor this project is imported until the script imports torch. At last the ``sitecustomize``
that this one hides is run.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

WATCHED = (
    "torch", "torch._dynamo.eval_frame", "torch.distributed._functional_collectives",
    "torch.distributed.tensor.parallel.api",
    "torch.distributed.checkpoint.state_dict_saver", "safetensors.torch", "horovod.torch",
)  # fmt: skip
SLOTS = ("HOROVOD_LOCAL_RANK", "LOCAL_RANK")
GPUS = "CUDA_VISIBLE_DEVICES"
HERE = Path(__file__).resolve().parent


class Watcher:
    """A finder that lets the others find, and tells the tracer when a watched module is there."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in WATCHED:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)  # those of before Python 3.4 have none, and are passed over
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                return _told(spec)
        return None


def _told(spec: importlib.machinery.ModuleSpec) -> importlib.machinery.ModuleSpec:
    """``spec``, whose module is told to the tracer once it was executed."""
    loader = spec.loader
    if loader is None:
        return spec
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _imported(spec.name)

    loader.exec_module = exec_module  # type: ignore[method-assign]  # of this module's own loader
    return spec


def _imported(name: str) -> None:
    try:
        _own_package()
        from e2c_dl.tracing.attached import imported

        imported(name)
    except Exception as error:  # noqa: BLE001  # a script is never stopped by what only watches it
        with suppress(Exception):
            sys.stderr.write(f"e2c-dl: {name} is not traced: {type(error).__name__}: {error}\n")


def _own_package() -> None:
    """e2c_dl can be imported: the one beside this file, whatever else that interpreter has."""
    if "e2c_dl" in sys.modules:
        return
    folder = HERE.parent.parent
    spec = importlib.util.spec_from_file_location(
        "e2c_dl", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    sys.modules["e2c_dl"] = importlib.util.module_from_spec(spec)
    _execute(spec, sys.modules["e2c_dl"])


def _execute(spec: importlib.machinery.ModuleSpec, module: ModuleType) -> None:
    assert spec.loader is not None
    spec.loader.exec_module(module)


def _note_exits() -> None:
    """Before a script has looked ``sys.exit`` up."""
    spec = importlib.util.spec_from_file_location("e2c_dl.tracing.exits", HERE.parent / "exits.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)  # of nobody else: the package is not imported
    _execute(spec, module)
    module.noted()


def gpu_of_slot(environ: Mapping[str, str], devices: Sequence[str]) -> str | None:
    """The GPU that a rank is to see: as many slots as GPUs, one each; None for what is no rank, or where there is none.

    ``devices`` are the machine's; of those, what CUDA_VISIBLE_DEVICES names counts, where it is set. More slots than
    GPUs share them in turn, which is said on standard error.
    """
    slot = next((environ[name] for name in SLOTS if environ.get(name, "").isdecimal()), None)
    named = [device.strip() for device in environ[GPUS].split(",")] if GPUS in environ else list(devices)
    seen = [device for device in named if device]
    if slot is None or not seen:
        return None
    if int(slot) >= len(seen):
        sys.stderr.write(f"e2c-dl: slot {slot} has no GPU of its own, as there are {len(seen)}: it shares one\n")
    return seen[int(slot) % len(seen)]


def _take_gpu() -> None:
    """Processes that this one starts, such as those that load data, have the same."""
    nodes = [path for path in Path("/dev").glob("nvidia[0-9]*") if path.name[6:].isdecimal()]
    device = gpu_of_slot(os.environ, [str(number) for number in range(len(nodes))])
    if device is not None:
        os.environ[GPUS], os.environ["E2CDL_GPU"] = device, "taken"


def _run_hidden() -> None:
    """The user's own sitecustomize, which stands later on the path, takes this one's place."""
    rest = [folder for folder in sys.path if Path(folder).resolve() != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    _execute(spec, module)


if os.environ.get("E2CDL_GPU") == "slot":
    _take_gpu()
_rank = os.environ.get("E2CDL_RANK_PROCESS", "")
if os.environ.get("E2CDL_TRACE") and _rank in ("", str(os.getpid())):  # what a rank begins is none
    sys.meta_path.insert(0, Watcher())
    _note_exits()
_run_hidden()
