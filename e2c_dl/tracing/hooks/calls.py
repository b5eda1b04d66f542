"""Calls under way: torch's hooks are told where a call begins, but not that it was left by whatever it raised."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any


def under_way(hooked: FrameType, most: int) -> int:
    """How many calls of the code of ``hooked``, that of torch's which calls a hook, it is within, up to ``most``.

    A call that raised is none of them. The nearest are a few frames away: only where there are fewer all are looked at.
    """
    code, found, frame = hooked.f_code, 0, hooked.f_back
    while frame is not None and found < most:
        found += frame.f_code is code
        frame = frame.f_back
    return found


def leave_uncompiled(*functions: Callable[..., Any]) -> None:
    """Where torch.compile comes to ``functions``, or to a method of a session, these run as they are.

    It guards the lengths of lists that it sees; the thread that writes empties a session's at any time, which would end
    the script. torch before 2.7 has no such way: there they are compiled.
    """
    import torch

    from e2c_dl.tracing.numbers import Numbers
    from e2c_dl.tracing.session import Session

    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)  # skip_code imports all of dynamo
    if not all(hasattr(frames, name) for name in ("set_code_exec_strategy", "_FrameExecStrategy", "_FrameAction")):
        return
    skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
    methods = [each for owner in (Session, Numbers) for each in vars(owner).values()]
    for each in (*functions, *methods):
        if isinstance(each, FunctionType):
            frames.set_code_exec_strategy(each.__code__, skip)
