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
        self._passes = 0  # that it reduced
        self._reduces = False  # in the pass under way
        self.attach()

    @property
    def gone(self) -> bool:
        return self._module() is None

    def attach(self) -> None:
        """Ask its parameters, from the beginning."""
        self._passes = 0
        module = self._module()
        if module is not None:
            self.readiness.watch(_buckets(module))

    def forward(self, module: Any, grad_enabled: bool) -> None:
        """Its forward begins: it says now whether the pass to come is reduced."""
        self._reduces = grad_enabled and module.require_backward_grad_sync

    def begins(self) -> None:
        if not self._reduces or self._passes > LEARNING:
            return
        module = self._module()
        if module is None:
            return
        if self._passes == 1:  # it has ordered its buckets anew
            self.readiness.watch(_buckets(module))
        elif self._passes == LEARNING:
            self.readiness.settle()

    def ended(self, session: Session) -> Told:
        readiness = self.readiness
        at_ns = readiness.at_ns.copy()
        readiness.at_ns.clear()
        if not self._reduces:
            return (at_ns,)
        self._passes += 1
        self._reduces = False
        return at_ns, readiness.nbytes, self._group, session.next_seq(self._group, len(readiness.nbytes))


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

    def before_forward(original: Function) -> Function:
        def pre_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            parallel = modules.get(self)
            if parallel is not None and not torch.compiler.is_compiling():
                parallel.forward(self, torch.is_grad_enabled())
            return original(self, *args, **kwargs)

        return pre_forward

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
    patches.wrap(DistributedDataParallel, "_pre_forward", before_forward)
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
