"""Import of what a user wrote, by path: ``package.module:attribute``, a class or a function called without arguments.

The module stands in the scenario's own ``code/``, which is looked into first, or must be importable on every host that
trains: installed there, or on PYTHONPATH.
"""

from __future__ import annotations

import importlib
import os
import sys

from e2c_dl.errors import InputError


def call(path: str, what: str, code: str | None = None) -> object:
    """What the attribute at ``path`` returns when called; ``what`` it is meant to be (model, dataset) is for messages.

    ``code``: the folder of the scenario's own code. It stays the first on ``sys.path``: what was made may import later.

    Raises: InputError, if it cannot be imported, is not there, cannot be called, or fails.
    """
    module_name, _, attribute = path.partition(":")
    if code is not None:
        _prefer(code, module_name.partition(".")[0])
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a user's module may fail in any way, or be a script that ends
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"{what} {path}: module {module_name} cannot be imported: {why}; install it on every host that trains"
        ) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        problem = "is not there" if factory is None else f"is a {type(factory).__name__}, which cannot be called"
        raise InputError(f"{what} {path}: {attribute} {problem}; name a class or a function without arguments")
    try:
        made: object = factory()
    except (Exception, SystemExit) as error:  # and so may what it defines
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{what} {path}: calling {attribute}() failed: {why}; correct it there") from error
    return made


def _prefer(code: str, name: str) -> None:
    """Imports look into ``code`` first; a module ``name`` that came from elsewhere is imported anew, from there."""
    sys.path[:] = [code, *(place for place in sys.path if place != code)]
    importlib.invalidate_caches()  # it may have been written while this program runs
    if not any(os.path.exists(os.path.join(code, each)) for each in (name, f"{name}.py")):
        return
    origin = getattr(sys.modules.get(name), "__file__", None)
    if origin is not None and not os.path.abspath(origin).startswith(os.path.join(code, "")):
        for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[each]
