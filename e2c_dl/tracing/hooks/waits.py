"""What scripts ask for a collective that goes on: Work, its Future, and those made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from e2c_dl.tracing.hooks.calls import end_graphs
from e2c_dl.tracing.hooks.patches import Function, Patches, passed_over
from e2c_dl.tracing.hooks.unwaited import Unwaited


class Recorder(Protocol):
    """Who records what is asked of a Work, or a Future."""

    unwaited: Unwaited

    def wait(self, asked: Any, original: Function, args: Any, kwargs: Any) -> Any:
        """``original(asked, ...)``, which waits, recorded."""
        ...

    def asked(self, asked: Any, over: bool) -> None:
        """A script asks whether ``asked`` is over."""
        ...


def hook_waits(collectives: Recorder, patches: Patches) -> None:
    """Hook it; ``collectives`` records."""
    import torch

    unwaited = collectives.unwaited

    def waiting(original: Function) -> Function:
        def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
            return collectives.wait(self, original, args, kwargs)

        return wait

    def awaiting(original: Function) -> Function:
        def wait(self: Any, *args: Any, **kwargs: Any) -> Any:  # of a Future, which may be of anything
            if unwaited.of(self):
                return collectives.wait(self, original, args, kwargs)
            return original(self, *args, **kwargs)

        return wait

    def asking(original: Function) -> Function:
        def is_over(self: Any) -> Any:
            over = original(self)
            collectives.asked(self, over)
            return over

        return is_over

    def following(original: Function) -> Function:
        def follow(of: Any, *args: Any, **kwargs: Any) -> Any:
            future = original(of, *args, **kwargs)
            made_of = of if isinstance(of, list) else [of]
            unwaited.hold(future, [joined for each in made_of for joined in unwaited.of(each)])
            return future

        return follow

    def hook(owner: Any, name: str, around: Callable[[Function], Function]) -> None:
        def outside_of_graphs(original: Function) -> Function:
            hooked = passed_over(around)(original)
            end_graphs(hooked)
            return hooked

        patches.wrap(owner, name, outside_of_graphs)

    work, future = torch._C._distributed_c10d.Work, torch._C.Future
    hook(work, "wait", waiting)
    hook(work, "is_completed", asking)
    hook(work, "get_future", following)
    hook(future, "wait", awaiting)
    hook(future, "done", asking)
    hook(future, "then", following)
    hook(torch._C, "_collect_all", following)
