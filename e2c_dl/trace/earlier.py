"""Traces as they were written before spans had frames and tables had names: read, never written.

::

    spans.bin       | E2CSPANS | version u32 | length u32 | JSON, blanks up to length | record | record | ...
    spans.parquet   one column per field of SPAN, of the same name and type, own clock; version 1 in its metadata

The last field, ``kind``, was called ``reserved`` and always 0.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from e2c_dl import codec
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.check import RawFacts, SpansFacts
from e2c_dl.trace.model import RECORD_BYTES, SPAN, Phase, Spans

VERSION = 1
MAGIC = b"E2CSPANS"
PREFIX = struct.Struct("<8sII")


def raw_spans(content: bytes, where: str) -> tuple[SpansFacts, Spans, bool]:
    """As ``read_spans``, of a spans.bin that begins with MAGIC. Raises: ArchiveError."""
    begin = _header_length(content, where)
    facts = codec.decode(content[PREFIX.size : begin], RawFacts, f"{where}: the header of the trace")
    if _now(facts.dtype) != SPAN.descr:
        raise ArchiveError(f"{where}: its records are laid out otherwise; read it with the program that wrote it")
    count, torn = divmod(len(content) - begin, RECORD_BYTES)
    spans = np.frombuffer(content, dtype=SPAN, count=count, offset=begin).copy()  # a buffer's view is read-only
    complete = torn == 0 and bool(np.any(spans["phase"] == Phase.TRAINING))
    return SpansFacts(rank=facts.rank, host=facts.host, layer=facts.layer), spans, complete


def table_spans(table: Any, where: str) -> Spans:
    """The spans of a table of version 1. Raises: ArchiveError."""
    columns = [(column.name, np.dtype(column.type.to_pandas_dtype()).str) for column in table.schema]
    if _now(columns) != SPAN.descr:
        raise ArchiveError(f"{where}: its columns are not those of a trace; {codec.DAMAGED}")
    spans = np.empty(table.num_rows, dtype=SPAN)
    for name, (column, _) in zip(SPAN.names or (), columns, strict=True):
        if table.column(column).null_count:
            raise ArchiveError(f"{where}: {name} is missing in a span; {codec.DAMAGED}")
        spans[name] = table.column(column).to_numpy()
    return spans


def _now(fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """``fields`` with the names of today."""
    return [("kind" if name == "reserved" else name, kind) for name, kind in fields]


def _header_length(content: bytes, where: str) -> int:
    what = "cut off inside its header"
    if len(content) >= PREFIX.size:
        _, version, length = PREFIX.unpack_from(content)
        if version != VERSION:
            what = f"version {version}, not {VERSION}"
        elif len(content) >= PREFIX.size + length:
            return int(PREFIX.size + length)
    raise ArchiveError(f"{where}: cannot read the trace: it is {what}; read it with the program that wrote it")
