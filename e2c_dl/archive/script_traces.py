"""Traces that a traced script itself has made, as trace events on the archive's clock: Horovod's, Kineto's, nsys's.

::

    time of day         Horovod: start_time_since_epoch_in_micros; nsys: utcEpochNs; Kineto: baseTimeNanoseconds + ts
      - wall_clock      of the rank's facts: its own clock beside the time of day, while it trained
    own clock           Horovod, nsys: + ts, which no time of day moves
      -> the rank's alignment -> the clock of the archive

Of former archives, and of ranks that were killed early, one pair is known, ``clocks`` of tracing.json: if somebody set
the time of day meanwhile, what was before lies as far off. Of an nsys report is read what ``nsys export`` made of it:
only NVIDIA's own program knows the report's format.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import msgspec
import numpy as np

from e2c_dl import codec
from e2c_dl.archive import layout, nsys
from e2c_dl.archive.records import FACTS_FORMAT, HostFacts
from e2c_dl.beneath import LARGE_BYTES, Place
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.clocks.time_of_day import Pair, TimesOfDay
from e2c_dl.trace.model import MOST_NS, RankTrace, Trace

_GZIP = b"\x1f\x8b"
_FIRST_PROCESS = 1_000_000  # ranks have the numbers below
_PROCESSES_PER_FILE = 100_000
_ARROWS_PER_FILE = 1 << 32  # beyond those of messages
_READ = (".json", ".json.gz", nsys.EXPORT)
_BETWEEN = re.compile(r"[\s,]*")
_AT_ONCE = 10_000  # events that are placed together
_SHOWN = frozenset("XBEbneiICstf")  # events that have a time
_ARROWS, _ASIDE = frozenset("stf"), frozenset("bne")  # ... and an id, which is their file's own

Event = dict[str, Any]


class _Clocks(msgspec.Struct, frozen=True):
    own_ns: int
    unix_ns: int


class _Tracing(msgspec.Struct, frozen=True):
    clocks: _Clocks
    wrote: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScriptTrace:
    """One file: its events, whose times count from ``base_ns`` of the day."""

    rank: RankTrace
    name: str
    base_ns: int
    times: TimesOfDay
    content: Callable[[], Iterable[Event]]
    steady: bool  # they count from the base by a clock that nobody sets
    by_tensor: bool = False  # Horovod's processes are tensors: they are shown as threads

    def events(self, origin_ns: int, number: int) -> Iterator[Event]:
        """Its events on the archive's clock, from ``origin_ns`` on; the ``number``th file has processes of its own."""
        first = _FIRST_PROCESS + number * _PROCESSES_PER_FILE
        processes: dict[Any, int] = defaultdict(itertools.count(first).__next__)
        threads: dict[Any, int] = defaultdict(itertools.count(1).__next__)
        arrows: dict[Any, int] = defaultdict(itertools.count((number + 1) * _ARROWS_PER_FILE).__next__)
        whose = f"{self.rank.host}: {self.name}"
        if self.by_tensor:
            yield {"ph": "M", "name": "process_name", "pid": first, "tid": 0, "args": {"name": whose}}
        content = iter(self.content())
        while some := list(itertools.islice(content, _AT_ONCE)):
            timed = [each for each in some if _is_timed(each)]
            placed_us = self._placed_us([each["ts"] for each in timed], origin_ns)
            for each in some:
                if each.get("ph") == "M":
                    yield from self._named(each, processes, threads, whose, first)
            for each, ts in zip(timed, placed_us, strict=True):
                process = first if self.by_tensor else processes[each.get("pid")]
                thread = threads[each.get("pid") if self.by_tensor else (each.get("pid"), each.get("tid"))]
                moved = {**each, "pid": process, "tid": thread, "ts": ts}
                if each["ph"] in _ARROWS:  # Perfetto reads a text as a number in hexadecimal, or drops the arrow
                    moved["id"] = arrows[str(each.get("id"))]
                elif each["ph"] in _ASIDE:
                    moved["id"] = f"{whose} {each.get('id')}"
                yield moved

    def _placed_us(self, times_us: list[float], origin_ns: int) -> list[float]:
        at_ns, base_ns = np.rint(np.array(times_us, dtype=np.float64) * 1000).astype(np.int64), np.array([self.base_ns])
        own_ns = self.times.own_ns(base_ns) + at_ns if self.steady else self.times.own_ns(base_ns + at_ns)
        placed: list[float] = ((self.rank.clock.align(own_ns) - origin_ns) / 1000).tolist()
        return placed

    def _named(
        self, each: Event, processes: dict[Any, int], threads: dict[Any, int], whose: str, first: int
    ) -> Iterator[Event]:
        """What says how a process or a thread is called, of those numbers that it has here."""
        name, args = each.get("name"), each.get("args")
        said = args.get("name") if isinstance(args, dict) else None
        if name not in ("process_name", "thread_name") or not isinstance(said, str):
            return
        if self.by_tensor:
            thread = threads[each.get("pid")]
            yield {"ph": "M", "name": "thread_name", "pid": first, "tid": thread, "args": {"name": said}}
            return
        process, thread = processes[each.get("pid")], threads[each.get("pid"), each.get("tid")]
        named = f"{whose}: {said}" if name == "process_name" else said
        yield {"ph": "M", "name": name, "pid": process, "tid": thread, "args": {"name": named}}


def found(archive: Place, trace: Trace) -> tuple[tuple[ScriptTrace, ...], tuple[str, ...]]:
    """(what the ranks' folders hold of them, a sentence for each that cannot be merged)."""
    traces, problems = [], []
    for rank in trace.ranks:
        folder = archive / layout.HOSTS / rank.host
        if not (folder / layout.TRACING).exists():  # no script was traced
            continue
        try:
            told = codec.read(folder / layout.TRACING, _Tracing)
            times = TimesOfDay(_pairs(folder, told.clocks))
        except ArchiveError as error:
            problems.append(f"what the script of {rank.host} wrote is not merged: {error}")
            continue
        named = kept_as(told.wrote)
        names = sorted(folder.names())
        for name in names:
            if name.endswith(nsys.REPORT):
                export = name.removesuffix(nsys.REPORT) + nsys.EXPORT
                if export not in names:
                    problems.append(f"{folder / name}: is not merged: `nsys export --type sqlite` makes {export} of it")
                continue
            if name in layout.HOST_RECORDS or not (name in named or name.endswith(_READ)):
                continue
            try:
                read, lost = (_exported if name.endswith(nsys.EXPORT) else _read)(folder / name, name, rank, times)
                traces.append(read)
                problems += [f"{folder / name}: {lost}"] if lost else []
            except (ArchiveError, OSError, ValueError, EOFError, zlib.error, RecursionError) as error:
                problems.append(f"{folder / name}: is not merged: {error}")
    return tuple(traces), tuple(problems)


def kept_as(paths: Iterable[str]) -> list[str]:
    """Under which names a rank's folder has the files ``paths``, in their order: those of one name are numbered.

    >>> kept_as(["/a/trace.json", "/b/trace.json", "/a/spans.bin", "/a/.hidden"])
    ['trace.json', 'trace-2.json', 'spans-2.bin', 'trace.hidden']
    """
    taken, names = set(layout.HOST_RECORDS), []
    for path in paths:
        name = PurePosixPath(path).name
        name = name if name[:1].isalnum() and name[:1].isascii() else f"trace{name}"  # other names are not fetched
        stem, dot, rest = name.partition(".")
        numbered = (f"{stem}-{number}{dot}{rest}" for number in itertools.count(2))
        name = next(each for each in itertools.chain([name], numbered) if each not in taken)
        taken.add(name)
        names.append(name)
    return names


def merged(traces: tuple[ScriptTrace, ...]) -> Callable[[int], Iterator[Event]]:
    """Their events, for an export that counts from the time it is told."""

    def events(origin_ns: int) -> Iterator[Event]:
        return itertools.chain.from_iterable(each.events(origin_ns, number) for number, each in enumerate(traces))

    return events


def _pairs(folder: Place, clocks: _Clocks) -> Sequence[Pair]:
    """Those of its facts, else the one of its tracing.json, ``clocks``. Raises: ArchiveError."""
    facts = folder / layout.FACTS
    kept = codec.read(facts, HostFacts, FACTS_FORMAT).wall_clock if facts.exists() else ()
    pairs = sorted(pair for pair in kept if max(map(abs, pair)) <= MOST_NS)
    return pairs or [(clocks.own_ns, clocks.unix_ns)]


def _read(place: Place, name: str, rank: RankTrace, times: TimesOfDay) -> tuple[ScriptTrace, str]:
    """(the trace, what of it cannot be read). Raises: ArchiveError, OSError, ValueError, EOFError, zlib.error."""
    base_ns, events, by_tensor, broken = _trace_events(_content(place))
    readable = [each for each in events if _is_readable(each)]
    return ScriptTrace(
        rank=rank, name=name, base_ns=_base(base_ns), times=times, content=lambda: readable, steady=by_tensor,
        by_tensor=by_tensor,
    ), "; ".join(filter(None, (broken, _left_out(len(events) - len(readable)))))  # fmt: skip


def _exported(place: Place, name: str, rank: RankTrace, times: TimesOfDay) -> tuple[ScriptTrace, str]:
    """The same of an export of nsys, whose events are read when they are asked for."""

    def events() -> Iterator[Event]:
        with place.opened() as file:
            try:
                with nsys.opened(_path_of(file)) as export:
                    yield from nsys.events(export)
            except ValueError as error:
                raise ArchiveError(f"{place}: {error}") from error

    with place.opened() as file, nsys.opened(_path_of(file)) as export:
        base_ns, lost = _base(nsys.began_ns(export)), _left_out(nsys.unreadable(export))
    return ScriptTrace(rank=rank, name=name, base_ns=base_ns, times=times, content=events, steady=True), lost


def _left_out(count: int) -> str:
    return f"{count} of its events cannot be read, and are left out" if count else ""


def _path_of(file: BinaryIO) -> str:
    return f"/proc/self/fd/{file.fileno()}"  # what was opened, whatever stands at its name by now


def _base(base_ns: object) -> int:
    """``base_ns``, which it says. Raises: ValueError if that is no time."""
    if not isinstance(base_ns, int) or abs(base_ns) > MOST_NS:
        raise ValueError("it does not say when it began: its times cannot be placed")
    return base_ns


def _content(place: Place) -> bytes:
    """What stands there, unpacked. Raises: as ``_read``, ValueError if it is too large."""
    with place.opened() as file:
        content = file.read(LARGE_BYTES + 1)
    if content.startswith(_GZIP):
        content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(LARGE_BYTES + 1)
    if len(content) > LARGE_BYTES:
        raise ValueError(f"it is larger than {LARGE_BYTES >> 30} GiB, which is read as a whole; open it by itself")
    return content


def _trace_events(content: bytes) -> tuple[Any, list[Any], bool, str]:
    """(when its times begin, in ns of Unix time, its events, whether its processes are tensors, what of it is lost).

    Raises: ValueError.
    """
    text, lost = content.decode("utf-8", errors="replace"), ""
    try:
        read = json.loads(text)
    except ValueError:
        if not text.lstrip().startswith("["):
            raise
        read, lost = _whole_events(text)
    if isinstance(read, Mapping) and isinstance(read.get("traceEvents"), list):
        return read.get("baseTimeNanoseconds"), read["traceEvents"], False, lost
    if isinstance(read, list):
        starts = [_start_us(each) for each in read[:100]]
        return next((1000 * start for start in starts if start is not None), None), read, True, lost
    raise ValueError("it holds no trace events")


def _whole_events(text: str) -> tuple[list[Any], str]:
    """(those of a list that was never closed, as a timeline is when Horovod is shut down; what follows them, in words).

    >>> _whole_events('[{"ts": 1},\\n{"ts": 2},\\n{"t')
    ([{'ts': 1}, {'ts': 2}], 'it breaks off within an event: what follows the first 2 is left out')
    """
    events: list[Any] = []
    decoder, at = json.JSONDecoder(), text.index("[") + 1
    while (begin := _BETWEEN.match(text, at)) is not None and (at := begin.end()) < len(text):
        try:
            event, at = decoder.raw_decode(text, at)
        except ValueError:
            return events, f"it breaks off within an event: what follows the first {len(events)} is left out"
        events.append(event)
    return events, ""


def _start_us(each: Any) -> int | None:
    args = each.get("args") if isinstance(each, dict) else None
    start = args.get("start_time_since_epoch_in_micros") if isinstance(args, dict) else None
    return start if isinstance(start, int) else None


def _is_readable(each: Any) -> bool:
    """Whether it is an event: its kind, process and thread can be told from others, and its times are numbers."""
    named = isinstance(each, dict) and all(
        isinstance(each.get(key), str | int | float | None) for key in ("ph", "pid", "tid")
    )
    return named and (each.get("ph") not in _SHOWN or _is_timed(each))


def _is_timed(each: Event) -> bool:
    """Whether it is shown, and its times are numbers."""
    return each.get("ph") in _SHOWN and _is_time(each.get("ts")) and _is_time(each.get("dur", 0))


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < MOST_NS / 1000
