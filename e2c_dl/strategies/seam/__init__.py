"""Seam between strategies and worlds: messages, the verbs of a Worker, the mathematics of a rank; and their settings.

Strategies import it from :mod:`e2c_dl.strategies.base`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

Setting = float | int | str | bool


def settings_of(made: Callable[..., object]) -> Mapping[str, Setting]:
    """The settings that the class ``made`` knows, with their defaults."""
    parameters = inspect.signature(made).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
