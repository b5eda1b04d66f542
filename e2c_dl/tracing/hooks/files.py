"""Files that a script writes: CHECKPOINT is torch.save; traces of its own profilers are noted, to be archived."""

from __future__ import annotations

import os
from threading import get_ident, main_thread
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.hooks.modules import outermost_of
from e2c_dl.tracing.hooks.patches import Function, Patches

if TYPE_CHECKING:
    from e2c_dl.tracing.tracer import Tracer


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook torch.save and torch.profiler's export."""
    import torch
    from torch.profiler import profile

    outermost, main = outermost_of(tracer), main_thread().ident

    def saved(original: Function) -> Function:
        def save(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != main:
                return original(*args, **kwargs)
            session = tracer.session
            outermost.forget()  # a model is saved as it would be without them
            if session is not None:
                session.enter(Phase.CHECKPOINT)
            try:
                return original(*args, **kwargs)
            finally:
                if session is not None:
                    session.leave()
                outermost.again()

        return save

    def exported(original: Function) -> Function:
        def export_chrome_trace(self: Any, path: Any) -> Any:
            result = original(self, path)
            if tracer.session is not None:
                tracer.session.wrote(os.path.abspath(path))
            return result

        return export_chrome_trace

    patches.wrap(torch, "save", saved)
    patches.wrap(profile, "export_chrome_trace", exported)
