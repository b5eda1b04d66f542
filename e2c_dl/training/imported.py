"""Import of what a user wrote, by path: ``package.module:attribute``, a class or a function called without arguments.

The module must be importable on every host that trains: installed there, or on PYTHONPATH.
"""

from __future__ import annotations

import importlib

from e2c_dl.errors import InputError


def call(path: str, what: str) -> object:
    """What the attribute at ``path`` returns when called; ``what`` it is meant to be (model, dataset) is for messages.

    Raises: InputError, if it cannot be imported, is not there, cannot be called, or fails.
    """
    module_name, _, attribute = path.partition(":")
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
