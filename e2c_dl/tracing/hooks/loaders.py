"""Data loaders: DATA is the time until the loader's next batch is there."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.hooks.calls import compiling_of, leave_uncompiled
from e2c_dl.tracing.hooks.patches import Function, Patches

if TYPE_CHECKING:
    from e2c_dl.tracing.tracer import Tracer


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook ``next`` of every DataLoader, with workers or without."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    from e2c_dl.tracing.session import MANY_EVENTS, Session

    clock, data, compiling = Session.clock, Phase.DATA, compiling_of(tracer)

    def timed(original: Function) -> Function:
        def __next__(self: Any) -> Any:  # noqa: N807
            if compiling.looks and compiling.looks():
                return original(self)
            session = tracer.session
            if session is None or get_ident() != session.main:
                return original(self)
            if session.begun_ns is None:
                session.active()
            events = session.events
            if len(events) >= MANY_EVENTS:
                session.relieve()
            events.append((session.entered, clock(), data))
            try:
                return original(self)
            finally:
                events.append((session.closed, clock()))

        leave_uncompiled(__next__)
        return __next__

    patches.wrap(_BaseDataLoaderIter, "__next__", timed)
