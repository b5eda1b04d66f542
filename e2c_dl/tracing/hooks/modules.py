"""Modules: FORWARD is the call of an outermost one while gradients are kept, EVALUATE without them.

Hooks stand on the modules that a script asks for its parameters, or tells to evaluate, and on those that wrap others
(DDP, FSDP, what torch.compile makes): a call of any other costs nothing. One that was only ever called within another
loses its hooks again.

What torch.compile compiles sees a hook that does nothing. Where that hides all of a forward, FORWARD is said to last
from the batch to the backward. What is pickled, saved or scripted has no hooks.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.hooks.patches import Function, Patches

if TYPE_CHECKING:
    from e2c_dl.tracing.tracer import Tracer

LOOKED_AT = 3  # calls within others after which a module is no outermost one
COMPILED = "a model is compiled (torch.compile): gradients of a compiled graph are ready all at once, at its end"


class Hook:
    """A hook that is pickled as one that does nothing, and that any Python has."""

    def __init__(self, act: Callable[[Watched], None], watched: Watched, is_compiling: Callable[[], bool]) -> None:
        self._act, self._watched, self._is_compiling = act, watched, is_compiling

    def __call__(self, *_: Any) -> None:
        if not self._is_compiling():
            self._act(self._watched)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


@dataclass(slots=True)
class Watched:
    """One module's hooks, and how it was called."""

    within: int = 0
    outermost: bool = False
    handles: tuple[Any, ...] = ()

    def forget(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles = ()


class Outermost:
    """The modules that are watched, and the call under way."""

    def __init__(self, tracer: Tracer) -> None:
        import torch

        self._tracer = tracer
        self._watched: weakref.WeakKeyDictionary[Any, Watched] = weakref.WeakKeyDictionary()
        self._depth = 0
        self._grad_enabled = torch.is_grad_enabled
        self.is_compiling = torch.compiler.is_compiling

    def watch(self, module: Any) -> None:
        """Hook ``module``, if it is not yet."""
        import torch

        watched = self._watched.get(module)
        if isinstance(module, torch.jit.ScriptModule) or (watched is not None and watched.handles):
            return
        if watched is None:
            watched = self._watched[module] = Watched()
        watched.within = 0
        self._hook(module, watched)

    def forget(self) -> None:
        """No module has hooks any more."""
        for watched in self._watched.values():
            watched.forget()
        self._depth = 0

    def again(self) -> None:
        """Those that were outermost have hooks again."""
        for module, watched in list(self._watched.items()):
            if watched.outermost or watched.within < LOOKED_AT:
                self._hook(module, watched)

    def limited(self, sentence: str) -> None:
        """Said in tracing.json once training begins."""
        self._tracer.limited(sentence)

    def _hook(self, module: Any, watched: Watched) -> None:
        if not watched.handles:
            before = Hook(self._enter, watched, self.is_compiling)
            after = Hook(self._leave, watched, self.is_compiling)
            watched.handles = (
                module.register_forward_pre_hook(before, prepend=True),
                module.register_forward_hook(after, always_call=True),
            )

    def _enter(self, watched: Watched) -> None:
        session = self._tracer.session
        if session is None or get_ident() != session.main:
            return
        self._depth += 1
        if self._depth > 1:
            watched.within += 1
            return
        watched.outermost = True
        if self._grad_enabled():
            if session.begun_ns is None:
                session.active()
            session.enter(Phase.FORWARD)
        else:
            session.enter(Phase.EVALUATE)

    def _leave(self, watched: Watched) -> None:
        session = self._tracer.session
        if session is None or get_ident() != session.main or not self._depth:
            return
        self._depth -= 1
        if not self._depth:
            session.note((session.lane.leave, session.clock()))
        elif watched.within >= LOOKED_AT and not watched.outermost:
            watched.forget()


def install(tracer: Tracer, patches: Patches) -> None:
    """Watch modules whose parameters are asked for, or that are told to evaluate, and those that wrap others."""
    import torch
    from torch.nn import Module
    from torch.nn.parallel import DistributedDataParallel

    outermost = outermost_of(tracer)

    def seen(original: Function) -> Function:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not outermost.is_compiling():
                outermost.watch(self)
            return original(self, *args, **kwargs)

        return method

    def unhooked(original: Function) -> Function:
        def compile_(*args: Any, **kwargs: Any) -> Any:
            outermost.forget()
            try:
                return original(*args, **kwargs)
            finally:
                outermost.again()

        return compile_

    for name in ("parameters", "named_parameters", "eval"):
        patches.wrap(Module, name, seen)
    patches.wrap(DistributedDataParallel, "__init__", _watching(outermost))
    for name in ("script", "trace"):
        patches.wrap(torch.jit, name, unhooked)
    outermost.again()
    patches.on_undo(outermost.forget)


def install_compiled(tracer: Tracer, patches: Patches) -> None:
    """Watch what torch.compile makes of a module."""
    from torch._dynamo.eval_frame import OptimizedModule

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
                outermost.limited(limitation)

        return init

    return around
