"""Deep learning across edge, fog and cloud: deploy it, emulate the network, train, and name what slowed it down.

For scripts and notebooks: ``load``, ``simulate``, ``deploy`` (:mod:`e2c_dl.api`).
"""

import importlib
from typing import Any

__version__ = "0.2.0"

_OFFERED = ("ArchivedRun", "deploy", "load", "simulate")


def __getattr__(name: str) -> Any:
    if name not in _OFFERED:
        raise AttributeError(f"module 'e2c_dl' has no attribute {name!r}")
    return getattr(importlib.import_module("e2c_dl.api"), name)  # late: a command's --help need not load NumPy


def __dir__() -> list[str]:
    return [*globals(), *_OFFERED]
