"""JSON to records, as msgspec does it, from any thread.

msgspec (0.22) learns what a type is like when it is first asked for it; another thread that asks meanwhile reads what
is not there yet, and its process ends by SIGSEGV. So here one thread at a time learns.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_learning = threading.RLock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decode(text: str | bytes, kind: type[T]) -> T:
    """The ``kind`` that ``text``, JSON, holds. Raises: msgspec.DecodeError, and what msgspec.json.decode does."""
    found: T = _decoder(kind).decode(text)
    return found


def convert(value: Any, kind: type[T]) -> T:
    """The ``kind`` that ``value``, parsed JSON, holds. Raises: msgspec.ValidationError, what msgspec.convert does."""
    _decoder(kind)  # learns it
    return msgspec.convert(value, kind)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    found = _decoders.get(kind)
    if found is None:
        with _learning:
            found = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return found
