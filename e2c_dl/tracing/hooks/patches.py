"""Attributes of other people's modules and classes, replaced and put back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


class Patches:
    """What was replaced; :meth:`undo` puts it back, the last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def wrap(self, owner: Any, name: str, around: Callable[[Function], Function]) -> None:
        """``owner.name`` is ``around`` of what it was, under the same name and signature."""
        original = getattr(owner, name)
        own = name in vars(owner)
        replaced = functools.wraps(original)(around(original))
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
