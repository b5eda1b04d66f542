"""Spans of one host as a table of columns that explain themselves, whatever it left and whichever version wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from e2c_dl.errors import ArchiveError
from e2c_dl.trace.columns import SCHEMA, VERSION, to_table
from e2c_dl.trace.places import Recorded
from e2c_dl.trace.ranks import read_clock
from e2c_dl.trace.store import facts_of, read_recording


def table_of_host(own: Recorded, columns: Sequence[str] | None = None, origin_ns: int | None = None) -> pa.Table:
    """The spans that that host left, a row each; of ``columns`` alone, if they are named.

    ``origin_ns``: when the run's training began, which tables of other hosts count from, too.
    Raises: ArchiveError, if it left none or they cannot be read.
    """
    wanted = list(SCHEMA.names if columns is None else columns)
    if own.table.exists():
        with suppress(ArchiveError, OSError, ValueError, pa.ArrowException), own.table.opened() as content:
            file = pq.ParquetFile(content, page_checksum_verification=True)
            of_now = facts_of(file.schema_arrow, str(own.table)).version == VERSION
            if of_now and file.schema_arrow.names == SCHEMA.names:
                return file.read(columns=wanted)
    facts, spans, complete = read_recording(own)  # of a damaged table what is whole, or the raw file
    known = {"rank": facts.rank, "host": facts.host, "layer": facts.layer}
    made = to_table(spans, known, complete=complete, clock=read_clock(own.folder), origin_ns=origin_ns, lost=facts.lost)
    return made.select(wanted)
