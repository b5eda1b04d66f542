"""Horovod: its optimizer's all-reduces, the collectives that scripts call themselves, and its timeline.

Its optimizer joins an all-reduce per parameter as gradients come, and waits for all in ``synchronize`` within ``step``.
Parameters are put together into at most :data:`MOST_BUCKETS` buckets of about equal size, in the reverse of the order
in which the optimizer has them, which is the same on every rank: what Horovod fuses cannot be seen from outside.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.collectives import WORLD
from e2c_dl.trace.model import Collective, Phase
from e2c_dl.tracing.hooks.backward import LEARNING, Readiness, backward_of
from e2c_dl.tracing.hooks.collectives import nbytes_of
from e2c_dl.tracing.hooks.files import horovod_timeline
from e2c_dl.tracing.hooks.patches import Function, Patches
from e2c_dl.tracing.key_value import exchange
from e2c_dl.tracing.lane import Told

if TYPE_CHECKING:
    from e2c_dl.tracing.session import Session
    from e2c_dl.tracing.tracer import Tracer

MOST_BUCKETS = 8
FUSED = "Horovod decides what it fuses: a bucket here is a group of parameters next to each other"
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
    "barrier": Collective.BARRIER,
    "join": Collective.BARRIER,
}


class Distributed:
    """One of Horovod's optimizers."""

    def __init__(self, optimizer: Any) -> None:
        from e2c_dl.tracing.session import Session

        self.readiness = Readiness(Session.clock)
        self._optimizer = weakref.ref(optimizer)
        self.before: dict[int, int] = {}  # when buckets were ready before the pass under way, or over last
        self._passes = 0  # as far as it learns
        self.attach()

    @property
    def gone(self) -> bool:
        return self._optimizer() is None

    def attach(self) -> None:
        """Ask its parameters, from the beginning."""
        self._passes = 0
        optimizer = self._optimizer()
        if optimizer is not None:
            parameters = [each for group in optimizer.param_groups for each in group["params"] if each.requires_grad]
            self.readiness.watch(split(parameters[::-1]))

    def begins(self, session: Session) -> Told:
        """Nothing is waited for within; when buckets were ready is kept for ``synchronize``."""
        if self._passes <= LEARNING:
            if self._passes == LEARNING:
                self.readiness.settle()
            self._passes += 1
        readiness = self.readiness
        self.before = readiness.at_ns or self.before
        readiness.at_ns = {}
        return (readiness.at_ns,)


def split(parameters: Sequence[Any], most: int = MOST_BUCKETS) -> list[list[Any]]:
    """``parameters`` in order, as at most ``most`` buckets of about equal bytes; none is empty."""
    total = sum(map(nbytes_of, parameters))
    buckets: list[list[Any]] = [[]]
    filled = 0
    for parameter in parameters:
        if buckets[-1] and filled * most >= total * len(buckets):
            buckets.append([])
        buckets[-1].append(parameter)
        filled += nbytes_of(parameter)
    return [bucket for bucket in buckets if bucket]


class Hooks:
    """What stands around Horovod's functions, and those of its optimizers: each has a class of its own."""

    def __init__(self, tracer: Tracer, patches: Patches, hvd: Any) -> None:
        self._tracer, self._patches, self._hvd = tracer, patches, hvd
        self._backward = backward_of(tracer)
        self.optimizers: weakref.WeakKeyDictionary[Any, Distributed] = tracer.parts.setdefault(
            "horovod", weakref.WeakKeyDictionary()
        )

    def attach(self) -> None:
        """Those that are there are asked for their gradients again."""
        for optimizer, distributed in self.optimizers.items():
            distributed.attach()
            self._reduces(optimizer, distributed)

    def detach(self) -> None:
        for distributed in self.optimizers.values():
            distributed.readiness.forget()
        self._backward.reducing[:] = [each for each in self._backward.reducing if not isinstance(each, Distributed)]

    def initialised(self, original: Function) -> Function:
        tracer, hvd = self._tracer, self._hvd

        def init(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            session = tracer.sign()
            session.hooked("horovod.torch")
            session.limited(FUSED)
            session.meet(hvd.rank(), hvd.size(), exchange(hvd))
            tracer.opened(session)
            timeline = horovod_timeline()
            if timeline and hvd.rank() == 0:
                session.wrote(timeline)
            return result

        return init

    def timeline_started(self, original: Function) -> Function:
        def start_timeline(file_path: Any, *args: Any, **kwargs: Any) -> Any:
            if self._tracer.session is not None and self._hvd.rank() == 0:
                self._tracer.session.wrote(file_path)
            return original(file_path, *args, **kwargs)

        return start_timeline

    def made(self, original: Function) -> Function:
        def build(*args: Any, **kwargs: Any) -> Any:
            built = original(*args, **kwargs)
            if self._hvd.size() > 1 and hasattr(built, "synchronize"):
                self._tracer.sign().hooked("horovod.torch.DistributedOptimizer")
                reducing = self._backward.reducing
                reducing[:] = [each for each in reducing if not getattr(each, "gone", False)]
                self.optimizers[built] = Distributed(built)
                self._reduces(built, self.optimizers[built])
            return built

        return build

    def _reduces(self, optimizer: Any, distributed: Distributed) -> None:
        """Ask ``distributed`` about each backward; its ``synchronize`` is hooked, a copy that only its class has."""
        self._backward.reducing.append(distributed)
        self._patches.wrap(type(optimizer), "synchronize", self._waiting(distributed))

    def _waiting(self, distributed: Distributed) -> Callable[[Function], Function]:
        tracer, its, clock = self._tracer, weakref.ref(distributed), distributed.readiness.clock

        def around(original: Function) -> Function:
            def synchronize(*args: Any, **kwargs: Any) -> Any:
                session, distributed = tracer.session, its()
                if session is None or distributed is None:
                    return original(*args, **kwargs)
                if session.passed:
                    session.count_passed()
                readiness, seqs = distributed.readiness, session.seqs
                ready, nbytes = readiness.at_ns or distributed.before, readiness.nbytes
                distributed.before, readiness.at_ns = {}, {}
                seq = seqs.get(WORLD, 0)  # as next_seq, a frame less: see Session
                seqs[WORLD] = seq + len(nbytes)
                start_ns = clock()
                try:
                    return original(*args, **kwargs)
                finally:
                    session.events.append((session.awaited_all, start_ns, clock(), ready, nbytes, seq))

            return synchronize

        return around


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook horovod.torch: init, its optimizer, its collectives."""
    import horovod.torch as hvd

    hooks, called = Hooks(tracer, patches, hvd), Called(tracer)
    patches.wrap(hvd, "init", hooks.initialised)
    patches.wrap(hvd, "start_timeline", hooks.timeline_started)
    patches.wrap(hvd, "DistributedOptimizer", hooks.made)
    for name, kind in KINDS.items():
        if hasattr(hvd, name):
            patches.wrap(hvd, name, called.around(kind))
    patches.wrap(hvd, "synchronize", called.waiting)
    hooks.attach()
    patches.on_undo(hooks.detach)


class Called:
    """Collectives that the script calls itself; what one calls within is a part of it."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._within = False

    def around(self, kind: Collective) -> Any:
        def wrapped(original: Function) -> Function:
            def call(*args: Any, **kwargs: Any) -> Any:
                session = self._tracer.session
                if session is None or self._within or session.task() != 0:
                    return original(*args, **kwargs)
                seq = session.next_seq()
                nbytes = nbytes_of(args[0]) if args else 0
                self._within = session.preparing = True
                start_ns = session.enter(Phase.AWAIT_COLLECTIVE, seq=seq)
                try:
                    return original(*args, **kwargs)
                finally:
                    self._within = session.preparing = False
                    session.record(Phase.COLLECTIVE, start_ns, session.leave(), seq=seq, nbytes=nbytes, kind=kind)

            return call

        return wrapped

    def waiting(self, original: Function) -> Function:
        """``hvd.synchronize(handle)``: a wait; which collective it is for is not known."""

        def synchronize(*args: Any, **kwargs: Any) -> Any:
            session = self._tracer.session
            if session is None or self._within or session.task() != 0:
                return original(*args, **kwargs)
            session.enter(Phase.AWAIT_COLLECTIVE)
            try:
                return original(*args, **kwargs)
            finally:
                session.leave()

        return synchronize
