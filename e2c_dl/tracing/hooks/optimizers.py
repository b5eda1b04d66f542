"""Steps of optimizers: they end iterations.

A step within a step (Horovod's optimizer around the user's, ZeRO's around a local one) is one step. Of several
optimizers one ends iterations: the one that steps first, or once another has stepped twice meanwhile, that one; or one
that was made for parameters of the former, if it is the next to step.
A step that raises ends none; torch tells nobody, so that the next step finds out that it is over.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.hooks.calls import compiling_of, leave_all_uncompiled, leave_uncompiled, under_way
from e2c_dl.tracing.hooks.patches import Function, Patches

if TYPE_CHECKING:
    from e2c_dl.tracing.session import Session
    from e2c_dl.tracing.tracer import Tracer

SKIPPED = "some steps were skipped by a GradScaler (infinite gradients); each ends an iteration"
RAISED = "a step of an optimizer raised: it ended no iteration; what followed up to the next step may be called step"
ELSEWHERE = "another thread makes steps of an optimizer, too: what it does is not recorded"


class Steps:
    """Which optimizer's steps end iterations."""

    def __init__(self) -> None:
        self.depth = 0
        self.within = 0  # so many of the outermost are sure to be under way: see sure_to_end
        self.count = 0
        self.leading: Callable[[], Any] = lambda: None  # it may be gone: a new one leads at once
        self.others: set[int] = set()  # have stepped since then, or are as good as that

    def made(self, optimizer: Any) -> None:
        """``optimizer`` is new: it takes the place of the one that ends iterations if it has parameters of its."""
        leading = self.leading()
        if leading is not None and leading is not optimizer and _parameters(leading) & _parameters(optimizer):
            self.others.add(id(optimizer))

    def ends_iteration(self, optimizer: object) -> bool:
        """Whether this step of ``optimizer`` ends an iteration."""
        self.count += 1
        if self.leading() is None or id(optimizer) in self.others:
            self.leading = weakref.ref(optimizer)
        if self.leading() is not optimizer:
            self.others.add(id(optimizer))
            return False
        self.others.clear()
        return True


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook every optimizer of torch, there is or will be."""
    from torch.amp import grad_scaler
    from torch.optim import Optimizer
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    from e2c_dl.tracing.session import Session

    tracer.parts.pop("steps", None)  # of before hooks were taken away
    steps, clock = steps_of(tracer), Session.clock
    began, ended = _around(tracer, steps)

    def made(original: Function) -> Function:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            steps.made(self)
            tracer.steps = True
            tracer.sign()

        return init

    def scaled(original: Function) -> Function:
        def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = steps.count
            result = original(self, optimizer, *args, **kwargs)
            session = tracer.session
            if session is None or get_ident() != session.main:
                return result
            if steps.count == before and steps.ends_iteration(optimizer):
                session.limited(SKIPPED)
                end_iteration(tracer, session, clock())
            return result

        leave_uncompiled(step)
        return step

    leave_uncompiled(Optimizer.profile_hook_step(began))  # it calls hooks: compiled, it would hide them
    patches.on_undo(register_optimizer_step_pre_hook(began).remove)
    patches.on_undo(register_optimizer_step_post_hook(ended).remove)
    patches.wrap(Optimizer, "__init__", made)
    patches.wrap(Optimizer, "__setstate__", made)  # of what is unpickled, or a copy
    patches.wrap(grad_scaler.GradScaler, "step", scaled)


def _around(tracer: Tracer, steps: Steps) -> tuple[Callable[..., None], Callable[..., None]]:
    """What is called before a step, and after it."""
    from e2c_dl.tracing.session import Session

    clock, step_phase, compiling = Session.clock, Phase.STEP, compiling_of(tracer)

    def began(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if (
            (compiling.looks and compiling.looks()) or (session := tracer.session) is None or session.preparing
            or (get_ident() != session.main and _is_elsewhere(session))
        ):  # fmt: skip
            return
        if steps.depth > steps.within:
            _give_up(steps, session, under_way(sys._getframe(1), steps.depth))
        steps.depth += 1
        if session.begun_ns is None:
            session.active()
        session.events.append((session.entered, clock(), step_phase))

    def ended(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if (
            (compiling.looks and compiling.looks()) or (session := tracer.session) is None or session.preparing
            or not steps.depth or get_ident() != session.main
        ):  # fmt: skip
            return
        if steps.depth > steps.within + 1:
            _give_up(steps, session, 1 + under_way(sys._getframe(1), steps.depth - 1))
        steps.depth -= 1
        now_ns = clock()
        session.events.append((session.left, now_ns))
        if steps.depth:
            return
        if steps.leading() is optimizer and not steps.others:  # as ends_iteration, a frame less: see Session
            steps.count += 1
        elif not steps.ends_iteration(optimizer):
            return
        if session.ranks is None or session.explicit:
            end_iteration(tracer, session, now_ns)
        else:
            session.end_iteration(now_ns)

    leave_all_uncompiled(began, ended)
    return began, ended


def steps_of(tracer: Tracer) -> Steps:
    """Those of ``tracer``, as long as its hooks are in place."""
    found: Steps = tracer.parts.setdefault("steps", Steps())
    return found


def sure_to_end(tracer: Tracer) -> Callable[[Function], Function]:
    """Around a step that steps another optimizer within, as Horovod's does: how it ends is known.

    To find out whether a step is still under way when another begins takes 30 us, where caches are cold.
    """
    steps = steps_of(tracer)

    def around(original: Function) -> Function:
        def step(*args: Any, **kwargs: Any) -> Any:
            session = tracer.session
            if session is None or steps.depth or get_ident() != session.main:
                return original(*args, **kwargs)
            steps.within = 1
            try:
                return original(*args, **kwargs)
            finally:
                steps.within = 0
                if steps.depth > 0:
                    _give_up(steps, session, 0)

        leave_uncompiled(step)
        return step

    return around


def _parameters(optimizer: Any) -> set[int]:
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def _is_elsewhere(session: Session) -> bool:
    """Whether the thread that steps is another than the one that trains: it is that, from now on, if none has stepped.

    That which began may only have asked a loader, or a model, how large something is.
    """
    if not session.iterations_done and not session.explicit:
        session.main = get_ident()
        session.outside()
        session.note(session.lane.clear)
        return False
    session.limited(ELSEWHERE)
    return True


def _give_up(steps: Steps, session: Session, still: int) -> None:
    """All steps but the ``still`` outermost have raised."""
    if steps.depth > still:
        steps.depth = still
        session.note(session.lane.abandon, session.clock(), (Phase.STEP,), still)
        session.limited(RAISED)


def end_iteration(tracer: Tracer, session: Session, now_ns: int) -> None:
    """What ends iterations was over at ``now_ns``."""
    if session.explicit:  # the script says itself where iterations end
        session.worked_ns = now_ns
        return
    known = session.ranks is not None
    session.end_iteration(now_ns)
    if not known:
        tracer.opened(session)
