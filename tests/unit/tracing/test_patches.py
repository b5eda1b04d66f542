"""What is wrapped behaves to its callers as what it was."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from types import CodeType, SimpleNamespace
from typing import Any

import pytest

from e2c_dl.tracing.hooks.calls import Compiling, outer_only
from e2c_dl.tracing.hooks.patches import Patches

Function = Callable[..., Any]


class Library:
    """Somebody else's."""

    @staticmethod
    def old() -> None:
        """Says so to whoever calls it."""
        warnings.warn("use new()", FutureWarning, stacklevel=2)


def around(original: Function) -> Function:
    def call(*args: Any) -> Any:
        return original(*args)

    return call


@pytest.mark.parametrize("wrapping", [around, outer_only(around, Compiling())])
def test_warnings_are_of_the_script_that_causes_them(wrapping: Callable[[Function], Function]) -> None:
    patches = Patches()
    patches.wrap(Library, "old", wrapping)
    with pytest.warns(FutureWarning) as found:
        Library.old()
    patches.undo()
    assert [each.filename for each in found] == [__file__]


def test_what_is_wrapped_tells_its_parameters() -> None:
    def named(first: int, *, second: int = 2) -> None:
        pass

    @functools.wraps(named)
    def decorated(*args: Any, **kwargs: Any) -> None:
        named(*args, **kwargs)

    owner, patches = SimpleNamespace(named=named, decorated=decorated), Patches()
    for name in vars(owner):
        patches.wrap(owner, name, around)
    assert inspect.getfullargspec(owner.named) == inspect.getfullargspec(named)
    for each in (owner.named, owner.decorated):
        assert inspect.signature(each) == inspect.signature(named)


def test_what_is_wrapped_again_is_the_same_to_who_compiles_it() -> None:
    codes: list[CodeType] = []
    for _ in range(2):
        patches = Patches()
        patches.wrap(Library, "old", around)
        codes.append(Library.old.__code__)
        patches.undo()
    assert codes[0] is codes[1]
