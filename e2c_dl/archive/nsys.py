"""Reports of NVIDIA's Nsight Systems, in the form that ``nsys export --type sqlite`` gives them, as trace events.

Tables and their columns are those of NVIDIA's "SQLite Export Schema Reference"; which of them are there depends on what
``nsys profile`` was asked to trace. Ranges (NVTX) and calls into libraries lie on threads, what GPUs did on streams.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

REPORT = ".nsys-rep"
EXPORT = ".sqlite"

_BEGAN = "TARGET_INFO_SESSION_START_TIME"
_PROCESS_BITS = _THREAD_BITS = 24  # of a globalTid; the thread's are the lowest
_NO_PROCESS = -1
_MARK = 34  # NVTX: a moment. Others last: pushed and popped, started and ended
_COPIED = {1: "to GPU", 2: "from GPU", 8: "within GPU", 10: "between GPUs"}

Event = dict[str, Any]


def read(content: bytes) -> tuple[int | None, list[Event]]:
    """(when the capture began, in ns of Unix time, where it is told; events), whose times count from there, in us.

    Raises: ValueError (it is no such export, or one of an unknown layout), OSError.
    """
    with TemporaryDirectory(prefix="e2c-dl-") as folder:
        path = Path(folder) / "export"
        path.write_bytes(content)
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as export:
                export.execute("PRAGMA trusted_schema = OFF")  # anybody may have written it
                return _read(export)
        except (sqlite3.Error, OverflowError) as error:
            raise ValueError(f"it cannot be read as an export of nsys: {error}") from None


def _read(export: sqlite3.Connection) -> tuple[int | None, list[Event]]:
    tables = {name for (name,) in export.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    began = export.execute(f"SELECT utcEpochNs FROM {_BEGAN}").fetchone() if _BEGAN in tables else None
    texts: dict[Any, str] = dict(export.execute("SELECT id, value FROM StringIds")) if "StringIds" in tables else {}
    events: list[Event] = []
    for table, (query, told) in _TABLES.items():
        if table in tables:
            events += told(texts, export.execute(query.format(table)))
    called = {}
    if "PROCESSES" in tables:
        called = {_process(number): name for number, name in export.execute("SELECT globalPid, name FROM PROCESSES")}
    return None if began is None else began[0], [*_names(events, called), *events]


def _ranges(texts: dict[Any, str], rows: Iterable[Any]) -> Iterator[Event]:
    for start, end, kind, text, number, thread in rows:
        name = text or texts.get(number, "range")
        if kind == _MARK:
            yield {"ph": "i", "cat": "NVTX", "name": name, "ts": start / 1000, "s": "t", **_of_thread(thread)}
        elif end is not None:  # one that was never ended has none
            yield {**_lasting("NVTX", name, start, end), **_of_thread(thread)}


def _calls(texts: dict[Any, str], rows: Iterable[Any]) -> Iterator[Event]:
    for start, end, number, thread in rows:
        yield {**_lasting("call", texts.get(number, "call"), start, end), **_of_thread(thread)}


def _kernels(texts: dict[Any, str], rows: Iterable[Any]) -> Iterator[Event]:
    for start, end, device, stream, number in rows:
        yield {**_lasting("kernel", texts.get(number, "kernel"), start, end), **_of_stream(device, stream)}


def _copies(_: dict[Any, str], rows: Iterable[Any]) -> Iterator[Event]:
    for start, end, device, stream, nbytes, kind in rows:
        name = f"copy {_COPIED[kind]}" if kind in _COPIED else "copy"
        yield {**_lasting("memory", name, start, end), **_of_stream(device, stream), "args": {"bytes": nbytes}}


def _sets(_: dict[Any, str], rows: Iterable[Any]) -> Iterator[Event]:
    for start, end, device, stream, nbytes in rows:
        yield {**_lasting("memory", "set", start, end), **_of_stream(device, stream), "args": {"bytes": nbytes}}


_TABLES: dict[str, tuple[str, Callable[[dict[Any, str], Iterable[Any]], Iterable[Event]]]] = {
    "NVTX_EVENTS": (
        "SELECT start, end, eventType, text, textId, globalTid FROM {} WHERE eventType IN (34, 59, 60)", _ranges
    ),
    "OSRT_API": ("SELECT start, end, nameId, globalTid FROM {}", _calls),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("SELECT start, end, nameId, globalTid FROM {}", _calls),
    "CUPTI_ACTIVITY_KIND_KERNEL": ("SELECT start, end, deviceId, streamId, shortName FROM {}", _kernels),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("SELECT start, end, deviceId, streamId, bytes, copyKind FROM {}", _copies),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("SELECT start, end, deviceId, streamId, bytes FROM {}", _sets),
}  # fmt: skip
"""Table -> what is read of it, and how its rows are told."""


def _lasting(category: str, name: str, start_ns: int, end_ns: int) -> Event:
    return {"ph": "X", "cat": category, "name": name, "ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000}


def _of_thread(number: int | None) -> Event:
    if number is None:
        return {"pid": _NO_PROCESS, "tid": 0}
    return {"pid": _process(number), "tid": number & (1 << _THREAD_BITS) - 1}


def _process(number: int) -> int:
    return number >> _THREAD_BITS & (1 << _PROCESS_BITS) - 1


def _of_stream(device: int, stream: int) -> Event:
    return {"pid": f"GPU {device}", "tid": stream}


def _names(events: list[Event], called: dict[int, str]) -> Iterator[Event]:
    """How the processes of ``events`` are called; a GPU is called as it stands there."""
    for process in dict.fromkeys(each["pid"] for each in events):
        name = process if isinstance(process, str) else called.get(process, f"process {process}")
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
