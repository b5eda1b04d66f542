"""A Trace as one CSV table: a row per span, the columns of :mod:`e2c_dl.trace.columns`; null is nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from e2c_dl.atomic_write import ELSEWHERE, written
from e2c_dl.trace.columns import SCHEMA, to_table
from e2c_dl.trace.export.origin import origin_ns
from e2c_dl.trace.model import ClockAlignment, Trace

_PLAIN = pa.schema(
    [
        pa.field(field.name, pa.string()) if pa.types.is_dictionary(field.type) else field.remove_metadata()
        for field in SCHEMA
        if not field.name.startswith("own_")  # a Trace is aligned
    ]
)


def write(trace: Trace, path: Path) -> None:
    """Write ``trace`` to ``path``: rank by rank, spans in the order of recording, times since training began.

    Raises: ArchiveError, if it cannot be written.
    """
    began_ns = origin_ns(trace)
    with written(path, ELSEWHERE) as place, pa_csv.CSVWriter(str(place), _PLAIN) as writer:
        for rank in trace.ranks:
            facts = {"rank": rank.rank, "host": rank.host, "layer": rank.layer}
            table = to_table(
                rank.spans, facts, complete=rank.complete, clock=_certainty(rank.clock), origin_ns=began_ns
            )
            writer.write_table(table.select(_PLAIN.names).cast(_PLAIN))


def _certainty(clock: ClockAlignment) -> ClockAlignment:
    """How certain ``clock`` is of times that it has aligned already."""
    return ClockAlignment(
        uncertainty_ns=clock.uncertainty_ns, usual_uncertainty_ns=clock.usual_uncertainty_ns, steps=clock.aligned_steps
    )
