"""Collectives of Horovod that scripts call themselves: COLLECTIVE, and AWAIT_COLLECTIVE where one waits.

Those of a process set are numbered in a group of its own, as only its members make them. What is begun by ``..._async``
lasts until ``synchronize``. Ranks that ``join`` have made fewer than the others: from there on all count anew, from the
next multiple of :data:`BETWEEN_JOINS`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.collectives import WORLD
from e2c_dl.trace.model import Collective, Phase
from e2c_dl.tracing.hooks.collectives import nbytes_of, record
from e2c_dl.tracing.hooks.patches import Function, Patches
from e2c_dl.tracing.hooks.unwaited import Joined
from e2c_dl.tracing.numbers import following

if TYPE_CHECKING:
    from e2c_dl.tracing.session import Session
    from e2c_dl.tracing.tracer import Tracer

KINDS = {
    "allreduce": Collective.ALL_REDUCE,
    "allreduce_": Collective.ALL_REDUCE,
    "grouped_allreduce": Collective.ALL_REDUCE,
    "grouped_allreduce_": Collective.ALL_REDUCE,
    "allgather": Collective.ALL_GATHER,
    "grouped_allgather": Collective.ALL_GATHER,
    "broadcast": Collective.BROADCAST,
    "broadcast_": Collective.BROADCAST,
    "broadcast_parameters": Collective.BROADCAST,
    "broadcast_optimizer_state": Collective.BROADCAST,
    "broadcast_object": Collective.BROADCAST,
    "allgather_object": Collective.ALL_GATHER,
    "alltoall": Collective.ALL_TO_ALL,
    "reducescatter": Collective.REDUCE_SCATTER,
    "grouped_reducescatter": Collective.REDUCE_SCATTER,
    "barrier": Collective.BARRIER,
    "join": Collective.BARRIER,
}
BEGUN = {
    "allreduce_async": Collective.ALL_REDUCE,
    "allreduce_async_": Collective.ALL_REDUCE,
    "grouped_allreduce_async": Collective.ALL_REDUCE,
    "grouped_allreduce_async_": Collective.ALL_REDUCE,
    "allgather_async": Collective.ALL_GATHER,
    "grouped_allgather_async": Collective.ALL_GATHER,
    "broadcast_async": Collective.BROADCAST,
    "broadcast_async_": Collective.BROADCAST,
    "alltoall_async": Collective.ALL_TO_ALL,
    "reducescatter_async": Collective.REDUCE_SCATTER,
    "grouped_reducescatter_async": Collective.REDUCE_SCATTER,
}
"""Those that return a handle, for ``synchronize``."""


class Called:
    """Collectives that the script calls itself; what one calls within is a part of it."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.within = False
        self._begun: dict[Any, Joined] = {}  # by handle

    def hook(self, hvd: Any, patches: Patches) -> None:
        """All of ``hvd``'s."""
        state = getattr(getattr(hvd, "elastic", None), "state", None)  # has some by their names
        for later, kinds in ((False, KINDS), (True, BEGUN)):
            for name, kind in kinds.items():
                if hasattr(hvd, name):
                    patches.wrap(hvd, name, self.around(kind, later=later, sized=not name.endswith("_object")), state)
        patches.wrap(hvd, "synchronize", self.waiting)
        if hasattr(hvd, "sparse_allreduce_async"):  # of two others, which the optimizer waits for in its own way
            patches.wrap(hvd, "sparse_allreduce_async", self.hiding, sys.modules[hvd.DistributedOptimizer.__module__])
        if hasattr(hvd, "join"):
            patches.wrap(hvd, "join", self.joining)

    def around(self, kind: Collective, *, later: bool, sized: bool) -> Callable[[Function], Function]:
        """One of ``kind``; ``later``: its handle is waited for; ``sized``: of tensors, not of whatever is pickled."""

        def wrapped(original: Function) -> Function:
            names = list(inspect.signature(original).parameters)
            at = names.index("process_set") if "process_set" in names else len(names)

            def call(*args: Any, **kwargs: Any) -> Any:
                session = self._recording()
                if session is None:
                    return original(*args, **kwargs)
                group = group_of(args[at] if len(args) > at else kwargs.get("process_set"))
                nbytes = nbytes_of(args[:1] or tuple(kwargs.values())[:1]) if sized else 0
                joined = Joined(session.clock(), kind, session.next_seq(group), group, nbytes)
                with self._within(session):
                    if not later:
                        return _awaited(session, joined, lambda: original(*args, **kwargs))
                    handle = original(*args, **kwargs)
                self._begun[handle] = joined
                return handle

            return call

        return wrapped

    def waiting(self, original: Function) -> Function:
        """``hvd.synchronize(handle)``: a wait, for a collective that was begun."""

        def synchronize(*args: Any, **kwargs: Any) -> Any:
            session = self._recording()
            if session is None:
                return original(*args, **kwargs)
            joined = self._begun.pop(args[0] if args else kwargs.get("handle"), None)
            return _awaited(session, joined, lambda: original(*args, **kwargs))

        return synchronize

    def hiding(self, original: Function) -> Function:
        """What is called within is none of the script's."""

        def call(*args: Any, **kwargs: Any) -> Any:
            session = self._recording()
            if session is None:
                return original(*args, **kwargs)
            with self._within(session):
                return original(*args, **kwargs)

        return call

    def joining(self, original: Function) -> Function:
        """``hvd.join()``, the collective of ranks of which each has made as many as it had data for."""

        def join(*args: Any, **kwargs: Any) -> Any:
            session = self._tracer.session
            if session is not None:
                session.count_passed()
                session.seqs[WORLD] = following(session.seqs.get(WORLD, 0))
            return original(*args, **kwargs)

        return join

    def _recording(self) -> Session | None:
        """The session, unless the call is a part of another, or of a thread that does not train."""
        session = self._tracer.session
        return None if session is None or self.within or session.task() != 0 else session

    @contextmanager
    def _within(self, session: Session) -> Iterator[None]:
        self.within = session.preparing = True
        try:
            yield
        finally:
            self.within = session.preparing = False


def _awaited(session: Session, joined: Joined | None, act: Callable[[], Any]) -> Any:
    """What ``act`` gives, which waits for ``joined``; None is one that nobody knows."""
    seq, group = (-1, WORLD) if joined is None else (joined.seq, joined.group)
    session.enter(Phase.AWAIT_COLLECTIVE, seq=seq, peer_task=group)
    try:
        return act()
    finally:
        end_ns = session.leave()
        if joined is not None:
            record(session, joined, end_ns, task=0)


def group_of(process_set: Any) -> int:
    """Number of Horovod's ``process_set``; None, and the one of all ranks, is that of all."""
    return getattr(process_set, "process_set_id", None) or WORLD
