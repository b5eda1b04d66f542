"""Records: how spans stand in a file; pure values, for whoever writes or reads one.

::

    | E2CSPANS | version u32 | length u32 | JSON, blanks up to length | record | record | ... | (torn record) |
                                             rank, host, layer, dtype    64 bytes each         after kill -9
"""

from __future__ import annotations

import json
import struct

from e2c_dl.trace.model import SPAN, SPAN_VERSION

MAGIC = b"E2CSPANS"
PREFIX = struct.Struct("<8sII")

RECORD = struct.Struct("<qqqqqiiihhhhHH")
"""SPAN, field by field: packing is three times as fast as a NumPy record."""

RECORD_BYTES = SPAN.itemsize


def header(rank: int, host: str, layer: str) -> bytes:
    """The beginning of a file of spans; its length is a multiple of RECORD_BYTES."""
    dtype = [list(field) for field in SPAN.descr]
    text = json.dumps({"rank": rank, "host": host, "layer": layer, "dtype": dtype}).encode()
    text += b" " * (-(len(text) + PREFIX.size) % RECORD_BYTES)  # records begin at a multiple of their size
    return PREFIX.pack(MAGIC, SPAN_VERSION, len(text)) + text
