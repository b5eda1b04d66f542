"""One algorithm, one file: a coroutine over a Worker that runs unchanged in every world.

A strategy is found by the name of its file; nothing is imported until it is asked for. The packages in here are tools
of the strategies: ``collectives`` what groups of ranks do together, ``batching`` how samples are divided among ranks.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Setting, Strategy
from e2c_dl.strategies.seam import settings_of

_NOT_STRATEGIES = frozenset({"base"})  # the seam that they are written to


@dataclass(frozen=True, kw_only=True)
class Description:
    """Name, title and settings of a strategy."""

    name: str
    title: str  # the first sentence of its file
    asynchronous: bool  # ranks go at their own pace
    settings: Mapping[str, Setting]  # ``strategy_settings`` that it knows, with their defaults


def names() -> tuple[str, ...]:
    """The strategies there are, sorted, without importing them."""
    files = {module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg}  # packages: tools
    return tuple(sorted(name for name in files - _NOT_STRATEGIES if not name.startswith("_")))


def load(name: str) -> type[Strategy]:
    """The strategy called ``name``.

    Raises: InputError, naming the closest match, if there is none.
    """
    if name not in names():
        close = difflib.get_close_matches(name, names(), n=1)
        remedy = f"write {close[0]}" if close else f"write one of {', '.join(names())}"
        raise InputError(f"strategy {name!r} does not exist; {remedy}")
    module = importlib.import_module(f"{__name__}.{name}")
    for value in vars(module).values():  # by its name: a file also imports classes that it is made of
        if isinstance(value, type) and issubclass(value, Strategy) and getattr(value, "name", None) == name:
            return value
    raise InputError(f"strategies/{name}.py has no Strategy whose name is {name!r}; set its class attribute 'name'")


def describe(name: str) -> Description:
    """The strategy called ``name``, for people. Raises: InputError, if there is none or its file does not say."""
    strategy = load(name)
    text = inspect.getdoc(inspect.getmodule(strategy)) or ""
    if not text:
        raise InputError(f"strategies/{name}.py says nothing of itself; begin it with a docstring")
    return Description(
        name=name, title=text.splitlines()[0], asynchronous=strategy.asynchronous, settings=settings_of(strategy)
    )
