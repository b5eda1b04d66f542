"""A Trace as one CSV table: a row per span, with names instead of numbers where there are any."""

from __future__ import annotations

import csv
from pathlib import Path

from e2c_dl.atomic_write import ELSEWHERE, written
from e2c_dl.trace.model import SPAN, Phase, Trace

_FIELDS = tuple(name for name in SPAN.names or () if name not in ("phase", "kind"))
HEADER = ("host", "layer", "rank", "phase", *_FIELDS)


def write(trace: Trace, path: Path) -> None:
    """Write ``trace`` to ``path``: rank by rank, spans in the order of recording, times on the reference clock.

    Raises: ArchiveError, if it cannot be written.
    """
    with written(path, ELSEWHERE) as place, place.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for rank in trace.ranks:
            phases = [Phase(phase).name for phase in rank.spans["phase"].tolist()]
            columns = (rank.spans[name].tolist() for name in _FIELDS)
            for phase, *values in zip(phases, *columns, strict=True):
                writer.writerow((rank.host, rank.layer, rank.rank, phase, *values))
