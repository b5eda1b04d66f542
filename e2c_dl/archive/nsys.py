"""Reports of NVIDIA's Nsight Systems, in the form that ``nsys export --type sqlite`` gives them, as trace events.

Tables and their columns are those of NVIDIA's "SQLite Export Schema Reference"; which of them are there depends on what
``nsys profile`` was asked to trace. Ranges (NVTX) and calls into libraries lie on threads, what GPUs did on streams.

A report holds the environment and the names of all processes of its machine, as far as nsys saw them: archives keep
of an export what is read here (:func:`write_read`), and events are read one by one, however large it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2c_dl.redaction import of_environment
from e2c_dl.trace.model import MOST_NS

REPORT = ".nsys-rep"
EXPORT = ".sqlite"

_BEGAN, _TEXTS, _PROCESSES = "TARGET_INFO_SESSION_START_TIME", "StringIds", "PROCESSES"
_PROCESS_BITS = _THREAD_BITS = 24  # of a globalTid; the thread's are the lowest
_PROCESS = f"(({{}} >> {_THREAD_BITS}) & {(1 << _PROCESS_BITS) - 1})"
_NO_PROCESS = -1
_MARK = 34  # NVTX: a moment. Others last: pushed and popped, started and ended
_COPIED = {1: "to GPU", 2: "from GPU", 8: "within GPU", 10: "between GPUs"}

_START, _END = f"start BETWEEN -{MOST_NS} AND {MOST_NS}", f"end BETWEEN start AND {MOST_NS}"  # of numbers only
_THREAD = "typeof(globalTid) IN ('integer', 'null')"
_STREAM = "typeof(deviceId) = 'integer' AND typeof(streamId) = 'integer'"
_NBYTES = "typeof(bytes) = 'integer'"

Event = dict[str, Any]
Texts = dict[Any, str]


@dataclass(frozen=True, kw_only=True)
class _Table:
    """One table: what is read of it, which of its rows are events, and which of these can be read."""

    columns: str
    events: str = "TRUE"
    readable: str
    named_by: str = ""  # the column that has a number of StringIds
    told: Callable[[Texts, Any], Event]


@contextmanager
def opened(path: str | Path) -> Iterator[sqlite3.Connection]:
    """The export at ``path``, read only. Raises: ValueError, here and within: it is none, or of an unknown layout."""
    try:
        with closing(sqlite3.connect(_read_only(path), uri=True)) as export:
            export.execute("PRAGMA trusted_schema = OFF")  # anybody may have written it
            export.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
            yield export
    except (sqlite3.Error, OverflowError) as error:
        raise ValueError(f"it cannot be read as an export of nsys: {error}") from None


def began_ns(export: sqlite3.Connection) -> int | None:
    """When the capture began, in Unix time, where that is told."""
    row = export.execute(f"SELECT utcEpochNs FROM {_BEGAN}").fetchone() if _BEGAN in _names(export) else None
    return row[0] if row is not None and isinstance(row[0], int) else None


def unreadable(export: sqlite3.Connection) -> int:
    """Number of events that hold no number, or no text, where one belongs. Looks at all of them."""
    count = 0
    for name, table in _tables(export):
        query = f"SELECT count(*), count(CASE WHEN {table.readable} THEN 1 END) FROM {name} WHERE {table.events}"
        of, read = export.execute(query).fetchone()
        count += of - read
    return count


def events(export: sqlite3.Connection) -> Iterator[Event]:
    """Those that can be read; times count from when the capture began, in us. A process is named before its first."""
    called: dict[Any, str] = {}
    if _PROCESSES in _names(export):
        rows = export.execute(f"SELECT {_PROCESS.format('globalPid')}, name FROM {_PROCESSES}")
        called = {process: name for process, name in rows if isinstance(name, str)}
    texts: Texts = {}
    if _TEXTS in _names(export):
        texts = dict(export.execute(f"SELECT id, value FROM {_TEXTS} WHERE typeof(value) = 'text'"))
    named = set()
    for name, table in _tables(export):
        query = f"SELECT {table.columns} FROM {name} WHERE {table.events} AND {table.readable}"
        for row in export.execute(query):
            event = table.told(texts, row)
            process = event["pid"]
            if process not in named:
                named.add(process)
                said = process if isinstance(process, str) else called.get(process, f"process {process}")
                yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": said}}
            yield event


def processes(export: sqlite3.Connection) -> frozenset[int]:
    """The ids of processes that have ranges or calls in it: its list of processes has all of the machine's."""
    found: set[int] = set()
    for name, table in _tables(export):
        if "globalTid" in table.columns:
            query = f"SELECT DISTINCT {_PROCESS.format('globalTid')} FROM {name} WHERE typeof(globalTid) = 'integer'"
            found |= {process for (process,) in export.execute(query)}
    return frozenset(found)


def secrets(export: sqlite3.Connection) -> frozenset[str]:
    """The names of variables that hold secrets in the environments that it has."""
    found: set[str] = set()
    rows = export.execute(f"SELECT value FROM {_TEXTS} WHERE value LIKE '%=%'") if _TEXTS in _names(export) else ()
    for (text,) in rows:
        variables = (each.partition("=") for each in (text.split("\0") if isinstance(text, str) else ()))
        found.update(of_environment({name: value for name, _, value in variables}))
    return frozenset(found)


def write_read(path: Path, target: Path) -> None:
    """``target`` is a new export with what is read of that at ``path``, nothing else. Raises: ValueError, OSError."""
    target.unlink(missing_ok=True)
    with opened(path) as export:
        ids = ", ".join(map(str, processes(export)))
        kept = {name: f"SELECT {table.columns} FROM source.{name}" for name, table in _tables(export)}
        named = [f"SELECT {table.named_by} FROM {name}" for name, table in _tables(export) if table.named_by]
        if _TEXTS in _names(export):
            kept[_TEXTS] = f"SELECT id, value FROM source.{_TEXTS} WHERE id IN ({' UNION '.join(named) or 'NULL'})"
        if _PROCESSES in _names(export):
            own = f"{_PROCESS.format('globalPid')} IN ({ids})"
            kept[_PROCESSES] = f"SELECT globalPid, name FROM source.{_PROCESSES} WHERE {own}"
        if _BEGAN in _names(export):
            kept[_BEGAN] = f"SELECT utcEpochNs FROM source.{_BEGAN}"
        with closing(sqlite3.connect(target.absolute().as_uri(), uri=True)) as fresh:
            fresh.execute("PRAGMA journal_mode = OFF")  # if it breaks off, it is thrown away
            fresh.execute("ATTACH DATABASE ? AS source", (_read_only(path),))
            for name, query in kept.items():
                fresh.execute(f"CREATE TABLE main.{name} AS {query}")
            fresh.commit()


def _read_only(path: str | Path) -> str:
    return f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"


def _names(export: sqlite3.Connection) -> frozenset[str]:
    return frozenset(name for (name,) in export.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))


def _tables(export: sqlite3.Connection) -> list[tuple[str, _Table]]:
    names = _names(export)
    return [(name, table) for name, table in _TABLES.items() if name in names]


def _range(texts: Texts, row: Any) -> Event:
    start, end, kind, text, number, thread = row
    name = text or texts.get(number, "range")
    if kind == _MARK:
        return {"ph": "i", "cat": "NVTX", "name": name, "ts": start / 1000, "s": "t", **_of_thread(thread)}
    return {**_lasting("NVTX", name, start, end), **_of_thread(thread)}


def _call(texts: Texts, row: Any) -> Event:
    start, end, number, thread = row
    return {**_lasting("call", texts.get(number, "call"), start, end), **_of_thread(thread)}


def _kernel(texts: Texts, row: Any) -> Event:
    start, end, device, stream, number = row
    return {**_lasting("kernel", texts.get(number, "kernel"), start, end), **_of_stream(device, stream)}


def _copy(_: Texts, row: Any) -> Event:
    start, end, device, stream, nbytes, kind = row
    name = f"copy {_COPIED[kind]}" if kind in _COPIED else "copy"
    return {**_lasting("memory", name, start, end), **_of_stream(device, stream), "args": {"bytes": nbytes}}


def _set(_: Texts, row: Any) -> Event:
    start, end, device, stream, nbytes = row
    return {**_lasting("memory", "set", start, end), **_of_stream(device, stream), "args": {"bytes": nbytes}}


_CALLS = _Table(
    columns="start, end, nameId, globalTid", readable=f"{_START} AND {_END} AND {_THREAD}", named_by="nameId",
    told=_call,
)  # fmt: skip
_TABLES = {
    "NVTX_EVENTS": _Table(
        columns="start, end, eventType, text, textId, globalTid",
        events=f"(eventType = {_MARK} OR (eventType IN (59, 60) AND end IS NOT NULL))",  # one never ended has none
        readable=f"{_START} AND (eventType = {_MARK} OR {_END}) AND typeof(text) IN ('text', 'null') AND {_THREAD}",
        named_by="textId", told=_range,
    ),
    "OSRT_API": _CALLS,
    "CUPTI_ACTIVITY_KIND_RUNTIME": _CALLS,
    "CUPTI_ACTIVITY_KIND_KERNEL": _Table(
        columns="start, end, deviceId, streamId, shortName", readable=f"{_START} AND {_END} AND {_STREAM}",
        named_by="shortName", told=_kernel,
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": _Table(
        columns="start, end, deviceId, streamId, bytes, copyKind",
        readable=f"{_START} AND {_END} AND {_STREAM} AND {_NBYTES}", told=_copy,
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": _Table(
        columns="start, end, deviceId, streamId, bytes", readable=f"{_START} AND {_END} AND {_STREAM} AND {_NBYTES}",
        told=_set,
    ),
}  # fmt: skip


def _lasting(category: str, name: str, start_ns: int, end_ns: int) -> Event:
    return {"ph": "X", "cat": category, "name": name, "ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000}


def _of_thread(number: int | None) -> Event:
    if number is None:
        return {"pid": _NO_PROCESS, "tid": 0}
    return {"pid": number >> _THREAD_BITS & (1 << _PROCESS_BITS) - 1, "tid": number & (1 << _THREAD_BITS) - 1}


def _of_stream(device: int, stream: int) -> Event:
    return {"pid": f"GPU {device}", "tid": stream}
