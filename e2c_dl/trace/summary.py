"""What a trace holds, in one pass over its tables: time by rank and phase, before any diagnosis.

::

    traces/*.parquet   five columns of each   -->  RankTimes: spans, iterations, seconds by phase

Durations are summed, overlapping or not, so they are no wall time; left out of them are iterations of the warm-up, and
where any has ended what is of none that has, as a last evaluation.
Nothing is aligned, joined or replayed: a summary is there in a second where a report takes many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from e2c_dl.beneath import LARGE_BYTES, Place
from e2c_dl.errors import ArchiveError
from e2c_dl.trace import columns, places, store
from e2c_dl.trace.check import SpansFacts
from e2c_dl.trace.model import SPAN, Lost

_COLUMNS = ("phase", "iteration", "warm_up", "start_ns", "end_ns")
_FRAMES = ("iteration", "training", "spawn")  # around the others, or instants
_READERS = 2  # files at once: decoding holds no lock


@dataclass(frozen=True, kw_only=True)
class RankTimes:
    """One rank's part of a summary."""

    rank: int
    host: str
    layer: str
    spans: int
    iterations: int
    judged: int  # of the iterations, those after the warm-up
    iteration_s: float  # mean over them; NaN without any
    phase_s: Mapping[str, float]  # phase -> seconds, summed over all spans of iterations after the warm-up
    complete: bool
    lost: Lost


def summarize(archive: Place) -> tuple[tuple[RankTimes, ...], tuple[str, ...]]:
    """(every rank of ``archive``, in order; why those of other hosts cannot be read).

    Raises: ArchiveError, if none has left a trace that can be read.
    """
    found = store.those_traced(archive, places.all_recorded(archive))
    with ThreadPoolExecutor(_READERS) as pool:
        results = list(pool.map(_tried, found))
    ranks = [one for one in results if isinstance(one, RankTimes)]
    problems = tuple(str(one) for one in results if isinstance(one, ArchiveError))
    if not ranks:
        raise ArchiveError(problems[0])
    return tuple(sorted(ranks, key=lambda one: one.rank)), problems


def _tried(own: places.Recorded) -> RankTimes | ArchiveError:
    try:
        return _rank(own)
    except ArchiveError as error:
        return error


def _rank(own: places.Recorded) -> RankTimes:
    place = own.table
    if not place.exists():
        return _slowly(*store.read_recording(own))
    with place.opened() as content:
        try:
            file = pq.ParquetFile(content, page_checksum_verification=True)
            facts = store.facts_of(file.schema_arrow, str(place))
            fits = file.metadata.num_rows * SPAN.itemsize <= LARGE_BYTES
            if fits and facts.version == columns.VERSION and file.schema_arrow.types == columns.SCHEMA.types:
                table = file.read(columns=list(_COLUMNS), use_threads=False)
                return _times(table, facts, complete=facts.complete)
        except (OSError, ValueError, pa.ArrowException, MemoryError):
            pass  # damaged: what can be read of it is told by whoever reads all of it
    return _slowly(*store.read_recording(own))


def _slowly(facts: SpansFacts, spans: Any, complete: bool) -> RankTimes:
    """Of a file that has no such columns, or is damaged."""
    about = {"rank": facts.rank, "host": facts.host, "layer": facts.layer}
    table = columns.to_table(spans, about, complete=complete, clock=None, origin_ns=None)
    return _times(table, facts, complete=complete)


def _times(table: pa.Table, facts: SpansFacts, *, complete: bool) -> RankTimes:
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    iterations, last = 0, -1
    for names, codes, batch in _batches(table):
        if "iteration" in names:
            ended = _numbers(batch)[codes == names.index("iteration")]
            iterations, last = iterations + len(ended), max(last, ended.max(initial=-1))
    for names, codes, batch in _batches(table):
        lasted_ns = batch.column("end_ns").to_numpy() - batch.column("start_ns").to_numpy()
        judged = ~batch.column("warm_up").to_numpy(zero_copy_only=False)
        if iterations:
            of = _numbers(batch)
            judged &= (of >= 0) & (of <= last)
        totals_ns = np.bincount(codes[judged], weights=lasted_ns[judged], minlength=len(names))
        numbers = np.bincount(codes[judged], minlength=len(names))
        for name, total_ns, number in zip(names, totals_ns.tolist(), numbers.tolist(), strict=False):
            sums[name] = sums.get(name, 0.0) + total_ns / 1e9
            counts[name] = counts.get(name, 0) + number
    judged_iterations = counts.get("iteration", 0)
    return RankTimes(
        rank=facts.rank, host=facts.host, layer=facts.layer, spans=len(table), iterations=iterations,
        judged=judged_iterations,
        iteration_s=sums.get("iteration", 0.0) / judged_iterations if judged_iterations else float("nan"),
        phase_s={name: total_s for name, total_s in sorted(sums.items()) if name not in _FRAMES and counts[name]},
        complete=complete, lost=facts.lost,
    )  # fmt: skip


def _batches(table: pa.Table) -> Iterator[tuple[list[str], Any, Any]]:
    """(names of phases, an index into them per span, the spans)."""
    for batch in table.select(_COLUMNS).to_batches():
        phases = batch.column("phase")
        names = phases.dictionary.to_pylist()
        yield names, phases.indices.fill_null(len(names)).to_numpy(zero_copy_only=False), batch


def _numbers(batch: Any) -> Any:
    """The iteration of each span, -1 where it is of none."""
    return batch.column("iteration").fill_null(-1).to_numpy(zero_copy_only=False)
