"""Which modules are called outermost: by hooks on those that are watched, and what is called within no other.

The same hooks stand and go, under the same keys: else torch.compile would compile anew.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.hooks.calls import compiling_of, recomputed, under_way
from e2c_dl.tracing.hooks.patches import Function

if TYPE_CHECKING:
    from e2c_dl.tracing.tracer import Tracer

_EVALUATE, _FORWARD = Phase.EVALUATE, Phase.FORWARD  # as in Lane
LOOKED_AT = 3  # calls within others after which a module is no outermost one
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
        self._forgotten = 0  # how often, by who has not hooked them again
        self.forwards: list[tuple[Any, Function, Function]] = []  # (class, its own, what stands in its place)
        self.grad_enabled = torch.is_grad_enabled
        self.compiling = compiling_of(tracer)

    def of(self, module: Any) -> Watched:
        """What is known of ``module``."""
        return self._watched.setdefault(module, Watched())

    def watch(self, module: Any) -> None:
        """Hook ``module``, if it is not yet."""
        import torch

        try:
            watched = self._watched.get(module)
        except TypeError:  # a dataclass, of which there is no hash
            return
        if isinstance(module, torch.jit.ScriptModule) or (watched is not None and watched.hooked):
            return
        if watched is None:
            watched = self._watched[module] = Watched()
        watched.within = 0
        watched.hook(module, self)

    @contextmanager
    def unhooked(self) -> Iterator[None]:
        """No module has hooks meanwhile; a call under way goes on, and ends if there are hooks again by then."""
        self._forgotten += 1
        self._forget()
        for owner, own, placed in self.forwards:  # TorchScript reads them
            _replace(owner, placed, own)
        try:
            yield
        finally:
            self._forgotten -= 1
            if not self._forgotten:
                for owner, own, placed in self.forwards:
                    _replace(owner, own, placed)
                self.again()

    @contextmanager
    def unhooked_within(self, module: Any) -> Iterator[None]:
        """Neither ``module`` nor any within it has hooks meanwhile."""
        known = ((each, self._watched.get(each)) for each in module.modules())
        found = [(each, watched) for each, watched in known if watched is not None and watched.hooked]
        for _, watched in found:
            watched.forget()
        try:
            yield
        finally:
            for each, watched in found:
                watched.hook(each, self)

    def _forget(self) -> None:
        for _, watched in self._all():
            watched.forget()

    def _all(self) -> Iterator[tuple[Any, Watched]]:
        """Modules, and how they are watched, of now: another thread may watch more meanwhile."""
        for of in self._watched.keyrefs():
            module = of()
            if module is not None and (watched := self._watched.get(module)) is not None:
                yield module, watched

    def forget_inner(self) -> None:
        """Modules that were only ever called within others have no hooks any more."""
        for watched in self.inner:
            if not watched.outermost:
                watched.forget()
        self.inner.clear()

    def end(self) -> None:
        """No module has hooks, and no call is under way."""
        self._forget()
        self.depth = 0

    def again(self) -> None:
        """Those that were outermost have hooks again."""
        for module, watched in self._all():
            if watched.outermost or watched.within < LOOKED_AT:
                watched.hook(module, self)


def _replace(owner: Any, old: Function, new: Function) -> None:
    """The forward of ``owner``, unless somebody has put another one there."""
    if owner.forward is old:
        owner.forward = new


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
        if self._compiling.looks and self._compiling.looks():
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
        if self._compiling.looks and self._compiling.looks():
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


def outermost_of(tracer: Tracer) -> Outermost:
    """The one of ``tracer``."""
    if "outermost" not in tracer.parts:
        tracer.parts["outermost"] = Outermost(tracer)
    found: Outermost = tracer.parts["outermost"]
    return found
