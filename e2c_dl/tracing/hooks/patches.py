"""Attributes of other people's modules and classes, replaced and put back."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


class Patches:
    """What was replaced; :meth:`undo` puts it back, the last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def wrap(self, owner: Any, name: str, around: Callable[[Function], Function], *others: Any) -> None:
        """``owner.name`` is ``around`` of what it was, under the same name and signature.

        So it is for ``others`` that have the same function, and in the module that it is of: it is pickled by that.
        """
        original: Function = getattr(owner, name)
        replaced: Function = functools.wraps(original)(around(original))
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
