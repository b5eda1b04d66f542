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
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from e2c_dl.tracing.hooks.calls import (
    compiling_of,
    leave_all_uncompiled,
    leave_uncompiled,
    outer_only,
)
from e2c_dl.tracing.hooks.outermost import After, Before, Hook, Outermost, outermost_of
from e2c_dl.tracing.hooks.patches import Function, Patches

if TYPE_CHECKING:
    from e2c_dl.tracing.tracer import Tracer

FRAMES_UP = "_frames_up"  # of torch.jit.script
HOOKS = ("_forward_pre_hooks", "_forward_hooks")
OF_HOOKS = ("_forward_hooks_always_called", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
"""By the same keys."""
COMPILED = "a model is compiled (torch.compile): gradients of a compiled graph are ready all at once, at its end"


def install(tracer: Tracer, patches: Patches) -> None:
    """Watch modules whose parameters are asked for, or that are told what to do, and those that wrap others."""
    import torch
    from torch.nn import Module
    from torch.nn.parallel import DistributedDataParallel

    outermost = outermost_of(tracer)
    compiling = outermost.compiling
    compilation = torch._guards.CompileContext.try_get

    def seen(original: Function) -> Function:
        tells = original.__name__ == Module.train.__name__

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            # Dynamo itself asks, too: hooks of then would be in its guards, and every torch.save compile anew.
            if not (compiling.looks and compiling.looks()) and compilation() is None:
                outermost.watch(self)
                if tells and isinstance(self, DistributedDataParallel):  # whose module a rank alone may evaluate
                    outermost.watch(self.module)
            return original(self, *args, **kwargs)

        leave_uncompiled(method)
        return method

    leave_all_uncompiled(Before.__call__, After.__call__)
    for name in ("parameters", "named_parameters", "eval"):
        patches.wrap(Module, name, seen)
    patches.wrap(Module, "train", outer_only(seen, compiling))  # it tells those within, too
    if hasattr(Module, "__getstate__"):  # Python 3.11 and later have one for every class
        patches.wrap(Module, "__getstate__", _without_hooks)
    patches.wrap(DistributedDataParallel, "__init__", _watching(outermost))
    for name in ("script", "trace"):
        patches.wrap(torch.jit, name, _unhooked(outermost))
    for device in filter(None, (getattr(torch, name, None) for name in ("cuda", "xpu"))):
        if hasattr(device, "make_graphed_callables"):  # refuses modules that have hooks
            patches.wrap(device, "make_graphed_callables", _unhooked(outermost))
    # What a ScriptModule's own methods come to, too; and of what goes another way where no part has hooks.
    patches.wrap(torch.jit._recursive, "create_script_module", _unhooked(outermost))
    encoder = torch.nn.TransformerEncoderLayer
    own = encoder.forward
    patches.wrap(encoder, "forward", _fast(outermost))
    outermost.forwards[:] = [(encoder, own, encoder.forward)]
    outermost.again()
    patches.on_undo(outermost.end)


def _unhooked(outermost: Outermost) -> Callable[[Function], Function]:
    """Around what compiles modules, and looks at their hooks, or at forwards that have others in their place."""

    def around(original: Function) -> Function:
        signature = inspect.signature(original)

        def compile_(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            if FRAMES_UP in signature.parameters:  # names are looked up where script was called: one frame further
                bound.arguments[FRAMES_UP] = bound.arguments.get(FRAMES_UP, 0) + 1
            with outermost.unhooked():
                return original(*bound.args, **bound.kwargs)

        return compile_

    return around


def _fast(outermost: Outermost) -> Callable[[Function], Function]:
    """Around a forward that goes another way where a part of the module has hooks."""
    compiling = outermost.compiling

    def around(original: Function) -> Function:
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self.training or (compiling.looks and compiling.looks()):
                return original(self, *args, **kwargs)
            with outermost.unhooked_within(self):
                return original(self, *args, **kwargs)

        leave_uncompiled(forward)
        return forward

    return around


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


def _watching(outermost: Outermost, limitation: str = "") -> Callable[[Function], Function]:
    def around(original: Function) -> Function:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            outermost.watch(self)
            if limitation:
                outermost.tracer.limited(limitation)

        return init

    return around
