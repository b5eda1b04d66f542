"""Groups of a table's rows: how large they are, and those that can be read where a file is damaged."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from e2c_dl.trace.model import Lost

MOST_ROWS, LEAST_ROWS, GROUPS = 1 << 14, 512, 8
"""Of a group, at most and at least, and how many groups, as far as that lets: what one flipped bit may cost."""


def rows_per_group(count: int) -> int:
    """Of a table of ``count`` rows."""
    return min(MOST_ROWS, max(LEAST_ROWS, -(-count // GROUPS)))


def read_groups(file: pq.ParquetFile, names: list[str] | None) -> tuple[pa.Table, Lost]:
    """Columns (None: all) of groups that can be read, what others held. Raises: ArrowException, if none can be."""
    try:
        return file.read(names), Lost()
    except (OSError, ValueError, pa.ArrowException):
        if file.num_row_groups < 2:
            raise
    tables, rows, size_bytes = [], 0, 0
    for number in range(file.num_row_groups):
        try:
            tables.append(file.read_row_group(number, names))
        except (OSError, ValueError, pa.ArrowException):
            about = file.metadata.row_group(number)
            rows, size_bytes = rows + about.num_rows, size_bytes + about.total_byte_size
    if not tables:
        file.read(names)
    return pa.concat_tables(tables), Lost(spans=rows, damaged_bytes=size_bytes)
