"""The table of spans, version 3: one row per span, columns that explain themselves to any program that reads Parquet.

::

    rank  host    layer  phase     iteration  bucket  start_ns   end_ns     ...  own_start_ns
    0     edge-1  edge   forward   17         null    812450113  812790441       90412812450113
    0     edge-1  edge   backward  17         3       812790500  813004112       90412812790500
                                                      |                          as the host's own clock showed it
                                                      since training began, on the reference host's clock

Each field's metadata holds ``description`` and ``unit``; the schema's, under ``e2c_dl``, what holds for all rows, as
JSON: rank, host, layer, version, complete, origin_ns (when training began, on the reference clock), clock (the
alignment by which start_ns was made of own_start_ns), lost. docs/trace-format.md says the same for people.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from e2c_dl import codec
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.model import NOTHING_LOST, SPAN, ClockAlignment, Collective, Lost, Phase, Spans
from e2c_dl.trace.warm_up import warm_up

VERSION = 3
EARLIER = 2
"""In which tasks were numbered from -1, the thread that computes."""
METADATA = b"e2c_dl"
TIMES = ("posted_ns", "start_ns", "end_ns")
TASKS = ("task", "peer_task")
NAMES = pa.dictionary(pa.int32(), pa.string())
_WITH_BYTES = (Phase.SEND, Phase.RECEIVE, Phase.COLLECTIVE, Phase.FLOW, Phase.COPY, Phase.CHECKPOINT)
_WITH_KIND = (Phase.COLLECTIVE, Phase.AWAIT_COLLECTIVE)


@dataclass(frozen=True)
class Column:
    """One column; ``none``: the number that stands for null in a record of SPAN."""

    name: str
    kind: pa.DataType
    unit: str
    description: str
    none: int | None = None

    @property
    def field(self) -> pa.Field:
        about = {"description": self.description, "unit": self.unit}
        return pa.field(self.name, self.kind, nullable=self.none is not None, metadata=about)


_SINCE = "ns since training began, reference clock"
_OWN = "ns, the host's own clock"
COLUMNS = (
    Column("rank", pa.int32(), "", "number of the worker in its run, from 0"),
    Column("host", NAMES, "", "name of the host that the worker ran on"),
    Column("layer", NAMES, "", "layer of the host, such as edge, fog or cloud"),
    Column("phase", NAMES, "", "what the span is of: forward, backward, send, await_message, iteration ..."),
    Column("kind", NAMES, "", "which collective: all_reduce, broadcast ...; null: none", 0),
    Column("iteration", pa.int32(), "", "number of the iteration, from 0; null: outside of iterations", -1),
    Column("warm_up", pa.bool_(), "", "of one of the first two iterations, which averages leave out"),
    Column(
        "uncertain", pa.bool_(), "", "shorter than its clock was certain: what other hosts did before it is unknown"
    ),
    Column("bucket", pa.int16(), "", "number of the piece of the gradient; null: none", -1),
    Column("start_ns", pa.int64(), _SINCE, "when it began"),
    Column("end_ns", pa.int64(), _SINCE, "when it ended"),
    Column("posted_ns", pa.int64(), _SINCE, "when its task asked for it; orders the spans of one task"),
    Column("task", pa.int32(), "", "0: the thread that computes; 1: main; above 1: others; null: no task", -2),
    Column(
        "peer_task",
        pa.int32(),
        "",
        "spawn, await_task: the other task; collective: group + 1 (null: all ranks)",
        -2,
    ),
    Column("src", pa.int16(), "rank", "sender of the message, or whose update is applied; null: none", -1),
    Column("dst", pa.int16(), "rank", "receiver of the message; null: none", -1),
    Column(
        "seq",
        pa.int64(),
        "",
        "number of the message or collective; forward: samples; iteration: us without a processor; or null",
        -1,
    ),
    Column("nbytes", pa.int64(), "bytes", "size of the message, tensor or flow; null: carries nothing", 0),
    Column("staleness", pa.int16(), "updates", "updates between reading the parameters and applying to them"),
    Column("own_posted_ns", pa.int64(), _OWN, "posted_ns before alignment"),
    Column("own_start_ns", pa.int64(), _OWN, "start_ns before alignment"),
    Column("own_end_ns", pa.int64(), _OWN, "end_ns before alignment"),
)
SCHEMA = pa.schema([column.field for column in COLUMNS])
FIELD_OF: Mapping[str, str] = {
    column.name: column.name.removeprefix("own_")
    for column in COLUMNS
    if column.name.removeprefix("own_") in (SPAN.names or ()) and column.name not in TIMES
}
"""The columns that spans are made of -> the field of SPAN that each holds; all others follow from these."""
DELTAS = [*TIMES, *(f"own_{name}" for name in TIMES), "seq"]
"""Columns in which neighbours differ by little."""

SEQ_OF: Mapping[Phase, str] = {Phase.FORWARD: "samples", Phase.ITERATION: "without_processor_us"}
"""What ``seq`` is where it is no number of anything, by the names that exports give it."""

PHASES: Mapping[int, str] = {phase.value: phase.name.lower() for phase in Phase}
COLLECTIVES: Mapping[int, str] = {kind.value: kind.name.lower() for kind in Collective}


def to_table(
    spans: Spans, facts: Mapping[str, Any], *, complete: bool, clock: ClockAlignment | None, origin_ns: int | None,
    lost: Lost = NOTHING_LOST,
) -> pa.Table:  # fmt: skip
    """The table of ``spans`` (own clock). ``origin_ns`` None: when this rank began."""
    clock_used = clock or ClockAlignment()
    aligned = {name: clock_used.align(spans[name]) for name in TIMES}
    if origin_ns is None:
        origin_ns = _began(spans["phase"], aligned["start_ns"])
    own_iterations = spans["phase"] == Phase.ITERATION
    first = warm_up(int(spans["iteration"][own_iterations].max(initial=-1)) + 1)
    values: dict[str, Any] = {
        "rank": np.full(len(spans), facts["rank"], dtype=np.int32),
        "host": _constant(facts["host"], len(spans)),
        "layer": _constant(facts["layer"], len(spans)),
        "phase": _named(spans["phase"], PHASES, None),
        "kind": _named(spans["kind"], COLLECTIVES, (spans["kind"] == 0) & ~np.isin(spans["phase"], _WITH_KIND)),
        "warm_up": (spans["iteration"] >= 0) & (spans["iteration"] < first),
        "uncertain": spans["end_ns"] - spans["start_ns"]
        < clock_used.uncertainties_ns(spans["start_ns"], spans["end_ns"]),
        "nbytes": pa.array(spans["nbytes"], mask=(spans["nbytes"] == 0) & ~np.isin(spans["phase"], _WITH_BYTES)),
        **{name: aligned[name] - origin_ns for name in TIMES},
        **{f"own_{name}": np.ascontiguousarray(spans[name]) for name in TIMES},
    }
    for column in COLUMNS:
        if column.name not in values:
            raw = np.ascontiguousarray(spans[column.name])
            mask = None if column.none is None else raw == column.none
            values[column.name] = pa.array(raw + 1 if column.name in TASKS else raw, mask=mask)
    known = {
        **facts, "complete": complete, "version": VERSION, "origin_ns": origin_ns,
        "clock": asdict(clock) if clock else None, "lost": asdict(lost),
    }  # fmt: skip
    schema = SCHEMA.with_metadata({METADATA: json.dumps(known)})
    return pa.table([values[name] for name in SCHEMA.names], schema=schema)


def check_schema(schema: pa.Schema, where: str) -> None:
    """Nothing, if a table of ``schema`` is one of spans. Raises: ArchiveError."""
    if schema.names != SCHEMA.names or schema.types != SCHEMA.types:
        raise ArchiveError(f"{where}: its columns are not those of a trace; {codec.DAMAGED}")


def from_table(table: pa.Table, where: str, *, version: int = VERSION) -> Spans:
    """The spans (own clock) of a table with the columns of FIELD_OF: what :func:`to_table` was given, to the bit.

    Raises: ArchiveError.
    """
    first = 0 if version == EARLIER else 1
    spans = np.empty(table.num_rows, dtype=SPAN)
    for column in COLUMNS:
        target = FIELD_OF.get(column.name)
        if target is None:
            continue
        values = table.column(column.name)
        if column.none is None and values.null_count:
            raise ArchiveError(f"{where}: {column.name} is missing in a span; {codec.DAMAGED}")
        if column.name in ("phase", "kind"):
            spans[target] = _numbers(values, PHASES if column.name == "phase" else COLLECTIVES, where)
        else:
            shift = first if column.name in TASKS else 0
            none = None if column.none is None else column.none + shift
            spans[target] = (values if none is None else values.fill_null(none)).to_numpy() - shift
    return spans


def _began(phases: npt.NDArray[Any], start_ns: npt.NDArray[np.int64]) -> int:
    """When training began: with the first iteration; else with the first span."""
    own = start_ns[np.isin(phases, (Phase.ITERATION, Phase.TRAINING))]
    return int((own if len(own) else start_ns).min()) if len(start_ns) else 0


def _constant(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), pa.array([text], pa.string()))


def _named(
    numbers: npt.NDArray[Any], names: Mapping[int, str], mask: npt.NDArray[np.bool_] | None
) -> pa.DictionaryArray:
    """``numbers`` as names; one without a name is written in digits, null where ``mask`` holds."""
    known, places = np.unique(numbers, return_inverse=True)
    indices = pa.array(places.astype(np.int32), mask=mask)
    return pa.DictionaryArray.from_arrays(indices, pa.array([names.get(int(n), str(n)) for n in known], pa.string()))


def _numbers(values: pa.ChunkedArray, names: Mapping[int, str], where: str) -> npt.NDArray[np.uint16]:
    """What :func:`_named` was given."""
    numbered = {name: number for number, name in names.items()}
    found = [np.empty(0, dtype=np.uint16)]
    for chunk in values.chunks:
        texts = chunk.dictionary.to_pylist()
        meant = np.array([*(_number(name, numbered, where) for name in texts), 0], dtype=np.uint16)  # last: of null
        found.append(meant[chunk.indices.fill_null(len(meant) - 1).to_numpy(zero_copy_only=False)])
    return np.concatenate(found)


def _number(name: str | None, numbered: Mapping[str, int], where: str) -> int:
    if name in numbered:
        return numbered[name or ""]
    if name is not None and len(name) <= 5 and name.isascii() and name.isdigit() and int(name) < 1 << 16:
        return int(name)  # of a later version, or of nobody: who checks spans names it
    raise ArchiveError(f"{where}: {name!r:.40} is no phase or kind of a span; {codec.DAMAGED}")
