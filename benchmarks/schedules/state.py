"""When two coroutines will do the same: their state as a value that can be compared.

A suspended coroutine is where it stands in its code and all that it can reach from there: its variables, what it
awaits, iterators that it is in the middle of. CPython tells all of it to its garbage collector, and so to whoever asks.
Objects are told by their class and what they hold; which of them are the same one is kept, by the order in which they
are met.
"""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from e2c_dl.worlds.virtual.shape import Shape

_PLAIN = (int, float, str, bytes, bool, type(None))
_NAMED = (types.CodeType, types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType)
_ITERATORS = (
    type(iter([])),
    type(iter(())),
    type(iter(range(0))),
    type(iter({})),
    type(iter({}.items())),
    enumerate,
    zip,
)
_SUSPENDED = {types.CoroutineType: "cr_frame", types.GeneratorType: "gi_frame", types.AsyncGeneratorType: "ag_frame"}


def canonical(value: Any, worker: object) -> object:
    """``value`` as nested tuples; ``worker`` is told by others."""
    return _told(value, worker, {})


def _told(value: Any, worker: object, met: dict[int, tuple[int, Any]]) -> object:
    if isinstance(value, _PLAIN):
        return value
    if value is worker:
        return "worker"
    if isinstance(value, _NAMED):
        return getattr(value, "__qualname__", getattr(value, "co_name", ""))
    if isinstance(value, types.FrameType):
        return "frame"  # of a coroutine that is told itself
    if id(value) in met:
        return ("met", met[id(value)][0])
    met[id(value)] = (len(met), value)  # kept: another object might get its id
    return (type(value).__qualname__, *(_told(each, worker, met) for each in _parts(value)))


def _parts(value: Any) -> list[Any]:
    """What ``value`` holds, in an order that is the same each time."""
    kind = type(value)
    if kind in _SUSPENDED:
        frame = getattr(value, _SUSPENDED[kind])
        return ["ended"] if frame is None else [frame.f_code, frame.f_lasti, *gc.get_referents(value)]
    for types_, parts in _HOLD:
        if isinstance(value, types_):
            return parts(value)
    held = getattr(value, "__dict__", None)
    return [held] if held is not None else gc.get_referents(value)


_HOLD: tuple[tuple[Any, Callable[[Any], list[Any]]], ...] = (
    ((tuple, list, deque), list),
    (dict, lambda value: [part for item in value.items() for part in item]),
    ((set, frozenset), sorted),
    (Shape, lambda value: [value.length]),
    (np.ndarray, lambda value: [str(value.dtype), value.tobytes()]),
    (types.MethodType, lambda value: [value.__func__, value.__self__]),
    (_ITERATORS, lambda value: list(value.__reduce__()[1:])),
    (range, lambda value: [value.start, value.stop, value.step]),
)
"""Types, and what one of them holds."""
