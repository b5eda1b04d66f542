"""A Trace as Chakra execution traces (MLCommons): one file per rank, each a graph of what waits for what.

::

    span                           node                        depends on
    DATA, FORWARD, ... COPY        COMP_NODE                   the one before it in its task          (control)
    SEND                           COMM_SEND_NODE              the one before it in its task          (control)
    RECEIVE                        COMM_RECV_NODE              nothing on this rank
    COLLECTIVE                     COMM_COLL_NODE              the one before it in its task          (control)
    FLOW, COLLECTIVE of kind OTHER METADATA_NODE               nothing: Chakra has no node for them
    AWAIT_MESSAGE, AWAIT_SENT, AWAIT_COLLECTIVE, AWAIT_BUCKET, AWAIT_TASK
                                   none: what follows in the task depends on the awaited node         (data)
    SPAWN                          none: the task's first node depends on what the spawner did before (data)
    ITERATION, TRAINING            METADATA_NODE

Nobody waits for a SEND or a COLLECTIVE that is not awaited: it goes on beside its task. Node ids rise with time, and a
node depends only on lower ones that were over when it began: no graph has a cycle, whatever a damaged trace claims.
A file is a GlobalMetadata, then Nodes, each behind its length (varint). Times are whole microseconds since the first
span of any rank began, as none is below 0; attribute ``duration_ns`` is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from e2c_dl.atomic_write import ELSEWHERE, written
from e2c_dl.errors import ArchiveError, ArchiveTaken
from e2c_dl.trace.columns import COLLECTIVES, PHASES
from e2c_dl.trace.export.chakra_schema import COMM_TYPES, Attribute, Metadata, Node, NodeType
from e2c_dl.trace.model import COMPUTE, Collective, Phase, RankTrace, Trace

VERSION = "1.0.0"
_ASIDE = (Phase.RECEIVE, Phase.FLOW, Phase.ITERATION, Phase.TRAINING)  # in no task's order
_WAITS = {
    Phase.AWAIT_MESSAGE: (Phase.RECEIVE, ("src", "seq")),
    Phase.AWAIT_SENT: (Phase.SEND, ("dst", "seq")),
    Phase.AWAIT_COLLECTIVE: (Phase.COLLECTIVE, ("peer_task", "seq")),
    Phase.AWAIT_BUCKET: (Phase.BACKWARD, ("iteration", "bucket")),
}
_COMPUTE_TASK = -1

Row = dict[str, int]


def write(trace: Trace, folder: Path) -> None:
    """Write ``folder``/trace.RANK.et, one per rank.

    Raises: ArchiveError, if it cannot be written; ArchiveTaken, if a rank is there that ``trace`` has not.
    """
    try:
        folder.mkdir(exist_ok=True)
        there = {path.name for path in folder.glob("trace.*.et")}
    except OSError as error:
        raise ArchiveError(f"{folder}: cannot be made: {error.strerror}; {ELSEWHERE}") from error
    others = sorted(there - {f"trace.{rank.rank}.et" for rank in trace.ranks})
    if others:  # whoever reads the folder takes it for a rank of this run
        raise ArchiveTaken(f"{folder}: holds {others[0]}, a rank of another run; {ELSEWHERE}")
    began_ns = min((int(rank.spans["start_ns"].min()) for rank in trace.ranks if len(rank.spans)), default=0)
    for rank in trace.ranks:
        with written(folder / f"trace.{rank.rank}.et", ELSEWHERE) as place, place.open("wb") as file:
            for message in _messages(rank, began_ns):
                content = message.SerializeToString()
                file.write(_varint(len(content)) + content)


def _messages(rank: RankTrace, began_ns: int) -> Iterator[Any]:
    about: dict[str, str | int] = {"host": rank.host, "layer": rank.layer, "rank": rank.rank, "producer": "e2c_dl"}
    yield Metadata(version=VERSION, attr=[_attribute(name, value) for name, value in about.items()])
    rows = _rows(rank)
    control, data = _dependencies(rows)
    for number, row in enumerate(rows):
        if _is_node(row):
            yield Node(
                id=number, name=_name(row), type=_type(row),
                ctrl_deps=_over(control[number], number, rows), data_deps=_over(data[number], number, rows),
                start_time_micros=(row["start_ns"] - began_ns) // 1000,
                duration_micros=max(0, row["end_ns"] - row["start_ns"]) // 1000,
                attr=list(_attributes(row)),
            )  # fmt: skip


def _rows(rank: RankTrace) -> list[Row]:
    """Spans in order of their beginning; their places are the nodes' ids."""
    ordered = rank.spans[np.lexsort((rank.spans["end_ns"], rank.spans["start_ns"]))]
    names = ordered.dtype.names or ()
    columns = (ordered[name].tolist() for name in names)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _dependencies(rows: list[Row]) -> tuple[defaultdict[int, set[int]], defaultdict[int, set[int]]]:
    """(control, data): number of a row -> numbers of rows that end before it may begin."""
    control: defaultdict[int, set[int]] = defaultdict(set)
    data: defaultdict[int, set[int]] = defaultdict(set)
    awaited = _awaited(rows)
    last: dict[int, int] = {}  # task -> what it did last, of what it waits for
    pending: defaultdict[int, set[int]] = defaultdict(set)  # task -> what its next node waits for
    for number in sorted(range(len(rows)), key=lambda each: (rows[each]["posted_ns"], each)):
        row, phase, task = rows[number], rows[number]["phase"], rows[number]["task"]
        if phase == Phase.SPAWN:
            pending[row["peer_task"]] |= pending[task] | ({last[task]} if task in last else set())
        elif phase == Phase.AWAIT_TASK:
            pending[task] |= pending.pop(row["peer_task"], set())
            if row["peer_task"] in last:
                pending[task].add(last[row["peer_task"]])
        elif phase in _WAITS:
            kind, names = _WAITS[Phase(phase)]
            pending[task] |= awaited.get((kind, *(row[name] for name in names)), set())
        elif phase not in _ASIDE:
            control[number] |= {last[task]} if task in last else set()
            data[number] |= pending[task]
            if phase in COMPUTE:
                last[task], pending[task] = number, set()
    return control, data


def _over(numbers: set[int], number: int, rows: list[Row]) -> list[int]:
    """Those that were over when ``number`` began."""
    return sorted(each for each in numbers if each < number and rows[each]["end_ns"] <= rows[number]["start_ns"])


def _awaited(rows: list[Row]) -> dict[tuple[int, ...], set[int]]:
    """What can be waited for, by the fields that name it."""
    found: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
    names = dict(_WAITS.values())
    for number, row in enumerate(rows):
        if row["phase"] in names:
            key = (row["phase"], *(row[name] for name in names[Phase(row["phase"])]))
            found[key].add(number)
    return found


def _is_node(row: Row) -> bool:
    return row["phase"] not in (*_WAITS, Phase.AWAIT_TASK, Phase.SPAWN)


def _type(row: Row) -> NodeType:
    phase = row["phase"]
    if phase == Phase.COLLECTIVE and row["kind"] in COMM_TYPES:
        return NodeType.COLLECTIVE
    if phase in COMPUTE:
        return NodeType.COMPUTE
    return {Phase.SEND: NodeType.SEND, Phase.RECEIVE: NodeType.RECEIVE}.get(Phase(phase), NodeType.METADATA)


def _name(row: Row) -> str:
    name = COLLECTIVES.get(row["kind"], "other") if row["phase"] == Phase.COLLECTIVE else PHASES[row["phase"]]
    if row["phase"] == Phase.ITERATION:
        return f"{name} {row['iteration']}"
    where = f" of iteration {row['iteration']}" if row["iteration"] >= 0 else ""
    return f"{name} b{row['bucket']}{where}" if row["bucket"] >= 0 else f"{name}{where}"


def _attributes(row: Row) -> Iterator[Any]:
    yield _attribute("is_cpu_op", row["phase"] != Phase.COPY)
    yield _attribute("duration_ns", row["end_ns"] - row["start_ns"])
    for name in ("iteration", "bucket"):
        if row[name] >= 0:
            yield _attribute(name, row[name])
    if row["phase"] in (Phase.SEND, Phase.RECEIVE, Phase.FLOW):
        yield _attribute("comm_src", row["src"], "int32_val")
        yield _attribute("comm_dst", row["dst"], "int32_val")
        yield _attribute("comm_tag", row["seq"] & 0x7FFFFFFF, "int32_val")
    if row["phase"] == Phase.COLLECTIVE and row["kind"] in COMM_TYPES:
        yield _attribute("comm_type", COMM_TYPES[Collective(row["kind"])])
        yield _attribute("pg_name", str(row["peer_task"] + 1) if row["peer_task"] >= 0 else "")
    if row["nbytes"]:
        yield _attribute("comm_size", row["nbytes"])


def _attribute(name: str, value: bool | int | str, field: str | None = None) -> Any:
    kinds = {bool: "bool_val", int: "int64_val", str: "string_val"}
    return Attribute(name=name, **{field or kinds[type(value)]: value})


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(0x80 | (number & 0x7F))
        number >>= 7
    return bytes([*found, number])
