"""Files that a script writes: CHECKPOINT is what saves a model; traces of its own profilers are noted, to be archived.

Models are saved by ``torch.save``, by safetensors (as libraries of Hugging Face do) and, of sharded ones, by
``torch.distributed.checkpoint``, within which ranks wait for each other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from threading import get_ident, main_thread
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.hooks.calls import end_graphs
from e2c_dl.tracing.hooks.outermost import outermost_of
from e2c_dl.tracing.hooks.patches import Function, Patches

if TYPE_CHECKING:
    from e2c_dl.tracing.tracer import Tracer


_DYNAMIC = "DYNAMIC"  # it names no file: the script calls start_timeline, which does


def horovod_timeline() -> str | None:
    """The file that HOROVOD_TIMELINE names, which Horovod's rank 0 writes; None: it names none."""
    named = os.environ.get("HOROVOD_TIMELINE")
    return named if named and named != _DYNAMIC else None


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook torch.save."""
    import torch

    patches.wrap(torch, "save", _saving(tracer))


def install_safetensors(tracer: Tracer, patches: Patches) -> None:
    """Hook what safetensors saves."""
    from safetensors import torch as safetensors

    for name in ("save", "save_file"):
        patches.wrap(safetensors, name, _saving(tracer))


def install_sharded(tracer: Tracer, patches: Patches) -> None:
    """Hook what torch.distributed.checkpoint saves; of what it saves later, in a thread of its own, the copy."""
    from torch.distributed.checkpoint import state_dict_saver

    for name in ("save", "save_state_dict", "async_save"):
        patches.wrap(state_dict_saver, name, _saving(tracer))


def _saving(tracer: Tracer) -> Callable[[Function], Function]:
    outermost, main = outermost_of(tracer), main_thread().ident

    def around(original: Function) -> Function:
        def save(*args: Any, **kwargs: Any) -> Any:
            session = tracer.session
            if get_ident() != (main if session is None else session.main):
                return original(*args, **kwargs)
            with outermost.unhooked():  # a model is saved as it would be without them
                if session is not None:
                    session.enter(Phase.CHECKPOINT)
                try:
                    return original(*args, **kwargs)
                finally:
                    if session is not None:
                        session.leave()

        end_graphs(save)
        return save

    return around


def install_exports(tracer: Tracer, patches: Patches) -> None:
    """Hook the export of torch.profiler, and of torch.autograd.profiler, which the former calls."""
    from torch.autograd.profiler import profile
    from torch.profiler.profiler import _KinetoProfile  # what torch.profiler.profile and classes of others' are made of

    exporting = threading.local()

    def exported(original: Function) -> Function:
        def export_chrome_trace(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(exporting, "under_way", False):  # by the other, into a file that may be temporary
                return original(self, path, *args, **kwargs)
            exporting.under_way = True
            try:
                result = original(self, path, *args, **kwargs)
            finally:
                exporting.under_way = False
            if tracer.session is not None:
                tracer.session.wrote(path)
            return result

        return export_chrome_trace

    for each in (_KinetoProfile, profile):
        patches.wrap(each, "export_chrome_trace", exported)
