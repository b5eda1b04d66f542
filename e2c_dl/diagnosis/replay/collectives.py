"""Program order of ranks whose library hides its messages, as moments of a graph: computing, joining, being ready.

::

    rank 0   |DATA|FORWARD|BACKWARD b0|BACKWARD b1|..AWAIT c1..|STEP|      one sequence: main and autograd threads take
                                  join c0     join c1    ^ ready            turns; other threads have their own
    rank 1       ...         join c0   join c1           |
                                \\___ begin c0 --> link, link --> done c0 --> ready c0, of every rank
                                                  \\__ begin c1 --> ... done c1

A collective *begins* when its last rank has joined and its group's earlier one is done. It is *done* when every link
has carried its bytes and data has crossed all of them in turn (:mod:`.transfers`); where no link is known, after a time
that is nobody's. A rank that joins in the midst of a span follows what was over before it, but
for its own bucket's BACKWARD: that is over as it joins, whichever was written down first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.flows import ObservedFlow
from e2c_dl.diagnosis.replay.columns import NONE, ORIGIN, Doubles, Longs, Moments
from e2c_dl.diagnosis.replay.program import IS_OWN, IS_WAIT, looked_up
from e2c_dl.diagnosis.replay.transfers import Loads, loads, transfers
from e2c_dl.trace.collectives import Collectives, Parts, keys
from e2c_dl.trace.model import Phase, RankTrace, Spans, Trace

AT_ONCE_NS = 1_000_000  # between the end of a bucket's BACKWARD and joining its collective

OF_LINK = 4  # moments of a link in a transfer

JOIN, READY = Phase.SPAWN, Phase.COLLECTIVE
"""How those moments are told apart from others of their rank and bucket."""


@dataclass(kw_only=True)
class _Columns:
    """Moments as they are made; times are nanoseconds since the origin. Mutated by :meth:`add`."""

    count: int = 1
    parts: list[dict[str, npt.NDArray[Any]]] = field(default_factory=list)

    def add(self, observed_ns: Doubles, first: Longs, **others: Any) -> Longs:
        """One more moment for each of ``observed_ns``: their numbers. What is not given is none."""
        number = self.count + np.arange(len(observed_ns))
        blank = np.zeros(len(observed_ns))
        none = {"rank": NONE, "iteration": NONE, "bucket": NONE, "second": ORIGIN, "phase": 0}
        columns = {"observed_ns": observed_ns, "first": first, "lag_ns": 0.0, "service_ns": 0.0, **none, **others}
        self.parts.append({name: blank + column for name, column in columns.items()})
        self.count += len(number)
        return number

    def moments(self) -> Moments:
        """All of them, their residuals not known yet."""
        origin = {name: np.zeros(1) for name in self.parts[0]} | {
            name: np.full(1, float(NONE)) for name in ("rank", "iteration", "bucket")
        }
        joined = {name: np.concatenate([part[name] for part in (origin, *self.parts)]) for name in origin}
        columns: dict[str, npt.NDArray[Any]] = {
            name: each if name.endswith("_ns") else each.astype(np.int32) for name, each in joined.items()
        }
        return Moments(**columns, residual_ns=np.zeros(self.count))


@dataclass(frozen=True, kw_only=True)
class LibraryProgram:
    """The moments of a run; the last are its ranks' ends."""

    moments: Moments
    uncaused: Longs  # those that end waits whose cause is not in the trace
    unbegun: int  # threads of which nobody knows who began them


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sequence:
    """What one thread of a rank did, one thing after another, as moments."""

    spans: Spans
    numbers: Longs
    over_ns: Doubles  # rising


def collective_program(
    trace: Trace, of: Collectives, flows: Sequence[ObservedFlow], start_ns: int, ends_ns: Longs
) -> LibraryProgram:
    """The moments of ``trace`` since ``start_ns``; ``ends_ns``: of each rank. Links are numbered after the ranks."""
    made = _Columns()
    threads = [(place, each) for place, rank in enumerate(trace.ranks) for each in _threads(rank)]
    known = [(place, _sequence(made, place, spans, start_ns)) for place, (_, spans) in threads]
    main = {place: one for (place, one), (_, (key, _)) in zip(known, threads, strict=True) if key == 0}
    ready = _collectives(made, trace, of, flows, main, start_ns)
    lasts = np.array([main[place].numbers[-1] if place in main else ORIGIN for place in range(len(trace.ranks))])
    made.add((ends_ns - start_ns).astype(np.float64), np.zeros(len(lasts), dtype=np.int64), second=lasts)
    moments = made.moments()
    uncaused = []
    for place, sequence in known:
        waits = IS_WAIT[sequence.spans["phase"]]
        cause = _causes(sequence.spans, trace.ranks[place].rank, of, ready)
        moments.second[sequence.numbers[waits]] = np.where(cause == NONE, ORIGIN, cause)[waits]
        uncaused.append(sequence.numbers[waits & (cause == NONE)])
    return LibraryProgram(
        moments=_with_residuals(moments), uncaused=np.concatenate(uncaused or [np.empty(0, dtype=np.int64)]),
        unbegun=sum(key != 0 for _, (key, _) in threads),
    )  # fmt: skip


def _with_residuals(moments: Moments) -> Moments:
    latest_ns = np.maximum(moments.observed_ns[moments.first] + moments.lag_ns, moments.observed_ns[moments.second])
    residual_ns = moments.observed_ns - moments.service_ns - latest_ns
    residual_ns[ORIGIN] = 0.0
    return moments._replace(residual_ns=residual_ns)


def _threads(rank: RankTrace) -> list[tuple[int, Spans]]:
    """(0 main and autograd, else its task; its computing and waiting spans) of each thread of ``rank``."""
    spans = rank.spans[IS_OWN[rank.spans["phase"]] | IS_WAIT[rank.spans["phase"]]]
    task = np.maximum(spans["task"], 0)
    return [(key, spans[task == key]) for key in np.unique(task).tolist()]


def _sequence(made: _Columns, place: int, spans: Spans, start_ns: int) -> _Sequence:
    """Spans that overlap take turns: what lies within another takes no time of its own."""
    spans = spans[np.lexsort((-spans["end_ns"], spans["start_ns"]))]  # of two that begin together, the outer one first
    over_ns = np.maximum.accumulate(spans["end_ns"]) - start_ns
    free_ns = np.append(0, over_ns[:-1])
    begin_ns = np.maximum(spans["start_ns"] - start_ns, free_ns)
    lasted_ns = np.where(IS_OWN[spans["phase"]], over_ns - begin_ns, 0)
    first = np.append(ORIGIN, made.count + np.arange(len(spans) - 1))
    numbers = made.add(
        over_ns.astype(np.float64), first, lag_ns=begin_ns - free_ns, service_ns=lasted_ns, rank=place,
        phase=spans["phase"], iteration=spans["iteration"], bucket=spans["bucket"],
    )  # fmt: skip
    return _Sequence(spans=spans, numbers=numbers, over_ns=over_ns.astype(np.float64))


def _collectives(
    made: _Columns, trace: Trace, of: Collectives, flows: Sequence[ObservedFlow], main: Mapping[int, _Sequence],
    start_ns: int,
) -> Longs:  # fmt: skip
    """The moments of collectives; returned: of each part, the one at which its rank is ready."""
    parts = of.parts
    place_of = {rank.rank: place for place, rank in enumerate(trace.ranks)}
    places = np.array([place_of[rank] for rank in parts["rank"].tolist()], dtype=np.int64)
    own = {"rank": places, "iteration": parts["iteration"], "bucket": parts["bucket"]}
    joined_ns = (parts["joined_ns"] - start_ns).astype(np.float64)
    follows, follows_ns = _joined_after(parts, places, joined_ns, main)
    join = made.add(joined_ns, follows, lag_ns=joined_ns - follows_ns, phase=JOIN, **own)
    done, done_ns = _done(made, of, flows, join, len(trace.ranks), start_ns)
    first, first_ns = np.where(of.held, done[of.of_part], join), np.where(of.held, done_ns[of.of_part], joined_ns)
    found = of.found & (parts["waited_ns"] - start_ns >= first_ns)  # there before the rank looked
    ready_ns = np.where(found, np.maximum(joined_ns, first_ns), np.maximum(joined_ns, parts["ended_ns"] - start_ns))
    return made.add(ready_ns, first, phase=READY, **own)


def _joined_after(
    parts: Parts, places: Longs, joined_ns: Doubles, main: Mapping[int, _Sequence]
) -> tuple[Longs, Doubles]:
    """Of each part the moment that its rank's joining follows, and when that was."""
    follows, follows_ns = np.full(len(parts), ORIGIN), np.zeros(len(parts))
    for place, sequence in main.items():
        rows = np.flatnonzero(places == place)
        before = np.searchsorted(sequence.over_ns, joined_ns[rows], side="right") - 1
        backward = _own_backward(sequence.spans, parts[rows])
        near = (backward != NONE) & (np.abs(sequence.over_ns[backward] - joined_ns[rows]) <= AT_ONCE_NS)
        before[near] = backward[near]
        rows, before = rows[before >= 0], before[before >= 0]
        follows[rows], follows_ns[rows] = sequence.numbers[before], sequence.over_ns[before]
    return follows, follows_ns


def _own_backward(spans: Spans, parts: Parts) -> Longs:
    """Of each of ``parts`` the BACKWARD of its bucket that was the last to begin before it joined; NONE.

    An iteration may have several of one bucket; a later one waits, by what is before it, for this very collective.
    """
    ends = np.flatnonzero(spans["phase"] == Phase.BACKWARD)
    keys_of = np.append(_bucket_keys(spans[ends]), _bucket_keys(parts))
    bucket = np.unique(keys_of, return_inverse=True)[1] * (len(spans) + 1)  # and, of one bucket, how many had begun
    rising = np.sort(bucket[: len(ends)] + ends)
    asked = bucket[len(ends) :]
    begun = np.searchsorted(spans["start_ns"], parts["joined_ns"], side="right")
    found = np.append(NONE, rising)[np.searchsorted(rising, asked + begun)] - asked
    return np.where(found >= 0, found, NONE)


def _bucket_keys(rows: npt.NDArray[Any]) -> Longs:
    return np.asarray((rows["iteration"].astype(np.int64) << 17) + rows["bucket"])


def _done(
    made: _Columns, of: Collectives, flows: Sequence[ObservedFlow], join: Longs, ranks: int, start_ns: int
) -> tuple[Longs, Doubles]:  # fmt: skip
    """Of each collective, the moment at which it is done, and when that was."""
    needed = loads(of, flows)
    taken = transfers(of, needed.needed_ns)
    load = needed.scaled(taken.service_ns)
    iteration, bucket = of.parts["iteration"][of.first], of.parts["bucket"][of.first]
    order = np.lexsort((of.parts["joined_ns"], of.of_part))  # of each collective, in the order in which they joined
    joined_ns = (of.parts["joined_ns"][order] - start_ns).astype(np.float64)
    latest = made.add(joined_ns, join[order], second=_before(made.count, of.first, len(order)))
    begin = made.count + np.arange(len(of))
    done = begin + len(of) + OF_LINK * len(load.link)
    begin_ns = taken.begin_ns - start_ns
    done_ns = begin_ns + taken.service_ns
    after = np.where(taken.after == NONE, ORIGIN, done[taken.after])
    made.add(begin_ns, latest[of.first + of.sizes - 1], second=after, iteration=iteration)
    saturated, crossed = _links(made, of, load, begin, begin_ns, ranks)
    first, second = begin.copy(), np.full(len(of), ORIGIN)
    first[load.known], second[load.known] = crossed[load.last], saturated[load.last]
    made.add(
        done_ns, first, second=second,
        service_ns=np.where(load.known, 0.0, taken.service_ns), rank=ranks + len(flows), phase=READY,
        iteration=iteration, bucket=bucket,
    )  # fmt: skip
    return done, done_ns


def _links(
    made: _Columns, of: Collectives, load: Loads, begin: Longs, begin_ns: Doubles, ranks: int
) -> tuple[Longs, Longs]:
    """(the slowest link so far has carried its bytes, all links so far were crossed in turn), by row of ``load``."""
    row = of.parts[of.first[load.collective]]
    rank = np.where(load.link == NONE, NONE, ranks + load.link)
    own = {"iteration": row["iteration"], "bucket": row["bucket"], "rank": rank}
    began_ns = begin_ns[load.collective]
    alone_ns = began_ns + load.alone_ns
    carried = made.add(alone_ns, begin[load.collective], service_ns=load.alone_ns, phase=Phase.FLOW, **own)
    slowest = made.add(alone_ns, carried, second=_before(made.count, load.first, len(carried)))  # they rise
    turn = made.count + np.arange(len(carried))
    way = turn + len(turn)
    before = way - 1
    before[load.first] = begin[load.collective[load.first]]
    until_ns = began_ns + _summed(load.turn_ns + load.way_ns, load.first)
    made.add(until_ns - load.way_ns, before, service_ns=load.turn_ns, phase=Phase.FLOW, **own)
    made.add(until_ns, turn, service_ns=load.way_ns, phase=Phase.RECEIVE, **own)
    return slowest, way


def _summed(values: Doubles, first: Longs) -> Doubles:
    """Running sums of ``values``, anew from each of ``first`` on."""
    before = np.append(0.0, np.cumsum(values))
    return np.asarray(before[1:] - np.repeat(before[first], np.diff(np.append(first, len(values)))))


def _before(base: int, first: Longs, count: int) -> Longs:
    """Of ``count`` moments from number ``base`` on, in stretches that begin at ``first``, the one before; ORIGIN."""
    before = base + np.arange(count) - 1
    before[first] = ORIGIN
    return before


def _causes(spans: Spans, rank: int, of: Collectives, ready: Longs) -> Longs:
    """Of each of ``spans`` of ``rank`` the moment that it waits for; NONE."""
    found = np.full(len(spans), NONE)
    waits = np.flatnonzero(spans["phase"] == Phase.AWAIT_COLLECTIVE)
    known = keys(of.parts["group"], of.parts["seq"], of.parts["rank"])
    place, there = looked_up(known, keys(spans["peer_task"][waits], spans["seq"][waits], rank))
    found[waits[there]] = ready[place]
    return found
