"""Horovod: its optimizer's all-reduces, and its timeline.

Its optimizer joins an all-reduce per parameter as gradients come, and waits for all in ``synchronize`` within ``step``.
Parameters are put together into at most :data:`MOST_BUCKETS` buckets of about equal size, in the reverse of the order
in which the optimizer has them, which is the same on every rank: what Horovod fuses cannot be seen from outside.
Those that a script calls itself are :mod:`e2c_dl.tracing.hooks.horovod_calls`'s.

``hvd.elastic`` begins Horovod anew when ranks come or go. Those that stay tell how far they have counted collectives,
and all go on from there; the launcher's server has forgotten them, so that who comes would wait for them.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.collectives import WORLD
from e2c_dl.tracing.hooks.backward import LEARNING, Readiness, backward_of, leave
from e2c_dl.tracing.hooks.collectives import nbytes_of
from e2c_dl.tracing.hooks.files import horovod_timeline
from e2c_dl.tracing.hooks.horovod_calls import Called, group_of
from e2c_dl.tracing.hooks.optimizers import sure_to_end
from e2c_dl.tracing.hooks.patches import Function, Patches
from e2c_dl.tracing.key_value import exchange
from e2c_dl.tracing.lane import Told
from e2c_dl.tracing.numbers import following
from e2c_dl.tracing.rendezvous import Exchange, tell

if TYPE_CHECKING:
    from e2c_dl.tracing.session import Session
    from e2c_dl.tracing.tracer import Tracer

MOST_BUCKETS = 8
COUNTED = "counted"  # of what a rank tells the others: the number of its next collective
ANEW = "Horovod began anew, as ranks came or went (elastic): collectives of fewer than all ranks explain no wait"
FUSED = "Horovod decides what it fuses: a bucket here is a group of parameters next to each other"


class Distributed:
    """One of Horovod's optimizers."""

    def __init__(self, optimizer: Any) -> None:
        from e2c_dl.tracing.session import Session

        self.readiness = Readiness(Session.clock)
        self.group = group_of(getattr(optimizer, "process_set", None))
        self._optimizer = weakref.ref(optimizer)
        self.before: dict[int, int] = {}  # when buckets were ready before the pass under way, or over last
        self._passes = 0  # as far as it learns
        self.attach()

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


def go_on(session: Session, rank: int, place: Exchange) -> None:
    """Horovod has begun anew, and ``session`` goes on as ``rank``: whoever comes finds it, and its next number."""
    session.limited(ANEW)
    if session.ranks is None:
        return
    session.count_passed()
    session.seqs[WORLD] = following(session.seqs.get(WORLD, 0))
    own = session.ranks.own
    with suppress(OSError, HTTPException):  # a launcher that is ending; who comes waits, and says so
        tell(replace(own, rank=rank, offers={**own.offers, COUNTED: session.seqs[WORLD]}), place)


def catch_up(session: Session) -> None:
    """Count on from where those are that were there before."""
    peers = () if session.ranks is None else session.ranks.peers
    counted = max((int(peer.offers.get(COUNTED, 0)) for peer in peers), default=0)
    session.seqs[WORLD] = max(session.seqs.get(WORLD, 0), counted)


def _elastic() -> bool:
    return os.environ.get("HOROVOD_ELASTIC") == "1"


class Hooks:
    """What stands around Horovod's functions, and those of its optimizers: each has a class of its own."""

    def __init__(self, tracer: Tracer, patches: Patches, hvd: Any, called: Called) -> None:
        self._tracer, self._patches, self._hvd, self._called = tracer, patches, hvd, called
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
            stays = tracer.session is not None and tracer.session.opened
            result = original(*args, **kwargs)
            session = tracer.sign()
            session.hooked("horovod.torch")
            place = exchange(hvd)
            if stays and _elastic():
                go_on(session, hvd.rank(), place)
            session.meet(hvd.rank(), hvd.size(), place)
            catch_up(session)
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
            own, several = getattr(built, "process_set", None), self._hvd.size() > 1 or _elastic()
            if several and hasattr(built, "synchronize") and (own is None or own.included()):
                session = self._tracer.sign()
                session.hooked("horovod.torch.DistributedOptimizer")
                session.limited(FUSED)
                reducing = self._backward.reducing
                self.optimizers[built] = distributed = Distributed(built)
                weakref.finalize(built, leave, reducing, distributed).atexit = False
                self._reduces(built, distributed)
            return built

        return build

    def _reduces(self, optimizer: Any, distributed: Distributed) -> None:
        """Ask ``distributed`` about each backward; its methods are hooked, copies that only its class has."""
        self._backward.reducing.append(distributed)
        self._patches.wrap(type(optimizer), "synchronize", self._waiting(distributed))
        self._patches.wrap(type(optimizer), "step", sure_to_end(self._tracer))

    def _waiting(self, distributed: Distributed) -> Callable[[Function], Function]:
        tracer, called, its, clock = self._tracer, self._called, weakref.ref(distributed), distributed.readiness.clock
        group = distributed.group

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
                seq = seqs.get(group, 0)  # as next_seq, a frame less: see Session
                seqs[group] = seq + len(nbytes)
                called.within = True  # of sparse gradients it calls synchronize, too
                start_ns = clock()
                try:
                    return original(*args, **kwargs)
                finally:
                    session.events.append((session.awaited_all, start_ns, clock(), ready, nbytes, seq, group))
                    called.within = False

            return synchronize

        return around


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook horovod.torch: init, its optimizer, its collectives."""
    import horovod.torch as hvd

    called = Called(tracer)
    hooks = Hooks(tracer, patches, hvd, called)
    patches.wrap(hvd, "init", hooks.initialised, getattr(hvd, "elastic", None))
    patches.wrap(hvd, "start_timeline", hooks.timeline_started)
    patches.wrap(hvd, "DistributedOptimizer", hooks.made)
    called.hook(hvd, patches)
    hooks.attach()
    patches.on_undo(hooks.detach)
