"""Program order as moments of a graph: what every task of every rank did, one thing after another.

::

    task  0   |SPAWN 7|...|AWAIT_TASK 7........|STEP|        one moment per event: an instant's time, else its end;
    task  7           |REDUCE||SEND||AWAIT_MESSAGE|          a SEND or SPAWN takes no time in its task

RECEIVE, ITERATION and TRAINING are no events of a program: they accompany it. Computing spans are the services of
their rank's host. A task may be begun more than once (the compute thread, -1, is, in every iteration): each SPAWN comes
before the task's first event posted after it, at a moment of its own, as the event may follow two others already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.replay.columns import NONE, ORIGIN, Bools, Doubles, Ints, Longs, Moments
from e2c_dl.diagnosis.replay.compiled import compiled
from e2c_dl.diagnosis.states import is_one_of
from e2c_dl.trace.messages import keys
from e2c_dl.trace.model import COMPUTE, SPAN, WAIT, Phase, Spans, Trace

Column = npt.NDArray[np.integer]

SpanKey = tuple[int, int, int, int]
"""rank, phase, iteration, end (ns)."""

INSTANT = frozenset({Phase.SEND, Phase.SPAWN})
_FIELDS = ("posted_ns", "start_ns", "end_ns", "seq", "iteration", "task", "peer_task", "bucket", "src", "dst", "phase")


OWN = COMPUTE | {Phase.OTHER}
"""What a host does by itself: its services."""
IS_OWN, IS_WAIT, IS_INSTANT = is_one_of(OWN), is_one_of(WAIT), is_one_of(INSTANT)
_IN_PROGRAM = OWN | WAIT | INSTANT


@dataclass(frozen=True, kw_only=True)
class Program:
    """The events of all tasks in program order, rank after rank and task after task, and the moments they make."""

    events: Mapping[str, Column]  # by event, the fields of SPAN in _FIELDS, and "host", the place of the rank
    moment: Longs  # of each event
    starts: Longs  # of each task, its first event
    begun_by: Longs  # of each event the SPAWN that it follows, as an event; NONE
    last_of_main: Longs  # of each rank the last moment of its main task; ORIGIN if it has none

    @property
    def count(self) -> int:
        """How many moments there are: the origin, the events, beginnings of tasks, ends of ranks."""
        return 1 + len(self.moment) + int((self.begun_by >= 0).sum()) + len(self.last_of_main)

    @property
    def free_ns(self) -> Column:
        """When the task of each event was free again."""
        events = self.events
        return np.where(IS_INSTANT[events["phase"]], events["posted_ns"], events["end_ns"])


def program_of(trace: Trace) -> Program:
    """The program order of ``trace``."""
    events = _events(trace)
    task, host = events["task"], events["host"]
    starts = np.append(0, 1 + np.flatnonzero((task[1:] != task[:-1]) | (host[1:] != host[:-1])))[: len(task)]
    begun_by = _begun_by(events, starts)
    moment = np.arange(1, 1 + len(task))
    moment += np.cumsum(begun_by >= 0)
    last_of_main = np.full(len(trace.ranks), ORIGIN)
    stops = np.append(starts, len(task))[1:]
    main = task[starts] == 0
    last_of_main[host[starts[main]]] = moment[stops[main] - 1]
    return Program(events=events, moment=moment, starts=starts, begun_by=begun_by, last_of_main=last_of_main)


def _events(trace: Trace) -> dict[str, Column]:
    """The events of ``trace``, rank after rank, each rank's by task and in program order."""
    rows = [rank.rows(*_IN_PROGRAM) for rank in trace.ranks]
    counts = [len(each) for each in rows]
    stops = np.cumsum(counts).tolist()
    events = {name: np.empty(stops[-1], dtype=SPAN[name]) for name in _FIELDS}
    for rank, own, stop in zip(trace.ranks, rows, stops, strict=True):
        spans = np.take(rank.spans, own[_in_program_order(rank.spans, own)])
        for name, column in events.items():
            column[stop - len(spans) : stop] = spans[name]
    events["host"] = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    return events


def _in_program_order(spans: Spans, rows: Ints) -> Longs:
    """The order of the events ``rows`` of one rank's ``spans``; at one moment, what was over first."""
    phase, posted_ns, end_ns, task = (spans[name][rows] for name in ("phase", "posted_ns", "end_ns", "task"))
    free_ns = np.where(IS_INSTANT[phase], posted_ns, end_ns)
    return np.asarray(np.lexsort((free_ns, posted_ns, task)))


def _begun_by(events: Mapping[str, Column], starts: Longs) -> Longs:
    """Of each event the SPAWN, an event too, that it follows as the first of its task since; NONE."""
    begun_by = np.full(len(events["task"]), NONE)
    spawns = np.flatnonzero(events["phase"] == Phase.SPAWN)
    spawns = spawns[np.argsort(events["posted_ns"][spawns], kind="stable")]  # of two, the later one counts
    task, known = _tasks(events, starts, events["host"][spawns], events["peer_task"][spawns])
    spawns, stops = spawns[known], np.append(starts, len(begun_by))[1:]
    first = _until(events["posted_ns"], starts[task], stops[task], events["posted_ns"][spawns] - 1)
    begins = first < stops[task]
    begun_by[first[begins]] = spawns[begins]
    return begun_by


def _tasks(events: Mapping[str, Column], starts: Longs, host: Column, task: Column) -> tuple[Longs, Bools]:
    """Which tasks those of ``host`` called ``task`` are, shape (known,), and which of them there are."""
    own = _task_keys(events["host"][starts], events["task"][starts])
    asked = _task_keys(host, task)
    place = np.minimum(np.searchsorted(own, asked), len(own) - 1)
    known = np.asarray(own[place] == asked) if len(own) else np.zeros(len(asked), dtype=bool)
    return place[known], known


def _task_keys(host: Column, task: Column) -> Longs:
    return np.asarray((host.astype(np.int64) << 33) + task)


def posted(program: Program, message_keys: Longs) -> Longs:
    """The moment at which each message was posted."""
    sends = np.flatnonzero(program.events["phase"] == Phase.SEND)
    own = keys({name: program.events[name][sends] for name in ("src", "dst", "seq")})
    order = np.argsort(own, kind="stable")
    return program.moment[sends[order[np.searchsorted(own[order], message_keys)]]]


def causes(program: Program, message_keys: Longs, sent: Longs, arrived: Longs) -> Longs:
    """Of each event the value that it waits for, NONE if that is not in the trace or it is no wait.

    ``message_keys``, rising: of all messages, and the values at which each was ``sent`` and ``arrived``.
    """
    events, phase = program.events, program.events["phase"]
    found = np.full(len(phase), NONE)
    for kind, value in ((Phase.AWAIT_MESSAGE, arrived), (Phase.AWAIT_SENT, sent)):
        waits = np.flatnonzero(phase == kind)
        place, known = looked_up(message_keys, keys({name: events[name][waits] for name in ("src", "dst", "seq")}))
        found[waits[known]] = value[place]
    waits, ends = np.flatnonzero(phase == Phase.AWAIT_BUCKET), np.flatnonzero(phase == Phase.BACKWARD)
    backward = _bucket_keys(events, ends)
    order = np.argsort(backward, kind="stable")
    place, known = looked_up(backward[order], _bucket_keys(events, waits))
    found[waits[known]] = program.moment[ends[order[place]]]
    waits = np.flatnonzero(phase == Phase.AWAIT_TASK)
    task, known = _tasks(events, program.starts, events["host"][waits], events["peer_task"][waits])
    waits, stops = waits[known], np.append(program.starts, len(phase))[1:]
    last = _until(events["posted_ns"], program.starts[task], stops[task], events["end_ns"][waits]) - 1
    there = last >= program.starts[task]
    found[waits[there]] = program.moment[last[there]]
    return found


def _bucket_keys(events: Mapping[str, Column], rows: Longs) -> Longs:
    host, iteration, bucket = (events[name][rows].astype(np.int64) for name in ("host", "iteration", "bucket"))
    return np.asarray((host << 49) + ((iteration + 1) << 17) + bucket + 1)


def looked_up(rising: Longs, asked: Longs) -> tuple[Longs, Bools]:
    """Where in ``rising`` those of ``asked`` are (the last, of equal ones) that there are, and which of them are."""
    place = np.searchsorted(rising, asked, side="right") - 1
    known = np.asarray(rising[place] == asked) if len(rising) else np.zeros(len(asked), dtype=bool)
    known &= place >= 0
    return place[known], known


@compiled(lambda posted_ns, starts, stops, at_ns: len(starts))
def _until(posted_ns: Column, starts: Longs, stops: Longs, at_ns: Column) -> Longs:
    """Of each stretch of ``posted_ns``, in which it rises, the first event that is after ``at_ns``, or its stop."""
    found = np.empty(len(starts), dtype=np.int64)
    for row in range(len(starts)):
        low, high = starts[row], stops[row]
        while low < high:
            middle = (low + high) // 2
            if posted_ns[middle] > at_ns[row]:
                high = middle
            else:
                low = middle + 1
        found[row] = low
    return found


def moments_of(program: Program, cause: Longs, of_messages_ns: Doubles, start_ns: int, ends_ns: Longs) -> Moments:
    """The moments of ``program``, whose events wait for ``cause``; the last are the ranks' ends, at ``ends_ns``.

    ``of_messages_ns``: the values that come after the moments. ``start_ns``: the origin.
    """
    events, event = program.events, program.moment
    begun, waits = np.flatnonzero(program.begun_by >= 0), np.flatnonzero(cause != NONE)
    beginning, ends = event[begun] - 1, slice(program.count - len(ends_ns), None)
    observed_ns, service_ns, asked_ns = np.zeros((3, program.count))
    observed_ns[event] = program.free_ns - start_ns
    observed_ns[beginning] = events["posted_ns"][begun] - start_ns
    observed_ns[ends] = ends_ns - start_ns
    first, second = _befores(program), np.full(program.count, ORIGIN, dtype=np.int32)
    second[event[waits]] = cause[waits]
    second[beginning], second[ends] = event[program.begun_by[begun]], program.last_of_main
    before_ns = observed_ns[first]
    computes = np.flatnonzero(IS_OWN[events["phase"]])
    asked_ns[event] = events["posted_ns"] - start_ns
    asked_ns[event[computes]] = events["start_ns"][computes] - start_ns
    asked_ns[beginning], asked_ns[ends] = before_ns[beginning], before_ns[ends]  # at once
    service_ns[event[computes]] = np.maximum(0, events["end_ns"][computes] - events["start_ns"][computes])
    follow = np.flatnonzero(second != ORIGIN)
    latest_ns = np.maximum(asked_ns, 0.0)
    latest_ns[follow] = np.maximum(latest_ns[follow], _observed_ns(second[follow], observed_ns, of_messages_ns))
    phase = np.zeros(program.count, dtype=np.int32)
    phase[event] = events["phase"]
    rank, iteration, bucket = (_with_beginnings(program, name) for name in ("host", "iteration", "bucket"))
    return Moments(
        observed_ns=observed_ns, first=first, second=second, lag_ns=asked_ns - before_ns, service_ns=service_ns,
        residual_ns=observed_ns - service_ns - latest_ns,
        rank=rank, phase=phase, iteration=iteration, bucket=bucket,
    )  # fmt: skip


def _befores(program: Program) -> Ints:
    """Of each moment the one before it in its task, whose moments have numbers one after another; ORIGIN."""
    first = np.arange(-1, program.count - 1, dtype=np.int32)
    begun = program.begun_by[program.starts] >= 0
    first[program.moment[program.starts] - begun] = ORIGIN
    first[ORIGIN], first[program.count - len(program.last_of_main) :] = ORIGIN, ORIGIN
    return first


def _observed_ns(values: Ints, of_moments_ns: Doubles, of_messages_ns: Doubles) -> Doubles:
    """When each of ``values`` was, of which those of messages come after the moments."""
    count = len(of_moments_ns)
    found = np.empty(len(values))
    is_moment = values < count
    found[is_moment], found[~is_moment] = of_moments_ns[values[is_moment]], of_messages_ns[values[~is_moment] - count]
    return found


def _with_beginnings(program: Program, name: str) -> Ints:
    """The field ``name`` of each moment's event; of a beginning, of the event that follows it; NONE of others."""
    found = np.full(program.count, NONE, dtype=np.int32)
    times = 1 + (program.begun_by >= 0)
    found[1 : program.count - len(program.last_of_main)] = np.repeat(program.events[name], times)
    return found


def held(moments: Moments, waits: Longs) -> Moments:
    """``moments`` with one more for each of ``waits``, whose causes are not known: none of them ends earlier.

    What a rank waited for that left no trace may have been as late whatever the others did.
    """
    count, more = len(moments.first), len(waits)
    if not more:
        return moments
    blank = np.zeros(more, dtype=np.int32)
    second = np.where(moments.second >= count, moments.second + np.int32(more), moments.second)
    second[waits] = np.arange(count, count + more)
    residual_ns = moments.residual_ns.copy()
    residual_ns[waits] = np.minimum(0.0, residual_ns[waits])
    causes = Moments(
        observed_ns=moments.observed_ns[waits], first=blank + ORIGIN, second=blank + ORIGIN,
        lag_ns=moments.observed_ns[waits], service_ns=np.zeros(more), residual_ns=np.zeros(more),
        rank=moments.rank[waits], phase=blank, iteration=blank + NONE, bucket=blank + NONE,
    )  # fmt: skip
    changed = moments._replace(second=second, residual_ns=residual_ns)
    columns: Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = cast(Any, zip(changed, causes, strict=True))
    return Moments._make(np.concatenate(column) for column in columns)


def uncaused(program: Program, cause: Longs) -> Longs:
    """The moments that end waits without a cause in the trace."""
    waits: Longs = program.moment[IS_WAIT[program.events["phase"]] & (cause == NONE)]
    return waits


def unbegun(program: Program) -> int:
    """How many tasks have no beginning in the trace: what they do keeps its times."""
    spawned = program.starts[program.events["task"][program.starts] != 0]  # nobody begins the main task
    return int((program.begun_by[spawned] == NONE).sum())
