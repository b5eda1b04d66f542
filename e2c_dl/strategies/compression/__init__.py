"""Compressors: what strategies send, in fewer bytes. Each wraps a Worker, for any strategy.

============  ==========================================================================================
``none``      messages as they are
``fp16``      halves, scaled so that none overflows; 2 bytes an entry
``int8``      whole numbers, scaled by blocks of entries; 1 byte an entry
``topk``      the largest share of entries; of what is added alone, the rest follows later
``polyline``  so many decimal places; as many characters as each entry takes
``powersgd``  the product of two thin matrices; of what is added alone, the rest follows later
============  ==========================================================================================
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Setting, Worker
from e2c_dl.strategies.compression.compressing import Compressing, Compressor
from e2c_dl.strategies.compression.polyline import Polyline
from e2c_dl.strategies.compression.powersgd import PowerSGD
from e2c_dl.strategies.compression.rounding import Bytes, Halves
from e2c_dl.strategies.compression.topk import TopK

__all__ = ["COMPRESSORS", "NONE", "Compressing", "Compressor", "compressed"]

NONE = "none"
COMPRESSORS: Mapping[str, type[Compressor]] = MappingProxyType({
    "fp16": Halves,
    "int8": Bytes,
    "polyline": Polyline,
    "powersgd": PowerSGD,
    "topk": TopK,
})  # fmt: skip
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
