"""Spans of one host as a table of columns that explain themselves, whatever it left and whichever version wrote it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from e2c_dl import codec
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.columns import SCHEMA, VERSION, to_table
from e2c_dl.trace.places import Recorded
from e2c_dl.trace.recording.span_log import read_spans
from e2c_dl.trace.store import facts_of, read_clock, read_parquet


def table_of_host(own: Recorded, columns: Sequence[str] | None = None, origin_ns: int | None = None) -> pa.Table:
    """The spans that that host left, a row each; of ``columns`` alone, if they are named.

    ``origin_ns``: when the run's training began, which tables of other hosts count from, too.
    Raises: ArchiveError, if it left none or they cannot be read.
    """
    parquet = own.table
    wanted = list(SCHEMA.names if columns is None else columns)
    if parquet.exists():
        with parquet.opened() as content:
            try:
                file = pq.ParquetFile(content)
                of_now = facts_of(file.schema_arrow, str(parquet)).version == VERSION
                if of_now and file.schema_arrow.names == SCHEMA.names:
                    return file.read(columns=wanted)
            except (OSError, ValueError, pa.ArrowException) as error:
                reason = str(error).partition("\n")[0]
                raise ArchiveError(f"{parquet}: cannot read the trace: {reason}; {codec.DAMAGED}") from error
    facts, spans, complete = read_parquet(parquet) if parquet.exists() else read_spans(own.raw)
    known = {"rank": facts.rank, "host": facts.host, "layer": facts.layer}
    made = to_table(spans, known, complete=complete, clock=read_clock(own.folder), origin_ns=origin_ns, lost=facts.lost)
    return made.select(wanted)
