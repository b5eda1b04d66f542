"""Modules: FORWARD is the call of an outermost one while gradients are kept, EVALUATE without them.

EVALUATE, too, is the call of one in evaluation mode that was called in training mode before: many scripts evaluate and
forget ``torch.no_grad``. One that is trained in evaluation mode, its statistics frozen, never was.

Hooks stand on the modules that a script asks for its parameters, or tells to train or to evaluate, and on those that
wrap others (DDP, FSDP, what torch.compile makes): a call of any other costs nothing. One that was only ever called
within another loses its hooks again.

What torch.compile compiles sees a hook that does nothing. Where that hides all of a forward, FORWARD is said to last
from the batch to the backward. What is pickled, saved or scripted has no hooks.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.hooks.calls import (
    compiling_of,
    leave_all_uncompiled,
    leave_uncompiled,
    outer_only,
    recomputed,
    under_way,
)
from e2c_dl.tracing.hooks.patches import Function, Patches

if TYPE_CHECKING:
    from e2c_dl.tracing.tracer import Tracer

_EVALUATE, _FORWARD = Phase.EVALUATE, Phase.FORWARD  # as in Lane
FRAMES_UP = "_frames_up"  # of torch.jit.script
HOOKS = ("_forward_pre_hooks", "_forward_hooks")
OF_HOOKS = ("_forward_hooks_always_called", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
"""By the same keys."""
LOOKED_AT = 3  # calls within others after which a module is no outermost one
COMPILED = "a model is compiled (torch.compile): gradients of a compiled graph are ready all at once, at its end"
INTERRUPTED = "a module's call was interrupted: what followed up to the next call may be called forward or evaluation"


@dataclass(slots=True)
class Watched:
    """One module's hooks, and how it was called."""

    within: int = 0
    outermost: bool = False
    trained: bool = False  # was called in training mode
    forwarded: bool = False  # it was called, outermost, while gradients were kept; a backward takes it back
    hooked: bool = False
    hooks: tuple[tuple[Any, Hook], ...] = ()  # (handle, hook), before and after, since it was hooked first

    def forget(self) -> None:
        self.hooked = False
        for handle, _ in self.hooks:
            handle.remove()

    def hook(self, module: Any, outermost: Outermost) -> None:
        """Hook ``module``, each time by the same under the same keys: else torch.compile would compile anew."""
        if self.hooked:
            return
        self.hooked = True
        if not self.hooks:
            began, ended = Before(outermost, self), After(outermost, self)
            before = module.register_forward_pre_hook(began, prepend=True)
            after = module.register_forward_hook(ended, always_call=True)
            self.hooks = (before, began), (after, ended)
            return
        (before, entering), (after, leaving) = self.hooks
        module._forward_pre_hooks[before.id] = entering
        module._forward_pre_hooks.move_to_end(before.id, last=False)
        module._forward_hooks[after.id], module._forward_hooks_always_called[after.id] = leaving, True


class Outermost:
    """The modules that are watched, and the call under way."""

    def __init__(self, tracer: Tracer) -> None:
        import torch

        self.tracer = tracer
        self._watched: weakref.WeakKeyDictionary[Any, Watched] = weakref.WeakKeyDictionary()
        self.depth = 0
        self.inner: list[Watched] = []  # only ever called within others
        self.grad_enabled = torch.is_grad_enabled
        self.compiling = compiling_of(tracer)

    def of(self, module: Any) -> Watched:
        """What is known of ``module``."""
        return self._watched.setdefault(module, Watched())

    def watch(self, module: Any) -> None:
        """Hook ``module``, if it is not yet."""
        import torch

        watched = self._watched.get(module)
        if isinstance(module, torch.jit.ScriptModule) or (watched is not None and watched.hooked):
            return
        if watched is None:
            watched = self._watched[module] = Watched()
        watched.within = 0
        watched.hook(module, self)

    def forget(self) -> None:
        """No module has hooks any more; a call under way goes on, and ends if there are hooks again by then."""
        for watched in self._watched.values():
            watched.forget()

    def forget_inner(self) -> None:
        """Modules that were only ever called within others have no hooks any more."""
        for watched in self.inner:
            if not watched.outermost:
                watched.forget()
        self.inner.clear()

    def end(self) -> None:
        """No module has hooks, and no call is under way."""
        self.forget()
        self.depth = 0

    def again(self) -> None:
        """Those that were outermost have hooks again."""
        for module, watched in list(self._watched.items()):
            if watched.outermost or watched.within < LOOKED_AT:
                watched.hook(module, self)


class Hook:
    """A hook that is pickled as one that does nothing, and that any Python has."""

    def __init__(self, outermost: Outermost, watched: Watched) -> None:
        from e2c_dl.tracing.session import MANY_EVENTS, Session

        self._outermost, self._watched = outermost, watched
        self._compiling = outermost.compiling
        self._clock, self._many = Session.clock, MANY_EVENTS

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


class Before(Hook):
    """A call begins."""

    def __call__(self, module: Any, *_: Any) -> None:
        if self._compiling.looks():
            return
        outermost, watched = self._outermost, self._watched
        session = outermost.tracer.session
        if session is None or get_ident() != session.main:
            return
        if outermost.depth:
            if under_way(sys._getframe(1), 1):
                outermost.depth += 1
                watched.within += 1
                return
            session.note(session.lane.abandon, self._clock(), (_FORWARD, _EVALUATE))  # torch tells of no Ctrl-C
            session.limited(INTERRUPTED)
        outermost.depth = 1
        watched.outermost = True
        if outermost.inner:
            outermost.forget_inner()
        if training := module.training:
            watched.trained = True
        events = session.events
        if len(events) >= self._many:
            session.relieve()
        evaluates = watched.trained and not training
        if evaluates or (not outermost.grad_enabled() and not (training and recomputed(sys._getframe(1)))):
            events.append((session.entered, self._clock(), _EVALUATE))
            return
        if session.begun_ns is None:
            session.active()
        watched.forwarded = True
        events.append((session.entered, self._clock(), _FORWARD))


class After(Hook):
    """It ends."""

    def __call__(self, *_: Any) -> None:
        if self._compiling.looks():
            return
        outermost = self._outermost
        session = outermost.tracer.session
        if session is None or get_ident() != session.main or not outermost.depth:
            return
        outermost.depth -= 1
        if not outermost.depth:
            session.events.append((session.left, self._clock()))
            return
        watched = self._watched
        if watched.within == LOOKED_AT and not watched.outermost:
            outermost.inner.append(watched)  # not now: torch may be iterating over the hooks


def install(tracer: Tracer, patches: Patches) -> None:
    """Watch modules whose parameters are asked for, or that are told what to do, and those that wrap others."""
    import torch
    from torch.nn import Module
    from torch.nn.parallel import DistributedDataParallel

    outermost = outermost_of(tracer)
    compilation = torch._guards.CompileContext.try_get

    def seen(original: Function) -> Function:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            # Dynamo itself asks, too: hooks of then would be in its guards, and every torch.save compile anew.
            if not outermost.compiling.looks() and compilation() is None:
                outermost.watch(self)
            return original(self, *args, **kwargs)

        leave_uncompiled(method)
        return method

    def unhooked(original: Function) -> Function:
        signature = inspect.signature(original)

        def compile_(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            if FRAMES_UP in signature.parameters:  # names are looked up where script was called: one frame further
                bound.arguments[FRAMES_UP] = bound.arguments.get(FRAMES_UP, 0) + 1
            outermost.forget()
            try:
                return original(*bound.args, **bound.kwargs)
            finally:
                outermost.again()

        return compile_

    leave_all_uncompiled(Before.__call__, After.__call__)
    for name in ("parameters", "named_parameters", "eval"):
        patches.wrap(Module, name, seen)
    patches.wrap(Module, "train", outer_only(seen, outermost.compiling))  # it tells those within, too
    if hasattr(Module, "__getstate__"):  # Python 3.11 and later have one for every class
        patches.wrap(Module, "__getstate__", _without_hooks)
    patches.wrap(DistributedDataParallel, "__init__", _watching(outermost))
    for name in ("script", "trace"):
        patches.wrap(torch.jit, name, unhooked)
    outermost.again()
    patches.on_undo(outermost.end)


def _without_hooks(original: Function) -> Function:
    """What a copy of a module, or a pickle, is made of: a copy that is watched has hooks of its own."""

    def state(self: Any) -> Any:
        found = original(self)
        if not isinstance(found, dict):
            return found
        ours = {key for name in HOOKS for key, hook in found.get(name, {}).items() if isinstance(hook, Hook)}
        if not ours:
            return found
        kept = {name: type(found[name])(_others(found[name], ours)) for name in (*HOOKS, *OF_HOOKS) if name in found}
        return {**found, **kept}

    return state


def _others(hooks: Mapping[int, Any], ours: Collection[int]) -> dict[int, Any]:
    return {key: hook for key, hook in hooks.items() if key not in ours}


def install_compiled(tracer: Tracer, patches: Patches) -> None:
    """Watch what torch.compile makes of a module; hooks ask whether it looks at them once anything is compiled."""
    from torch._dynamo import eval_frame
    from torch._dynamo.eval_frame import OptimizedModule

    compiling_of(tracer).watch(eval_frame)
    patches.wrap(OptimizedModule, "__init__", _watching(outermost_of(tracer), COMPILED))


def outermost_of(tracer: Tracer) -> Outermost:
    """The one of ``tracer``."""
    if "outermost" not in tracer.parts:
        tracer.parts["outermost"] = Outermost(tracer)
    found: Outermost = tracer.parts["outermost"]
    return found


def _watching(outermost: Outermost, limitation: str = "") -> Callable[[Function], Function]:
    def around(original: Function) -> Function:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            outermost.watch(self)
            if limitation:
                outermost.tracer.limited(limitation)

        return init

    return around
