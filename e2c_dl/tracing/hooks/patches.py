"""Attributes of other people's modules and classes, replaced and put back.

What stands between a script and the function that it calls is not where that function's warnings point: Python passes
over frames of files with such names as its own import's have, and so those of a wrapper have one.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any, TypeVar

Function = Callable[..., Any]
Around = Callable[[Function], Function]
Passed = TypeVar("Passed", bound=Function)
_PASSED_OVER = "importlib _bootstrap: "  # by warnings and logging


class Patches:
    """What was replaced; :meth:`undo` puts it back, the last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def wrap(self, owner: Any, name: str, around: Around, *others: Any) -> None:
        """``owner.name`` is ``around`` of what it was, under the same name and signature.

        So it is for ``others`` that have the same function, and in the module that it is of: it is pickled by that.
        """
        original: Function = getattr(owner, name)
        replaced: Any = functools.wraps(original)(passed_over(around)(original))
        if not hasattr(original, "__wrapped__"):  # getfullargspec looks into no wrapper
            with suppress(TypeError, ValueError):  # a built-in may not tell
                replaced.__signature__ = inspect.signature(original)
        self._replace(owner, name, original, replaced)
        home = sys.modules.get(getattr(original, "__module__", None) or "")
        for each in (*others, home):
            if getattr(each, name, None) is original:  # not one that has been replaced by now
                self._replace(each, name, original, replaced)

    def _replace(self, owner: Any, name: str, original: Function, replaced: Function) -> None:
        own = name in vars(owner)
        setattr(owner, name, replaced)

        def put_back() -> None:
            if getattr(owner, name) is not replaced:
                return  # somebody else wrapped it since then
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

        self._undo.append(put_back)

    def on_undo(self, act: Callable[[], object]) -> None:
        """``act`` is called by :meth:`undo`."""
        self._undo.append(act)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def passed_over(function: Passed) -> Passed:
    """``function``, which warnings pass over, and what it makes."""
    found = getattr(function, "__func__", function)
    if isinstance(found, FunctionType):
        found.__code__ = _renamed(found.__code__)
    return function


@functools.cache  # what is put in place again is what it was: else torch.compile would compile anew
def _renamed(code: CodeType) -> CodeType:
    if code.co_filename.startswith(_PASSED_OVER):
        return code
    within = tuple(_renamed(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=_PASSED_OVER + code.co_filename, co_consts=within)
