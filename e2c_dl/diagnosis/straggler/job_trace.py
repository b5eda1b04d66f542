"""Operations of a job trace as Lin et al. publish them: a Parquet file, one row per operation of a worker.

::

    dp_rank stage rank step optype start_ts duration seq_id mc gmc        seconds, from each step's own beginning
    mc, gmc: model chunk among its stage's, among the model's; -1: none   one rank stands for its tensor-parallel group

A step counts if it was recorded whole, by all ranks alike; those that were not are left out, and named. Operations are
then a block of three dimensions: operation of a step, data-parallel rank, step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from e2c_dl.beneath import LARGE_BYTES, placed
from e2c_dl.diagnosis.model import some
from e2c_dl.diagnosis.straggler.job_steps import COMPUTING, KINDS, TRANSFERS, Join, Op, dependencies
from e2c_dl.diagnosis.straggler.metrics import Operations
from e2c_dl.diagnosis.straggler.precedence import Floats, Longs, Precedence
from e2c_dl.errors import AnalysisError, NoArchive

CHUNKS = ("mc", "gmc")
WHOLE = ("dp_rank", "stage", "rank", "step", "seq_id", *CHUNKS)
MOST_NUMBER = 1 << 53  # whole numbers up to it are exact however they are written
TIMES = ("start_ts", "duration")
COLUMNS = (*WHOLE, *TIMES, "optype")
IMPOSSIBLE_S = 0.01
"""A transfer that ends this long before its last participant was ready took no time: one of the two clocks is wrong."""

Block = npt.NDArray[Any]
"""(operations of a step, data-parallel ranks, steps)."""


@dataclass(frozen=True, kw_only=True)
class _Job:
    """The rows of a trace as a block."""

    ops: tuple[Op, ...]
    start_s: Block
    end_s: Block
    duration_s: Block
    workers: tuple[tuple[str, int, int], ...]  # (rank, place of dp_rank, stage)
    steps: tuple[int, ...]
    limitations: tuple[str, ...]


def read_job_trace(path: Path) -> Operations:
    """The operations that the Parquet file at ``path`` holds.

    Raises: ArchiveError, if it cannot be read; NoArchive, if it is no Parquet; AnalysisError, if it is no such trace.
    """
    columns = _columns(path)
    codes, names = columns["optype"]
    unknown = sorted({names[code] for code in np.unique(codes)} - KINDS)  # a dictionary may hold more than is used
    if unknown:
        raise AnalysisError(f"{path}: optype {unknown[0]!r} is not known; known are {', '.join(sorted(KINDS))}")
    return _operations(_block(columns, str(path)))


def is_job_trace(path: Path) -> bool:
    """Whether ``path`` names a file, as job traces are, and no folder, as archives are."""
    return path.is_file()


def _columns(path: Path) -> dict[str, Any]:
    """Arrays by name; of ``optype``: (codes, names)."""
    with placed(path).opened() as content:
        try:
            file = pq.ParquetFile(content)
            missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
            if missing:
                raise AnalysisError(f"{path}: no job trace: column {missing[0]} is missing; name one that has it")
            if file.metadata.num_rows * 8 * len(COLUMNS) > LARGE_BYTES:
                raise AnalysisError(f"{path}: holds {file.metadata.num_rows} operations; take fewer steps")
            table = file.read(columns=list(COLUMNS))
        except (OSError, ValueError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise NoArchive(f"{path}: cannot be read as Parquet: {reason}; name an archive or a job trace") from error
    # Where an operation is of no chunk, some write nothing.
    for name in (each for each in CHUNKS if table.column(each).null_count):  # to fill, Arrow imports pandas: 0.3 s
        kind = table.column(name).type
        if pa.types.is_signed_integer(kind) or pa.types.is_floating(kind):
            table = table.set_column(table.column_names.index(name), name, table.column(name).fill_null(-1))
    if not table.num_rows or any(table.column(name).null_count for name in COLUMNS):
        raise AnalysisError(f"{path}: no job trace: it is empty, or a value is missing in it; record it anew")
    columns: dict[str, Any] = {name: _whole(_values(table.column(name)), name, path) for name in WHOLE}
    columns |= {name: _seconds(_values(table.column(name)), name, path) for name in TIMES}
    if not 0 <= columns["stage"].min() <= columns["stage"].max() < table.num_rows:
        raise AnalysisError(
            f"{path}: no job trace: stages are numbered from 0, and each has operations; record it anew"
        )
    if columns["duration"].min() < 0 or not columns["duration"].any():
        raise AnalysisError(f"{path}: no job trace: a duration is below 0, or all of them are 0; record it anew")
    kinds = table.column("optype").combine_chunks()
    kinds = kinds if pa.types.is_dictionary(kinds.type) else kinds.dictionary_encode()
    columns["optype"] = _values(kinds.indices).astype(np.int64), tuple(kinds.dictionary.to_pylist())
    return columns


def _values(column: Any) -> npt.NDArray[Any]:
    """``column``, which lacks none; numbers by a way on which Arrow imports no pandas, which takes as long again."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.asarray(np.from_dlpack(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column))


def _whole(values: npt.NDArray[Any], name: str, path: Path) -> Longs:
    """The numbers of column ``name``; none of its chunk, -1, is NaN where others are read through pandas."""
    if values.dtype.kind == "f" and name in CHUNKS:
        values = np.where(np.isnan(values), -1.0, values)
    whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and np.equal(np.mod(values, 1), 0).all())
    if not whole or max(-int(values.min()), int(values.max())) > MOST_NUMBER:
        raise AnalysisError(f"{path}: no job trace: {name} holds something else than whole numbers; record it anew")
    return values.astype(np.int64)


def _seconds(values: npt.NDArray[Any], name: str, path: Path) -> npt.NDArray[Any]:
    """Those of column ``name``, in their own precision."""
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise AnalysisError(f"{path}: no job trace: {name} holds something else than seconds; record it anew")
    return values


def _block(columns: dict[str, Any], where: str) -> _Job:
    """Raises: AnalysisError, if no step was recorded whole."""
    codes, names = columns["optype"]
    ranks, row = np.unique(columns["dp_rank"], return_inverse=True)
    steps, step = np.unique(columns["step"], return_inverse=True)
    sequences, sequence = np.unique(columns["seq_id"], return_inverse=True)
    shape = len(names), len(sequences), columns["stage"].max() + 1
    key = np.ravel_multi_index((codes, sequence, columns["stage"]), shape)
    kept = _recorded_whole(key * len(ranks) + row, step, len(steps))
    if not kept.any():
        raise AnalysisError(f"{where}: no step was recorded whole by all ranks; record all ranks of some steps")
    chosen = np.flatnonzero(kept[step])
    ops, op = np.unique(key[chosen], return_inverse=True)
    if len(chosen) != len(ops) * len(ranks) * kept.sum():
        raise AnalysisError(
            f"{where}: its data-parallel ranks do different operations, or several ranks stand for one tensor-parallel "
            "group; keep one rank of each"
        )
    order = chosen[np.lexsort((step[chosen], row[chosen], op))].reshape(len(ops), len(ranks), int(kept.sum()))
    start, duration = (columns[name][order] for name in TIMES)
    left_out = [str(number) for number in steps[~kept].tolist()]
    return _Job(
        ops=_ops(columns, order[:, 0, 0]),
        start_s=start,
        end_s=start + duration,
        duration_s=duration,
        workers=_workers(columns["rank"][order][:, :, 0], columns["stage"][order[:, 0, 0]]),
        steps=tuple(steps[kept].tolist()),
        limitations=(f"Left out, as not all ranks recorded all of it: {some('step', left_out)}.",) if left_out else (),
    )


def _ops(columns: dict[str, Any], rows: Longs) -> tuple[Op, ...]:
    """The operations that ``rows`` of a trace record first."""
    codes, names = columns["optype"]
    end = columns["start_ts"][rows] + columns["duration"][rows]
    facts = (columns[name][rows].tolist() for name in ("seq_id", "stage", "mc", "gmc", "start_ts"))
    made = enumerate(zip(codes[rows].tolist(), *facts, end.tolist(), strict=True))
    return tuple(
        Op(number=i, kind=names[code], seq=seq, stage=stage, part=part, chunk=chunk, start_s=begin, end_s=over)
        for i, (code, seq, stage, part, chunk, begin, over) in made
    )


def _recorded_whole(keys: Longs, step: Longs, steps: int) -> npt.NDArray[np.bool_]:
    """Whether each step holds every operation (its key) exactly once that most steps hold; (steps,)."""
    found, operation = np.unique(keys, return_inverse=True)
    times = np.bincount(operation * steps + step, minlength=len(found) * steps).reshape(-1, steps)
    usual = np.median(times, axis=1).round().astype(np.int64)
    return np.asarray((times == np.minimum(usual, 1)[:, None]).all(axis=0))


def _workers(ranks: Longs, stages: Longs) -> tuple[tuple[str, int, int], ...]:
    """(name, place of its dp_rank, stage) of every rank, in order of rank; ``ranks``: (operations, dp_ranks)."""
    found = {(rank, row, stage) for of_op, stage in zip(ranks.tolist(), stages.tolist(), strict=True)
             for row, rank in enumerate(of_op)}  # fmt: skip
    return tuple((str(rank), row, stage) for rank, row, stage in sorted(found))


def _operations(job: _Job) -> Operations:
    found = dependencies(job.ops)
    numbers = np.arange(job.start_s.size).reshape(job.start_s.shape)
    measured = job.duration_s.astype(np.float64)
    edges: list[Longs] = []
    joined = {member: join for join in found.joins for member in join.members}
    ready, count = _ready(numbers, found.joins)
    for join in found.joins:
        measured[list(join.members)] = _transfer_s(job, join)
        edges += [_edges(ready[join.members[0]], numbers[member]) for member in join.members]
    for earlier, later in found.follows:
        edges.append(_edges(numbers[earlier], ready[later] if later in joined else numbers[later]))
    families = sorted({_family(op.kind) for op in job.ops})
    rank, step = (axis.ravel() for axis in np.indices(job.start_s.shape)[1:])
    joins = count - numbers.size
    earlier_later = np.concatenate(edges, axis=1)
    return Operations(
        kind=_with_joins(np.array([families.index(_family(op.kind)) for op in job.ops]), numbers.shape, joins),
        row=np.append(rank, np.full(joins, -1)),
        stage=_with_joins(np.array([op.stage for op in job.ops]), numbers.shape, joins),
        step=np.append(step, np.arange(joins) % len(job.steps)),  # a join has a place per step
        measured_s=np.append(measured.ravel(), np.zeros(joins)),
        ideal_s=np.append(_ideal_s(job.ops, measured).ravel(), np.zeros(joins)),
        precedence=Precedence.of(count, earlier_later[0], earlier_later[1]),
        kinds=tuple(families),
        rows=int(rank.max()) + 1,
        stages=max(op.stage for op in job.ops) + 1,
        workers=job.workers,
        steps=job.steps,
        steps_s=(job.end_s.max(axis=(0, 1)) - job.start_s.min(axis=(0, 1))).astype(np.float64),
        limitations=job.limitations,
    )


def _family(kind: str) -> str:
    """What S_t is told of: both ends of a transfer are one."""
    return kind.partition("-")[0] + "-pp-comm" if kind in TRANSFERS else kind


def _ready(numbers: Longs, joins: Sequence[Join]) -> tuple[dict[int, Longs], int]:
    """Number of an operation of a step -> the joins that it waits for, (dp_ranks, steps); and how many numbers then."""
    ready: dict[int, Longs] = {}
    count = numbers.size
    _, ranks, steps = numbers.shape
    for join in joins:
        size = steps if join.ranks else ranks * steps
        block = np.broadcast_to(np.arange(count, count + size).reshape(-1, steps), (ranks, steps))
        ready |= dict.fromkeys(join.members, block)
        count += size
    return ready, count


def _edges(earlier: Longs, later: Longs) -> Longs:
    return np.stack([earlier.ravel(), later.ravel()])


def _transfer_s(job: _Job, join: Join) -> Floats:
    """How long each member of ``join`` took once the last was ready; (members, dp_ranks, steps)."""
    members = list(join.members)
    ready = job.start_s[members].max(axis=(0, 1) if join.ranks else 0)
    took = job.end_s[members] - ready
    return np.where(took <= -IMPOSSIBLE_S, 0, took).astype(np.float64)


def _ideal_s(ops: Sequence[Op], measured: Floats) -> Floats:
    """Of each operation, what its kind takes: the mean if it computes, else the median."""
    ideal = np.empty(measured.shape)
    for kind in {op.kind for op in ops}:
        members = [op.number for op in ops if op.kind == kind]
        ideal[members] = (np.mean if kind in COMPUTING else np.median)(measured[members])
    return ideal


def _with_joins(of_ops: Longs, shape: tuple[int, ...], joins: int) -> Longs:
    return np.append(np.broadcast_to(of_ops[:, None, None], shape).ravel(), np.full(joins, -1))
