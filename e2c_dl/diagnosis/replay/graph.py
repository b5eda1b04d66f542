"""A run as a graph of moments and of messages queueing for links: what replays are computed on.

A *moment* follows one or two others. ``service`` is the time that a host's compute took, which a what-if scales::

    time = max(time[first] + lag, time[second]) + service * scale - less + residual

and of which a what-if first takes off the time in which the element stalled, if it asks for that.

A *message* is served when it is posted, each link one after another in the order of posting, first in, first out::

    start   = max(posted, the link's previous sent)                                  + residual
    arrived = max(start + delay, the link's previous arrived) + service * scale      + residual
    sent    = start + lag                         if the kernel took it at once
            = max(start, arrived - delay - ahead * scale)  if it was held back       + residual

Residuals are what the model does not explain (scheduling, wake-up, clock error): they stay. So the unchanged graph
gives back every observed moment, and a changed one moves only what depends on the change. The order of service is not
kept: a replay with a faster host may well queue messages in another order than was observed.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import AnalysisError

Longs = npt.NDArray[np.int64]

ORIGIN = 0
"""The moment all others follow: it never moves."""

QUEUED: np.dtype[Any] = np.dtype(
    [
        ("posted", "<i8"),  # moments
        ("sent", "<i8"),
        ("arrived", "<i8"),
        ("element", "<i8"),  # its link
        ("observed_ns", "<i8"),  # when its first byte was sent
        ("delay_ns", "<i8"),
        ("service_ns", "<i8"),
        ("stalled_ns", "<i8"),  # of it, in which the element ``stalled_by`` stalled
        ("stalled_by", "<i8"),
        ("start_residual_ns", "<i8"),
        ("arrived_residual_ns", "<i8"),
        ("held_back", "?"),
        ("sent_lag_ns", "<i8"),  # if not held back
        ("ahead_ns", "<i8"),  # if held back: when sent, the bytes in the kernel still needed this long to leave
        ("sent_residual_ns", "<i8"),
    ]
)


@dataclass(kw_only=True)
class Sketch:
    """A graph while it is being built: one entry per moment in each list, in any order. Moment 0 is the origin."""

    observed_ns: list[int]  # when it happened
    first: list[int] = field(default_factory=lambda: [ORIGIN])
    second: list[int] = field(default_factory=lambda: [ORIGIN])
    lag_ns: list[int] = field(default_factory=lambda: [0])
    service_ns: list[int] = field(default_factory=lambda: [0])
    element: list[int] = field(default_factory=lambda: [-1])  # -1: none
    phase: list[int] = field(default_factory=lambda: [0])  # of the service; 0: none
    stalled_ns: dict[int, int] = field(default_factory=dict)  # moment -> of its service, while its element stalled
    queued: list[npt.NDArray[Any]] = field(default_factory=list)  # of QUEUED, one array per link, in order of service

    def add(
        self, observed_ns: int, first: int, *, lag_ns: int = 0, service_ns: int = 0, element: int = -1, phase: int = 0
    ) -> int:
        """The number of a new moment that follows moment ``first`` after ``lag_ns``, and the origin as all do."""
        self.observed_ns.append(observed_ns)
        self.first.append(first)
        self.second.append(ORIGIN)
        self.lag_ns.append(lag_ns)
        self.service_ns.append(service_ns)
        self.element.append(element)
        self.phase.append(phase)
        return len(self.first) - 1

    def also_after(self, moment: int, second: int) -> None:
        """``moment`` is not before ``second`` either."""
        self.second[moment] = second


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Built by :func:`build`; columns of equal length by moment, ``queued`` by message, nothing in it is mutated."""

    first: Sequence[int]
    second: Sequence[int]
    lag_ns: Sequence[int]
    service_ns: Longs
    stalled_ns: Longs
    residual_ns: Longs
    element: Longs
    phase: Longs
    observed_ns: Longs
    start_ns: int  # when the origin happened
    queued: npt.NDArray[Any]  # of QUEUED
    following: Sequence[Sequence[int]]  # the moments that follow each
    awaited: Sequence[int]  # how many moments each follows
    message_posted_at: Sequence[int]  # the message that each moment posts, or -1

    def times_ns(self, own_ns: Sequence[int], served: Sequence[tuple[int, int, int]]) -> list[int]:
        """Every moment's time; ``own_ns``: what of each moment is its own, service and residual; ``served``: of each
        message what it occupies its link (residual included), what was ahead of it when it was sent, and its delay.

        Raises: AnalysisError, if moments wait for each other in a circle, which no run can.
        """
        links = _Links(self, served)
        first, second, lag_ns, following = self.first, self.second, self.lag_ns, self.following
        awaited, posts = list(self.awaited), self.message_posted_at
        times = [self.start_ns] * len(first)
        known, count = [ORIGIN], 0
        queue: list[tuple[int, int]] = []  # messages posted and not yet served: (posted, message)
        while known or queue:
            if not known:  # whatever is still unknown follows an arrival, so nothing is posted before the earliest here
                known = links.serve(*heapq.heappop(queue), times)
            moment = known.pop()
            count += 1
            if posts[moment] >= 0:
                heapq.heappush(queue, (times[moment], posts[moment]))
            for later in following[moment]:
                awaited[later] -= 1
                if not awaited[later]:
                    after_first, after_second = times[first[later]] + lag_ns[later], times[second[later]]
                    latest = after_first if after_first > after_second else after_second  # noqa: FURB136 - half the cost
                    times[later] = latest + own_ns[later]
                    known.append(later)
        if count < len(first):
            raise AnalysisError(
                f"trace: {len(first) - count} of {len(first)} moments wait for each other in a circle; "
                "the archive mixes two runs or is damaged: run e2c-dl verify on it"
            )
        return times


class _Links:
    """The state of all links during one replay."""

    def __init__(self, graph: Graph, served: Sequence[tuple[int, int, int]]) -> None:
        queued = graph.queued
        names = ("element", "sent", "arrived", "start_residual_ns", "held_back", "sent_lag_ns", "sent_residual_ns")
        columns = [queued[name].tolist() for name in names]
        self._messages = [(*row, *own) for *row, own in zip(*columns, served, strict=True)]
        links = int(queued["element"].max(initial=-1)) + 1
        self._sent_ns, self._arrived_ns = [graph.start_ns] * links, [graph.start_ns] * links

    def serve(self, posted_ns: int, message: int, times: list[int]) -> list[int]:
        """The two moments that are known now, sent and arrived; writes them into ``times``."""
        of_message = self._messages[message]
        link, sent, arrived, start_residual, held_back, lag, sent_residual, service, ahead, delay = of_message
        start_ns = max(posted_ns, self._sent_ns[link]) + start_residual
        arrived_ns = max(start_ns + delay, self._arrived_ns[link]) + service
        sent_ns = max(start_ns, arrived_ns - delay - ahead) + sent_residual if held_back else start_ns + lag
        times[sent] = self._sent_ns[link] = sent_ns
        times[arrived] = self._arrived_ns[link] = arrived_ns
        return [sent, arrived]


def build(sketch: Sketch) -> Graph:
    """``sketch`` with the residuals that make it reproduce what was observed."""
    columns = {
        name: np.array(getattr(sketch, name), dtype=np.int64)
        for name in ("observed_ns", "first", "second", "lag_ns", "service_ns", "element", "phase")
    }
    seen, first, second = columns["observed_ns"], columns["first"], columns["second"]
    residual_ns = seen - columns["service_ns"] - np.maximum(seen[first] + columns["lag_ns"], seen[second])
    queued = np.concatenate([np.empty(0, dtype=QUEUED), *sketch.queued])
    served = {*queued["sent"].tolist(), *queued["arrived"].tolist()}
    stalled_ns = np.zeros(len(seen), dtype=np.int64)
    stalled_ns[list(sketch.stalled_ns)] = list(sketch.stalled_ns.values())
    following: list[list[int]] = [[] for _ in sketch.first]
    awaited = [0] * len(following)
    for moment, (a, b) in enumerate(zip(sketch.first, sketch.second, strict=True)):
        if moment == ORIGIN or moment in served:
            continue
        for earlier in {a, b}:  # a set: both may be one moment
            following[earlier].append(moment)
            awaited[moment] += 1
    posts = np.full(len(following), -1, dtype=np.int64)
    posts[queued["posted"]] = np.arange(len(queued))
    return Graph(
        first=sketch.first,
        second=sketch.second,
        lag_ns=sketch.lag_ns,
        service_ns=columns["service_ns"],
        stalled_ns=stalled_ns,
        residual_ns=residual_ns,
        element=columns["element"],
        phase=columns["phase"],
        observed_ns=seen,
        start_ns=int(seen[ORIGIN]),
        queued=queued,
        following=following,
        awaited=awaited,
        message_posted_at=posts.tolist(),
    )
