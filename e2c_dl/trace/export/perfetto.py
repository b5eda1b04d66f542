"""A Trace for Perfetto (ui.perfetto.dev, its trace processor) in the JSON trace-event format.

::

    process   edge-1 (rank 0, edge)                one per rank
    thread      iterations                           ITERATION, TRAINING
                compute                              the compute thread: DATA, FORWARD, BACKWARD of each bucket
                task                                 each task's REDUCE, STEP, AWAIT ...; tasks side by side
                collectives                          COLLECTIVE, by kind and bucket
                send to edge-2, receive from cloud-2   SEND, RECEIVE; an arrow from each SEND to its RECEIVE
                flow to edge-2                       FLOW
    counter     bytes on the way to edge-2

Times are microseconds since the first of all began, to the nanosecond. Spans of one thread must not overlap unless one
holds the other; where a group's do, it gets as many threads as it needs.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from e2c_dl.atomic_write import ELSEWHERE, written
from e2c_dl.trace.columns import COLLECTIVES, SEQ_OF, TASKS
from e2c_dl.trace.messages import Messages, join
from e2c_dl.trace.model import COMPUTE, MOST_S, Phase, RankTrace, Trace

Event = dict[str, Any]

_ARGUMENTS = ("iteration", "bucket", "nbytes", "seq", "src", "staleness", "task")
_COMPUTE_TASK = -1


def write(trace: Trace, path: Path, more: Callable[[int], Iterable[Event]] = lambda _: ()) -> None:
    """Write ``trace`` to ``path``, and ``more`` events, told at which time of the reference clock 0 is.

    Raises: ArchiveError, if it cannot be written; AnalysisError, as ``join``.
    """
    begin_ns = _begin_ns(trace, more)
    found = map(_text, itertools.chain(events(trace, begin_ns), more(begin_ns)))
    with written(path, ELSEWHERE) as place, place.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        file.write(next(found))
        file.writelines(f",\n{text}" for text in found)
        file.write("\n]}\n")


def _text(event: Event) -> str:
    """It as JSON, which has no NaN and no infinity: what is none of its numbers is null."""
    try:
        return json.dumps(event, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(event), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def events(trace: Trace, origin_ns: int | None = None) -> Iterator[Event]:
    """All trace events of ``trace``, as JSON values: spans by rank, names before them, then arrows, counters.

    ``origin_ns``: where 0 is; None: at the first span's start.
    """
    messages = join(trace)
    origin_ns = _begin_ns(trace) if origin_ns is None else origin_ns
    hosts = {rank.rank: rank.host for rank in trace.ranks}
    threads: dict[tuple[int, Phase, int, int], int] = {}  # (rank, SEND or RECEIVE, peer, seq) -> its thread
    for rank in trace.ranks:
        yield _named("process_name", rank.rank, 0, f"{rank.host} (rank {rank.rank}, {rank.layer})")
        yield {**_named("process_sort_index", rank.rank, 0, ""), "args": {"sort_index": rank.rank}}
        first_thread = 1
        for group, rows in _groups(rank, hosts):
            places = _places(group, rows)
            yield from _thread_events(rank, group, (rows, places), first_thread, origin_ns, threads)
            first_thread += max(places, default=-1) + 1
    yield from _arrows(messages, threads, origin_ns)
    yield from _counters(messages, hosts, origin_ns)


def _begin_ns(trace: Trace, more: Callable[[int], Iterable[Event]] = lambda _: ()) -> int:
    """When the first of all began: Perfetto drops what is before 0. What is far off is of no time of the run."""
    first_ns = min((int(rank.spans["start_ns"].min()) for rank in trace.ranks if len(rank.spans)), default=0)
    early_us = (each["ts"] for each in more(first_ns) if -MOST_S * 1e6 < each.get("ts", 0.0) < 0)
    return first_ns + math.floor(1000 * min(early_us, default=0.0))


def _groups(rank: RankTrace, hosts: dict[int, str]) -> Iterator[tuple[str, list[dict[str, int]]]]:
    """The spans of one rank by the threads they are shown on: (name, spans as dictionaries in order of start)."""
    groups: dict[str, list[dict[str, int]]] = {"iterations": [], "compute": []}
    names = rank.spans.dtype.names or ()
    ordered = rank.spans[np.lexsort((-rank.spans["end_ns"], rank.spans["start_ns"]))]
    for values in zip(*(ordered[name].tolist() for name in names), strict=True):
        row = dict(zip(names, values, strict=True))
        phase = row["phase"]
        if phase in (Phase.ITERATION, Phase.TRAINING):
            name = "iterations"
        elif phase == Phase.SEND:
            name = f"send to {hosts.get(row['dst'], row['dst'])}"
        elif phase == Phase.RECEIVE:
            name = f"receive from {hosts.get(row['src'], row['src'])}"
        elif phase == Phase.FLOW:
            name = f"flow to {hosts.get(row['dst'], row['dst'])}"
        elif phase == Phase.COLLECTIVE:
            name = "collectives"
        elif row["task"] == _COMPUTE_TASK:
            name = "compute"
        else:
            name = "task"
        groups.setdefault(name, []).append(row)
    yield from groups.items()


def _thread_events(
    rank: RankTrace, group: str, placed: tuple[list[dict[str, int]], list[int]], first_thread: int, origin_ns: int,
    threads: dict[tuple[int, Phase, int, int], int],
) -> Iterator[Event]:  # fmt: skip
    """The spans of one group, on the threads from ``first_thread`` on; fills ``threads`` with the messages'."""
    rows, places = placed
    for lane in range(max(places, default=-1) + 1):
        name = group if lane == 0 else f"{group} ({lane + 1})"
        yield _named("thread_name", rank.rank, first_thread + lane, name)
    for row, lane in zip(rows, places, strict=True):
        phase = Phase(row["phase"])
        peer = row["dst"] if phase is Phase.SEND else row["src"]
        if phase in (Phase.SEND, Phase.RECEIVE):
            threads[rank.rank, phase, peer, row["seq"]] = first_thread + lane
        yield {
            "ph": "X",
            "name": _label(phase, row),
            "cat": _category(phase),
            "pid": rank.rank,
            "tid": first_thread + lane,
            "ts": _us(row["start_ns"] - origin_ns),
            "dur": _us(row["end_ns"] - row["start_ns"]),
            "args": {_name_of(name, phase): row[name] + (name in TASKS) for name in _ARGUMENTS},
        }


def _places(group: str, rows: list[dict[str, int]]) -> list[int]:
    """The thread of the group that each span is on, as few as let none overlap another; iterations nest."""
    return [0] * len(rows) if group == "iterations" else lanes([(row["start_ns"], row["end_ns"]) for row in rows])


def lanes(intervals: list[tuple[int, int]]) -> list[int]:
    """For each interval (sorted by start) a lane, as few as possible, so that no two in one lane overlap."""
    busy: list[tuple[int, int]] = []  # (end, lane)
    free: list[int] = []
    found = []
    for start, end in intervals:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)  # lanes in use are the first ones
        heapq.heappush(busy, (end, lane))
        found.append(lane)
    return found


def _arrows(messages: Messages, threads: dict[tuple[int, Phase, int, int], int], origin_ns: int) -> Iterator[Event]:
    """Flow events: from inside each SEND to the end of its RECEIVE."""
    names = ("src", "dst", "seq", "send_start_ns", "recv_start_ns")
    columns = (messages.joined[name].tolist() for name in names)
    for number, (src, dst, seq, sent_ns, received_ns) in enumerate(zip(*columns, strict=True), start=1):
        flow = {"name": "message", "cat": "propagation", "id": number}
        send, receive = threads[src, Phase.SEND, dst, seq], threads[dst, Phase.RECEIVE, src, seq]
        yield {"ph": "s", **flow, "pid": src, "tid": send, "ts": _us(sent_ns - origin_ns)}
        # bp e: the arrow ends in the span around that moment, not in the next one.
        yield {"ph": "f", "bp": "e", **flow, "pid": dst, "tid": receive, "ts": _us(received_ns - origin_ns)}


def _counters(messages: Messages, hosts: dict[int, str], origin_ns: int) -> Iterator[Event]:
    """Bytes on the way, per directed link: up when a SEND starts, down when its RECEIVE ends."""
    for (src, dst), rows in messages.by_link().items():
        times = np.concatenate([rows["send_start_ns"], rows["recv_end_ns"]])
        changes = np.concatenate([rows["nbytes"], -rows["nbytes"]])
        order = np.argsort(times, kind="stable")
        on_the_way = np.cumsum(changes[order])
        for time_ns, nbytes in zip(times[order].tolist(), on_the_way.tolist(), strict=True):
            name = f"bytes on the way to {hosts[dst]}"
            yield {"ph": "C", "name": name, "pid": src, "ts": _us(time_ns - origin_ns), "args": {"bytes": nbytes}}


def _label(phase: Phase, row: dict[str, int]) -> str:
    name = phase.name.lower().replace("_", " ")
    if phase is Phase.COLLECTIVE:
        name = COLLECTIVES.get(row["kind"], name).replace("_", " ")
    if phase is Phase.ITERATION:
        return f"{name} {row['iteration']}"
    if phase is Phase.REDUCE and row["src"] >= 0:
        return f"apply update of rank {row['src']}"
    return f"{name} b{row['bucket']}" if row["bucket"] >= 0 else name


def _name_of(column: str, phase: Phase) -> str:
    return SEQ_OF.get(phase, column) if column == "seq" else column


def _category(phase: Phase) -> str:
    if phase in COMPUTE:
        return "compute"
    if phase in (Phase.SEND, Phase.RECEIVE, Phase.COLLECTIVE, Phase.FLOW):
        return "propagation"
    return "wait" if phase.name.startswith("AWAIT") else "program"


def _named(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _us(time_ns: int) -> float:
    return time_ns / 1000
