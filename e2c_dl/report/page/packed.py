"""Columns of numbers on a page: compressed, as text, opened by the page itself (web/packed.js).

::

    <script type="application/octet-stream" id="NAME-data">  base64 of gzip of:
    | length u32 | JSON: facts, columns {name: [type, offset, count]} | column | column | ...

Base64 cannot end its element, whatever names the facts hold; the page shows them as text alone.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

ALIGNED = 8  # bytes: a typed array begins at a multiple of its item
FINEST_TICK_S = 1e-7  # more than clocks of different hosts agree
MOST_TICKS = 2**31 - 1
TYPES = {
    "u1": "Uint8Array", "u2": "Uint16Array", "i2": "Int16Array", "i4": "Int32Array", "u4": "Uint32Array",
         "f4": "Float32Array", "f8": "Float64Array"}  # fmt: skip

Columns = Mapping[str, npt.NDArray[Any]]


def packed(name: str, facts: Mapping[str, Any], columns: Columns) -> str:
    """The element ``NAME-data``."""
    text = base64.b64encode(gzip.compress(_laid_out(facts, columns), compresslevel=6, mtime=0)).decode()
    return f'<script type="application/octet-stream" id="{name}-data">{text}</script>'


def unpacked(text: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """(facts, columns) of an element's text: what the page does, for tests and for who reads a page by program."""
    content = gzip.decompress(base64.b64decode(text))
    (length,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + length])
    names = {array: kind for kind, array in TYPES.items()}
    columns = {
        name: np.frombuffer(content, dtype=f"<{names[array]}", count=count, offset=4 + length + offset)
        for name, (array, offset, count) in header["columns"].items()
    }
    return header["facts"], columns


def tick_s(end_s: float) -> float:
    """The unit of times up to ``end_s`` in a packed column."""
    return max(FINEST_TICK_S, end_s / MOST_TICKS)


def ticks(seconds: npt.ArrayLike, tick: float) -> npt.NDArray[np.int32]:
    """Differences between neighbours, the first from 0, in ticks: small numbers compress well."""
    whole = np.rint(np.asarray(seconds, dtype=np.float64) / tick).astype(np.int64)
    return np.diff(whole, prepend=0).astype(np.int32)


def lengths(begin_s: npt.NDArray[np.float64], end_s: npt.NDArray[np.float64], tick: float) -> npt.NDArray[np.int32]:
    """From each begin to its end in ticks, at least 0; a damaged trace may hold longer ones than a page can."""
    whole = np.rint((end_s - begin_s) / tick)
    return np.clip(whole, 0, np.iinfo(np.int32).max).astype(np.int32)


def _laid_out(facts: Mapping[str, Any], columns: Columns) -> bytes:
    places: dict[str, tuple[str, int, int]] = {}
    offset = 0  # from the end of the header
    parts = []
    for name, column in columns.items():
        content = _aligned(np.ascontiguousarray(column).tobytes())
        places[name] = TYPES[column.dtype.str[1:]], offset, len(column)
        offset += len(content)
        parts.append(content)
    header = json.dumps({"facts": facts, "columns": places}, separators=(",", ":")).encode()
    header = _aligned(header, before=4, filler=b" ")
    return b"".join([struct.pack("<I", len(header)), header, *parts])


def _aligned(content: bytes, before: int = 0, filler: bytes = b"\0") -> bytes:
    """``content``, filled up so that what follows it and ``before`` bytes is aligned."""
    return content + filler * (-(before + len(content)) % ALIGNED)
