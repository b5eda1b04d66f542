"""Backward passes: BACKWARD of each bucket, from the bucket before until its last gradient is complete on this rank.

::

                    bucket 0     bucket 1      bucket 2
    backward()   |------------|------------|-------------|~~~~~~~~~~~~~~~~| returns
    task -1        BACKWARD     BACKWARD     BACKWARD
    task 0                                                 AWAIT_COLLECTIVE   where DDP waits for the others
                              |------- COLLECTIVE 0 -----------------------|
                                           |------- COLLECTIVE 1 ----------|  ...

When a gradient is complete is told by a hook behind its accumulation. In a first few passes every parameter has one;
then only that one of each bucket which came last. Spans are made of these times by the thread that writes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import current_thread, get_ident, main_thread
from typing import TYPE_CHECKING, Any, Protocol

from e2c_dl.tracing.hooks.calls import compiling_of, leave_uncompiled
from e2c_dl.tracing.hooks.optimizers import end_iteration
from e2c_dl.tracing.hooks.patches import Function, Patches
from e2c_dl.tracing.lane import Told
from e2c_dl.tracing.numbers import UNCOUNTED

if TYPE_CHECKING:
    from e2c_dl.tracing.session import Session
    from e2c_dl.tracing.tracer import Tracer

LEARNING = 2  # passes
UNSTEPPED = 2  # passes that anybody may make
STEPLESS = "no optimizer was made: an iteration ends with its backward, and what changes parameters is of the next"


class Readiness:
    """When the gradients of each bucket of parameters were complete in the pass under way (monotonic clock)."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.at_ns: dict[int, int] = {}
        self.clock = clock
        self._last: dict[int, Any] = {}  # bucket -> parameter whose gradient came last
        self._all: list[list[weakref.ref[Any]]] = []  # of each bucket
        self._handles: list[Any] = []
        self.nbytes: list[int] = []

    def watch(self, buckets: Sequence[Sequence[Any]]) -> None:
        """Learn from every parameter of ``buckets``."""
        self.forget()
        self._all = [[weakref.ref(each) for each in bucket] for bucket in buckets]
        self.nbytes = [sum(each.numel() * each.element_size() for each in bucket) for bucket in buckets]
        self._ask(self._learning)

    def settle(self) -> None:
        """From now on only ask the parameter of each bucket that came last."""
        self.forget()
        for number, parameter in self._last.items():
            self._handles.append(_hooked(parameter, self._settled(number)))

    def ask_all(self) -> None:
        """From now on ask every parameter: which of them have gradients is not the same in all passes."""
        self.forget()
        self._ask(self._settled)

    def _ask(self, making: Callable[[int], Callable[[Any], None]]) -> None:
        for number, bucket in enumerate(self._all):
            hooks = (_hooked(parameter, making(number)) for each in bucket if (parameter := each()) is not None)
            self._handles += hooks

    def forget(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def leave(self) -> None:
        """Ask nobody any more, and hold none of them: a hook holds this, and a parameter its hook."""
        self.forget()
        self._last = {}

    def _learning(self, number: int) -> Callable[[Any], None]:
        def ready(parameter: Any) -> None:
            self.at_ns[number], self._last[number] = self.clock(), parameter

        return ready

    def _settled(self, number: int) -> Callable[[Any], None]:
        clock = self.clock

        def ready(_parameter: Any) -> None:
            self.at_ns[number] = clock()

        return ready


def _hooked(parameter: Any, hook: Callable[[Any], None]) -> Any:
    """The handle of ``hook``. A parameter that is frozen just now, as a GAN's are by turns, has it once it is not."""
    if parameter.requires_grad:
        return parameter.register_post_accumulate_grad_hook(hook)
    parameter.requires_grad_(True)  # torch takes hooks of no other
    try:
        return parameter.register_post_accumulate_grad_hook(hook)
    finally:
        parameter.requires_grad_(False)


class Reducing(Protocol):
    """What reduces gradients over ranks, and knows the buckets: DDP, Horovod's optimizer."""

    def begins(self, session: Session) -> Told:
        """A pass begins, which may be its own; what is to be known of it, times being filled in until it ends.

        Once it has ended caches are cold, so that all is made now.
        """
        ...


def leave(reducing: list[Reducing], one: Any) -> None:
    """The module or optimizer of ``one`` is gone: so are its parameters, if the script has them no more."""
    one.readiness.leave()
    if one in reducing:
        reducing.remove(one)


class Backward:
    """Passes of this process, and who reduces their gradients."""

    def __init__(self) -> None:
        self.reducing: list[Reducing] = []
        self.under_way = False
        self.unsure: list[Callable[[list[Told]], None]] = []  # take out of passes what was not reduced, once it is over
        self.then: list[Callable[[], None]] = []  # to be done after that, as seldom happens
        self._count = 0  # of passes before there was a session

    def over(self, session: Session, passes: list[Told]) -> list[Told]:
        """The ``passes`` that are over, the unsure ones decided, with numbers of ``session``'s."""
        unsure, self.unsure = self.unsure, []
        for decide in unsure:
            decide(passes)
        return session.numbered(passes)

    def do_then(self) -> None:
        acts, self.then = self.then, []
        for act in acts:
            act()

    def unstepped(self, tracer: Tracer) -> Session | None:
        """One more pass, and nobody has made an optimizer: after a few it trains, and has a session."""
        self._count += 1
        return tracer.sign() if self._count > UNSTEPPED and current_thread() is main_thread() else None


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook torch.autograd.backward, which Tensor.backward calls, and torch.autograd.grad."""
    from torch import autograd

    from e2c_dl.tracing.session import MANY_EVENTS, Session

    backward, clock, compiling = backward_of(tracer), Session.clock, compiling_of(tracer)

    def timed(original: Function) -> Function:
        def run(*args: Any, **kwargs: Any) -> Any:
            if (compiling.looks and compiling.looks()) or backward.under_way:
                return original(*args, **kwargs)
            session = tracer.session or backward.unstepped(tracer)
            if session is None or get_ident() != session.main:
                return original(*args, **kwargs)
            if session.begun_ns is None:
                session.active()
            events = session.events
            if len(events) >= MANY_EVENTS:
                session.relieve()
            if session.passed:
                session.count_passed()
            passes: list[Told] = []
            for each in backward.reducing:
                passes.append(each.begins(session))  # noqa: PERF401  # one frame less, see Session
            session.passed = UNCOUNTED
            closed, stepless = session.closed, not tracer.steps
            events.append((session.began_backward, clock()))
            backward.under_way = True
            try:
                return original(*args, **kwargs)
            finally:
                end_ns = clock()
                backward.under_way = False
                if backward.unsure or len(passes) > 1 or session.passed is not UNCOUNTED:  # seldom, as it costs
                    passes = backward.over(session, passes)
                session.passed = passes
                events.append((closed, end_ns, passes))
                if backward.then:
                    backward.do_then()
                if stepless:
                    session.limited(STEPLESS)
                    end_iteration(tracer, session, end_ns)

        leave_uncompiled(run)
        return run

    patches.wrap(autograd, "backward", timed)
    patches.wrap(autograd, "grad", _asked(tracer))
    _scripted(patches, {"aten::backward": autograd.backward, "aten::grad": autograd.grad})


def _scripted(patches: Patches, operators: Mapping[str, Function]) -> None:
    """TorchScript has ``operators`` for these: it knows functions by what they are, and not by their names."""
    from torch.jit import _builtins

    table: Any = _builtins._get_builtin_table
    known: dict[int, str] = table()
    for name, function in operators.items():
        known[id(function)] = name
        patches.on_undo(partial(known.pop, id(function), None))


def _asked(tracer: Tracer) -> Callable[[Function], Function]:
    """A pass whose gradients are given to who asks: nobody reduces them, and it ends no iteration."""
    import torch

    from e2c_dl.tracing.session import MANY_EVENTS, Session

    backward, clock, compiling = backward_of(tracer), Session.clock, compiling_of(tracer)
    compilation = torch._guards.CompileContext.try_get  # a graph that is being made is asked, too

    def around(original: Function) -> Function:
        def grad(*args: Any, **kwargs: Any) -> Any:
            if (compiling.looks and compiling.looks()) or backward.under_way or compilation() is not None:
                return original(*args, **kwargs)
            session = tracer.session
            if session is None or get_ident() != session.main:
                return original(*args, **kwargs)
            if session.begun_ns is None:
                session.active()
            events = session.events
            if len(events) >= MANY_EVENTS:
                session.relieve()
            events.append((session.began_backward, clock()))
            backward.under_way = True
            try:
                return original(*args, **kwargs)
            finally:
                backward.under_way = False
                events.append((session.closed, clock()))

        leave_uncompiled(grad)
        return grad

    return around


def backward_of(tracer: Tracer) -> Backward:
    """The one of ``tracer``."""
    if "backward" not in tracer.parts:
        tracer.parts["backward"] = Backward()
    found: Backward = tracer.parts["backward"]
    return found
