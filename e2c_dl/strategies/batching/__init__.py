"""Batch controllers: how the samples of an iteration are divided among ranks. Each wraps a Worker, for any strategy.

==================  ==================================================
``fixed``           as the scenario says
``proportional``    by the speeds measured in the first iterations, once
``dynamic``         by the speeds measured lately, again and again
==================  ==================================================

The total stays what it is, so that every strategy that weights by samples computes what it did, only sooner. A strategy
may let it grow (:mod:`e2c_dl.strategies.batching.growth`), under a controller that does not hold batches fixed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Strategy, Worker
from e2c_dl.strategies.batching.controllers import divided, dynamic, fixed, proportional

__all__ = ["CONTROLLERS", "FIXED", "check", "controlled", "divided", "own_pace"]

FIXED = "fixed"
"""Batches as the scenario has them."""

CONTROLLERS: Mapping[str, Callable[[Worker], Worker]] = MappingProxyType({
    "dynamic": dynamic,
    "fixed": fixed,
    "proportional": proportional,
})  # fmt: skip


def controlled(worker: Worker, name: str) -> Worker:
    """``worker``, with its batches under the controller called ``name``; a strategy runs on it as on any other.

    Raises: InputError, naming the closest match, if there is no such controller.
    """
    if name not in CONTROLLERS:
        close = difflib.get_close_matches(name, CONTROLLERS, n=1) or sorted(CONTROLLERS)
        raise InputError(f"batching {name!r} does not exist; write {' or '.join(close)}")
    return CONTROLLERS[name](worker)


def check(strategy: Strategy, name: str) -> None:
    """Raises: InputError, if ``strategy`` cannot train under the controller called ``name``."""
    if strategy.fixed_batches and name != FIXED:
        raise InputError(
            f"batching {name!r}: with these settings, ranks of {strategy.name} wait for each other in an order of its "
            "own, and cannot wait for each other's speeds, too; write batching: fixed"
        )
    if strategy.grows_batches and name == FIXED:
        raise InputError(f"batching {name!r}: with these settings, batches of {strategy.name} grow; write dynamic")


def own_pace(strategy: Strategy, name: str) -> bool:
    """Whether ranks go at their own pace, so that they may have unlike numbers of iterations.

    Those under a controller that exchanges speeds wait for each other, whatever the strategy.
    """
    return strategy.asynchronous and name == FIXED
