"""DistributedDataParallel: its buckets, when they are ready, and how long a rank waits for the others within backward.

Its all-reduce runs inside of backward, which so lasts equally long on every rank. What a rank computes itself ends when
its last gradient is complete; what is left until backward returns is AWAIT_COLLECTIVE. Which parameter is in which
bucket is asked of DDP, which orders them anew after the first pass; its communication hook stays the user's.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.model import Collective, Phase
from e2c_dl.tracing.hooks.backward import LEARNING, Readiness, backward_of
from e2c_dl.tracing.hooks.groups import number_of
from e2c_dl.tracing.hooks.patches import Function, Patches
from e2c_dl.tracing.lane import Told

if TYPE_CHECKING:
    from e2c_dl.tracing.session import Session
    from e2c_dl.tracing.tracer import Tracer


class Parallel:
    """One DistributedDataParallel module."""

    def __init__(self, module: Any, tracer: Tracer) -> None:
        from e2c_dl.tracing.session import Session

        self.readiness = Readiness(Session.clock)
        self._tracer = tracer
        self._module = weakref.ref(module)
        self._group = number_of(module.process_group)
        self._passes = 0  # that it reduced, as far as it learns
        self._newest: dict[int, int] = {}  # times of the newest pass, if that is reduced: not counted yet
        self.attach()

    @property
    def gone(self) -> bool:
        return self._module() is None

    def attach(self) -> None:
        """Ask its parameters, from the beginning."""
        self._passes, self._newest = 0, {}
        module = self._module()
        if module is not None:
            self.readiness.watch(_buckets(module))

    def begins(self, session: Session) -> Told:
        """Its forward has said whether this pass is reduced: what DDP itself goes by."""
        readiness, module = self.readiness, self._module()
        at_ns: dict[int, int] = {}
        readiness.at_ns = at_ns
        if module is None or not module.require_forward_param_sync:
            return (at_ns,)
        if self._passes < LEARNING:
            self._learn(module)
            self._newest = at_ns
        return at_ns, readiness.nbytes, self._group, session.seqs.get(self._group, 0)

    def _learn(self, module: Any) -> None:
        """Count the pass before, if it was its own; after the first DDP orders its buckets anew."""
        self._passes += bool(self._newest)
        if self._passes == 1:
            self.readiness.watch(_buckets(module))
        elif self._passes == LEARNING:
            self.readiness.settle()


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook every DistributedDataParallel module, there is or will be."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    backward = backward_of(tracer)
    modules: weakref.WeakKeyDictionary[Any, Parallel] = tracer.parts.setdefault("ddp", weakref.WeakKeyDictionary())

    def built(original: Function) -> Function:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            tracer.sign().hooked("DistributedDataParallel")
            backward.reducing[:] = [each for each in backward.reducing if not getattr(each, "gone", False)]
            modules[self] = Parallel(self, tracer)
            backward.reducing.append(modules[self])

        return init

    def synchronized(original: Function) -> Function:
        def sync_buffers(self: Any) -> Any:
            session = tracer.session
            if session is None or torch.compiler.is_compiling():
                return original(self)
            group = number_of(self.process_group)
            seq = session.next_seq(group)
            start_ns = session.enter(Phase.AWAIT_COLLECTIVE, seq=seq, peer_task=group)
            try:
                return original(self)
            finally:
                end_ns = session.leave()
                nbytes = sum(each.numel() * each.element_size() for each in self.modules_buffers)
                session.record(
                    Phase.COLLECTIVE, start_ns, end_ns, seq=seq, nbytes=nbytes, kind=Collective.BROADCAST,
                    peer_task=group,
                )  # fmt: skip

        return sync_buffers

    patches.wrap(DistributedDataParallel, "__init__", built)
    patches.wrap(DistributedDataParallel, "_sync_buffers", synchronized)
    for parallel in modules.values():
        parallel.attach()
        backward.reducing.append(parallel)

    def undo() -> None:
        for parallel in modules.values():
            parallel.readiness.forget()
        backward.reducing[:] = [each for each in backward.reducing if not isinstance(each, Parallel)]

    patches.on_undo(undo)


def _buckets(module: Any) -> list[list[Any]]:
    """The parameters of each bucket, as DDP itself has them now."""
    return [list(bucket.parameters()) for bucket in module.reducer._get_zeros_like_grad_buckets()]
