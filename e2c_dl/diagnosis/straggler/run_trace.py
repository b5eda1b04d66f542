"""Operations of a run of this project, for the metrics of Lin et al.: computing of every kind, and messages.

::

    task     |compute| SEND ... AWAIT_MESSAGE  |compute|       one after another; a wait takes no time itself, but
    link         |==== m ====|==== m + 1 ====|                 follows what it waits for
                      the same link carries one after the other

* A worker's computing is of one kind per phase, and per bucket where it has one: all workers do the same work.
* A message is of one kind with those of its size (from a power of two to the next) and lasts, as a collective of Lin
  et al. does, from when it could begin: it was posted, and the message before it had arrived. It is its sender's.
* The whole run is one step: iterations of several workers overlap, so no moment ends one for all.

Everything is kept in the order that was observed: of strategies that would have decided otherwise had a worker been
faster, figures are those of this order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.clocks import about_unaligned, arriving, mistimed_s
from e2c_dl.diagnosis.model import Limitation, some
from e2c_dl.diagnosis.prefix import about_completeness, about_losses, common_iterations, common_prefix, most_iterations
from e2c_dl.diagnosis.states import training_ns
from e2c_dl.diagnosis.straggler.metrics import Operations
from e2c_dl.diagnosis.straggler.precedence import Floats, Longs, Precedence
from e2c_dl.errors import AnalysisError
from e2c_dl.trace.collectives import of_library
from e2c_dl.trace.messages import MessageArray, join
from e2c_dl.trace.model import COMPUTE, WAIT, Phase, Spans, Trace

INSTANT = frozenset({Phase.SEND, Phase.SPAWN})
_PROGRAM = sorted(COMPUTE | WAIT | INSTANT)
MESSAGE, LEAVING = "message", "message leaving"
"""Kinds: until a message has arrived; until its sender is rid of it."""


def operations_of(trace: Trace, missing: Sequence[str] = ()) -> Operations:
    """All operations; of a run that broke off, those of the iterations that all ranks finished.

    ``missing``: hosts that trained and left no trace.

    Raises: AnalysisError, if there are none; if who waited for whom is not known, as messages are hidden in collectives
    of a library, a host left no trace, or clocks are wrong.
    """
    if of_library(trace):
        hidden = "a library's collectives hide who waited for whom, and ranks would be taken for independent"
        raise AnalysisError(f"trace: {hidden}; `e2c-dl report` names who is slow")
    if missing:
        unknown = "what the others waited for there is not known, and they would be taken for independent"
        raise AnalysisError(f"trace: {some('host', missing)} left none: {unknown}; `e2c-dl report` says what is known")
    # Where ranks end at different times, one goes on serving the others after its last iteration.
    prefix = trace if all(rank.complete for rank in trace.ranks) and trace.ranks else common_prefix(trace)
    program = _Program(prefix)
    both = join(prefix)
    if early_s := mistimed_s(prefix, both):
        unknown = "how long they took is not known"
        raise AnalysisError(f"trace: {arriving(early_s)}: {unknown}; `e2c-dl report` says whose clocks")
    messages = both.joined
    arrived, left = len(program.spans) + np.arange(2 * len(messages)).reshape(2, -1)
    edges = [*program.edges(), *_messages(program, messages, arrived, left)]
    earlier, later = np.concatenate(edges, axis=1)
    kinds, kind, alike = _kinds(program.spans, messages)
    measured_s = np.concatenate([program.length_ns(), *_lengths_ns(messages)]) / 1e9
    intervals = [training_ns(rank) for rank in prefix.ranks]
    length_ns = max(end for _, end in intervals) - min(start for start, _ in intervals)
    about = (
        *about_completeness(trace, common_iterations(trace), both, ()), *about_losses(trace), *about_unaligned(trace),
        *_about_pace(prefix),
    )  # fmt: skip
    return Operations(
        kind=kind,
        row=np.concatenate([program.row, *2 * [np.searchsorted(program.ranks, messages["src"])]]),
        stage=np.zeros(len(kind), dtype=np.int64),
        step=np.zeros(len(kind), dtype=np.int64),
        measured_s=measured_s,
        ideal_s=_ideal_s(measured_s, alike, len(program.spans)),
        precedence=Precedence.of(len(kind), earlier, later),
        kinds=kinds,
        rows=len(prefix.ranks),
        stages=0,
        workers=tuple((rank.host, row, 0) for row, rank in enumerate(prefix.ranks)),
        steps=(0,),
        steps_s=np.array([length_ns / 1e9]),
        limitations=tuple(each.sentence for each in about),
    )


def _about_pace(trace: Trace) -> Iterator[Limitation]:
    if most_iterations(trace):
        kept = "Ranks went at their own pace, and each keeps its iterations here"
        yield Limitation(sentence=f"{kept}; alike, they would have shared them otherwise: no figure tells that time.")


class _Program:
    """All ranks' events, by rank, task and time; an operation's number is its place here."""

    def __init__(self, trace: Trace) -> None:
        parts = [rank.spans[np.isin(rank.spans["phase"], _PROGRAM)] for rank in trace.ranks]
        spans = np.concatenate(parts)
        row = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        free_ns = np.where(np.isin(spans["phase"], sorted(INSTANT)), spans["posted_ns"], spans["end_ns"])
        order = np.lexsort((free_ns, spans["posted_ns"], spans["task"], row))
        self.spans: Spans = spans[order]
        self.row: Longs = row[order]
        self.ranks: Longs = np.array([rank.rank for rank in trace.ranks])
        self._task = _numbered(self.row, self.spans["task"])
        self._moments = np.unique(self.spans["posted_ns"])
        self._posted = self._key(self._task, np.searchsorted(self._moments, self.spans["posted_ns"]))  # rises

    def of(self, phase: Phase) -> Longs:
        """Numbers of the events of ``phase``."""
        return np.flatnonzero(self.spans["phase"] == phase)

    def length_ns(self) -> Longs:
        """How long each event computes; the others take no time themselves."""
        computes = np.isin(self.spans["phase"], sorted(COMPUTE))
        return np.asarray(np.maximum(0, self.spans["end_ns"] - self.spans["start_ns"]) * computes)

    def edges(self) -> list[Longs]:
        """(earlier, later) within ranks, each (2, edges): in a task, into one, from one, from a bucket."""
        along = np.flatnonzero(self._task[1:] == self._task[:-1])
        return [np.stack([along, along + 1]), self._begun(), self._awaited_tasks(), self._awaited_buckets()]

    def _begun(self) -> Longs:
        """From each SPAWN to the first event of its task that is posted after it."""
        spawns = self.of(Phase.SPAWN)
        task = _numbered(self.row[spawns], self.spans["peer_task"][spawns])
        moment = np.searchsorted(self._moments, self.spans["posted_ns"][spawns])
        first = np.searchsorted(self._posted, self._key(task, moment))
        return self._within(task, np.stack([spawns, first]), first)

    def _awaited_tasks(self) -> Longs:
        """From the last event of a task that is posted before the end of a wait for it, to that wait."""
        waits = self.of(Phase.AWAIT_TASK)
        task = _numbered(self.row[waits], self.spans["peer_task"][waits])
        moment = np.searchsorted(self._moments, self.spans["end_ns"][waits], "right") - 1
        last = np.searchsorted(self._posted, self._key(task, moment), "right") - 1
        return self._within(task, np.stack([last, waits]), last)

    def _awaited_buckets(self) -> Longs:
        backward, waits = self.of(Phase.BACKWARD), self.of(Phase.AWAIT_BUCKET)
        keys = [_numbered(self.row[rows], self.spans["iteration"][rows], self.spans["bucket"][rows])
                for rows in (backward, waits)]  # fmt: skip
        return _matched(keys[0], backward, keys[1], waits)

    def _key(self, task: Longs, moment: Longs) -> Longs:
        """One number per event that rises with its task, then with its moment (a place in ``_moments``)."""
        return np.asarray(np.searchsorted(self._tasks, task) * (len(self._moments) + 1) + moment)

    @cached_property
    def _tasks(self) -> Longs:
        return np.unique(self._task)

    def _within(self, task: Longs, edges: Longs, place: Longs) -> Longs:
        """Of ``edges`` those whose event at ``place``, where there may be none, is of ``task``."""
        inside = np.clip(place, 0, len(self._task) - 1)
        return np.asarray(edges[:, (inside == place) & (self._task[inside] == task)])


def _messages(program: _Program, messages: MessageArray, arrived: Longs, left: Longs) -> list[Longs]:
    """(earlier, later) of messages, whose operations are ``arrived`` and ``left``."""
    spans, keys = program.spans, _numbered(messages["src"], messages["dst"], messages["seq"])
    edges = []
    for number, order in ((arrived, "recv_end_ns"), (left, "send_end_ns")):
        by_link = np.lexsort((messages["seq"], messages[order], messages["dst"], messages["src"]))
        src, dst = messages["src"][by_link], messages["dst"][by_link]
        same = np.flatnonzero((src[1:] == src[:-1]) & (dst[1:] == dst[:-1]))
        edges.append(number[by_link[np.stack([same, same + 1])]])
    for phase, number in ((Phase.SEND, arrived), (Phase.SEND, left), (Phase.AWAIT_MESSAGE, arrived),
                          (Phase.AWAIT_SENT, left)):  # fmt: skip
        rows = program.of(phase)
        own = _numbered(spans["src"][rows], spans["dst"][rows], spans["seq"][rows])
        if phase is Phase.SEND:
            edges.append(_matched(own, rows, keys, number))
        else:
            edges.append(_matched(keys, number, own, rows))
    return edges


def _lengths_ns(messages: MessageArray) -> tuple[Longs, Longs]:
    """How long each message was under way, and how long it took to leave, from when it could begin."""
    found = []
    for end in ("recv_end_ns", "send_end_ns"):
        order = np.lexsort((messages["seq"], messages[end], messages["dst"], messages["src"]))
        rows = messages[order]
        begin_ns = rows["posted_ns"].copy()
        same = (rows["src"][1:] == rows["src"][:-1]) & (rows["dst"][1:] == rows["dst"][:-1])
        begin_ns[1:][same] = np.maximum(begin_ns[1:], rows[end][:-1])[same]
        length_ns = np.empty(len(rows), dtype=np.int64)
        length_ns[order] = np.maximum(0, rows[end] - begin_ns)
        found.append(length_ns)
    return found[0], found[1]


def _kinds(spans: Spans, messages: MessageArray) -> tuple[tuple[str, ...], Longs, Longs]:
    """Names of kinds; each operation's, -1 for what takes no time; and what numbers those that should be alike."""
    phases = sorted(COMPUTE & {Phase(phase) for phase in np.unique(spans["phase"]).tolist()})
    names = (*(phase.name.lower() for phase in phases), *((MESSAGE, LEAVING) if len(messages) else ()))
    place = np.searchsorted(phases, spans["phase"]) if phases else np.zeros(len(spans), dtype=np.int64)
    kind = np.where(np.isin(spans["phase"], phases), place, -1)
    under_way = np.repeat([len(phases), len(phases) + 1], len(messages))
    size = np.log2(np.maximum(1, np.tile(messages["nbytes"], 2))).astype(np.int64)
    of_computing, of_messages = _numbered(kind, spans["bucket"]), _numbered(under_way, size)
    return names, np.concatenate([kind, under_way]), np.concatenate([of_computing, of_messages])


def _ideal_s(measured_s: Floats, alike: Longs, computing: int) -> Floats:
    """Of each operation, what those like it take: the mean of the first ``computing``, the median of the others."""
    ideal_s = np.zeros(len(measured_s))
    for part, middle in ((slice(0, computing), np.mean), (slice(computing, None), np.median)):
        _, group = np.unique(alike[part], return_inverse=True)
        order = np.argsort(group, kind="stable")
        parts = np.split(measured_s[part][order], np.flatnonzero(np.diff(group[order])) + 1)
        middles = np.array([middle(each) if len(each) else 0.0 for each in parts])
        ideal_s[part] = middles[group]
    return ideal_s


def _numbered(*columns: npt.NDArray[Any]) -> Longs:
    """One number per row of ``columns``, equal where they are, that rises with the first, then with the next.

    They hold ranks, iterations, tasks ..., from -2 on: an 8-byte one less than half of what it could.
    """
    key = columns[0].astype(np.int64)
    for column in columns[1:]:
        key = (key << 8 * min(column.dtype.itemsize, 4)) + column.astype(np.int64) + 2
    return key


def _matched(keys: Longs, numbers: Longs, wanted: Longs, wanting: Longs) -> Longs:
    """(2, pairs): ``numbers`` of ``keys``, which are unique, and the ``wanting`` whose ``wanted`` key is among them."""
    if not len(keys) or not len(wanted):
        return np.empty((2, 0), dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    there = keys[order][place] == wanted
    return np.stack([numbers[order][place[there]], wanting[there]])
