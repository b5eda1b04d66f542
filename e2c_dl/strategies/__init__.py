"""One algorithm, one file: a coroutine over a Worker that runs unchanged in every world.

A strategy is found by the name of its file; nothing is imported until it is asked for.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Strategy

_NOT_STRATEGIES = frozenset({"base"})


def names() -> tuple[str, ...]:
    """The strategies there are, sorted, without importing them."""
    return tuple(sorted({module.name for module in pkgutil.iter_modules(__path__)} - _NOT_STRATEGIES))


def load(name: str) -> type[Strategy]:
    """The strategy called ``name``.

    Raises: InputError, naming the closest match, if there is none.
    """
    if name not in names():
        close = difflib.get_close_matches(name, names(), n=1)
        remedy = f"write {close[0]}" if close else f"write one of {', '.join(names())}"
        raise InputError(f"strategy {name!r} does not exist; {remedy}")
    module = importlib.import_module(f"{__name__}.{name}")
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Strategy) and getattr(value, "name", None) == name:
            return value
    raise InputError(f"strategies/{name}.py has no Strategy whose name is {name!r}; set its class attribute 'name'")
