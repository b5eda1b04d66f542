"""Calls under way: torch's hooks are told where a call begins, but not that it was left by whatever it raised.

And those that torch.compile makes of a script's: it looks into hooks, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from e2c_dl.tracing.hooks.patches import Function, Patches, passed_over

if TYPE_CHECKING:
    from e2c_dl.tracing.tracer import Tracer


def under_way(hooked: FrameType, most: int) -> int:
    """How many calls of the code of ``hooked``, that of torch's which calls a hook, it is within, up to ``most``.

    A call that raised is none of them. The nearest are a few frames away: only where there are fewer all are looked at.
    """
    code, found, frame = hooked.f_code, 0, hooked.f_back
    while frame is not None and found < most:
        found += frame.f_code is code
        frame = frame.f_back
    return found


def recomputed(frame: FrameType | None) -> bool:
    """Whether ``frame`` is within a checkpoint of torch's (reentrant): gradients are kept, though later."""
    checkpoint = sys.modules.get("torch.utils.checkpoint")
    function = getattr(checkpoint, "CheckpointFunction", None)
    code = getattr(getattr(function, "forward", None), "__code__", None)
    while code is not None and frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return code is not None and frame is not None


_UNCOMPILED = "_torchdynamo_disable"  # what torch.compiler.disable sets, which would import all of dynamo


class Compiling:
    """Whether torch.compile looks at who asks, instead of running it: then hooks do nothing.

    As long as nothing is compiled at all there is nobody to be asked: a call costs some 1 us where hooks run.
    """

    def __init__(self) -> None:
        self.looks: Callable[[], bool] | None = None
        self._watched = False

    def watch(self, eval_frame: Any) -> None:
        """Learn when something is compiled, for good: also what is compiled while other hooks are away."""
        if self._watched:
            return
        self._watched = True
        from torch import _guards

        # Names of torch's own: of what is to be compiled when it is called, and of each compilation, also an export's.
        contexts = (getattr(eval_frame, "OptimizeContext", None), getattr(_guards, "CompileContext", None))
        if None in contexts:
            self._begin()
            return
        for context in contexts:
            Patches().wrap(context, "__init__", self._beginning)

    def _beginning(self, original: Function) -> Function:
        def init(*args: Any, **kwargs: Any) -> None:
            self._begin()
            original(*args, **kwargs)

        return init

    def _begin(self) -> None:
        import torch

        self.looks = torch.compiler.is_dynamo_compiling  # a third of what is_compiling costs


def compiling_of(tracer: Tracer) -> Compiling:
    """The one of ``tracer``."""
    found: Compiling = tracer.parts.setdefault("compiling", Compiling())
    return found


def leave_uncompiled(*functions: Callable[..., Any]) -> None:
    """Where torch.compile comes to ``functions``, or to a method of a session, these run as they are.

    It guards the lengths of lists that it sees; the thread that writes empties a session's at any time, which would end
    the script. torch before 2.7 has no such way: there they are compiled.
    """
    from e2c_dl.tracing.numbers import Numbers
    from e2c_dl.tracing.session import Session

    methods = [each for owner in (Session, Numbers) for each in vars(owner).values()]
    _skip("DEFAULT", functions)
    _skip("SKIP", methods)


def leave_all_uncompiled(*functions: Callable[..., Any]) -> None:
    """As :func:`leave_uncompiled`, for ``functions`` that call nothing of the script's: nor is what they call compiled.

    What a first step has done, to write down whose trace it is, would be hundreds of functions.
    """
    leave_uncompiled()
    _skip("SKIP", functions)


def end_graphs(*functions: Callable[..., Any]) -> None:
    """Where torch.compile comes to ``functions`` its graph ends, as at what of torch's they stand for.

    They and what they call run as they are, which is nothing of the script's. If it looked into them it would warn of
    clocks that it does not know, and leave out what hooks do.
    """
    leave_all_uncompiled(*functions)
    for each in functions:
        setattr(each, _UNCOMPILED, True)


def _skip(within: str, functions: Iterable[Any]) -> None:
    import torch

    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)  # skip_code imports all of dynamo
    if not all(hasattr(frames, name) for name in ("set_code_exec_strategy", "_FrameExecStrategy", "_FrameAction")):
        return
    skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, getattr(frames._FrameAction, within))
    for each in functions:
        if isinstance(each, FunctionType):
            frames.set_code_exec_strategy(each.__code__, skip)


def outer_only(around: Callable[[Function], Function], compiling: Compiling) -> Callable[[Function], Function]:
    """``around``, but for the calls that a function makes of itself."""

    def once(original: Function) -> Function:
        outer: list[bool] = []
        wrapped = passed_over(around)(original)

        def run(*args: Any, **kwargs: Any) -> Any:
            if (compiling.looks and compiling.looks()) or outer:
                return original(*args, **kwargs)
            outer.append(True)
            try:
                return wrapped(*args, **kwargs)
            finally:
                outer.clear()

        leave_uncompiled(run)
        return run

    return once
