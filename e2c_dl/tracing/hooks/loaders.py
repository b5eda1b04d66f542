"""Data loaders: DATA is the time until the loader's next batch is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.hooks.patches import Function, Patches

if TYPE_CHECKING:
    from e2c_dl.tracing.tracer import Tracer


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook ``next`` of every DataLoader, with workers or without."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    def timed(original: Function) -> Function:
        def __next__(self: Any) -> Any:  # noqa: N807
            session = tracer.session
            if session is None or session.task() != 0:
                return original(self)
            session.active()
            session.lane.enter(Phase.DATA)
            try:
                return original(self)
            finally:
                session.lane.leave()

        return __next__

    patches.wrap(_BaseDataLoaderIter, "__next__", timed)
