"""Compressors: what strategies send, in fewer bytes. Each wraps a Worker, for any strategy.

==========  ==================================
``none``    messages as they are
==========  ==================================
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Setting, Worker
from e2c_dl.strategies.compression.compressing import Compressing, Compressor

__all__ = ["COMPRESSORS", "NONE", "Compressing", "Compressor", "compressed"]

NONE = "none"
COMPRESSORS: Mapping[str, type[Compressor]] = MappingProxyType({})
"""By name, but for none. The keyword-only parameters of a class are its settings."""


def compressed(worker: Worker, name: str, settings: Mapping[str, Setting]) -> Worker:
    """``worker``, its messages under the compressor called ``name``.

    Raises: InputError, naming the closest match, if there is none; what the compressor raises for ``settings``.
    """
    if name == NONE:
        if settings:
            raise InputError(f"compression {name!r} has no settings; remove {', '.join(sorted(settings))}")
        return worker
    if name not in COMPRESSORS:
        known = sorted([NONE, *COMPRESSORS])
        close = difflib.get_close_matches(name, known, n=1) or known
        raise InputError(f"compression {name!r} does not exist; write {' or '.join(close)}")
    made = COMPRESSORS[name]
    made(**settings)  # before anything is sent: a setting that is refused is told at once
    return Compressing(worker, lambda: made(**settings))
