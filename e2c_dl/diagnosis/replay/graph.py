"""A run as a graph of moments and of messages that queue for links, computed anew for each what-if.

A *moment* follows one or two values, a *message* is served by its link when it is posted, first in, first out
(:mod:`e2c_dl.diagnosis.replay.columns` has both equations). Residuals are what the model does not explain (scheduling,
wake-up, clock error): they stay. So the unchanged graph gives back every observed moment, and a changed one moves only
what depends on the change. The order of service is not kept: a replay with a faster host may well queue messages in
another order than was observed, and one that kept it would be a quarter off where several buckets share a link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from e2c_dl.diagnosis.replay.columns import NONE, Bytes, Doubles, Ints, Moments, Queue
from e2c_dl.diagnosis.replay.compiled import compiled
from e2c_dl.errors import AnalysisError

FEW_OF_A_REPLAY = 4_000
"""Units of a run of which dozens of replays take less time than loading the compiler."""


class Costs(NamedTuple):
    """What things take in one what-if."""

    own_ns: Doubles  # by moment: service and residual
    delay_ns: Doubles  # by message, as the following
    service_ns: Doubles
    ahead_ns: Doubles


LAST = np.iinfo(np.int32).max
"""Where no message is: after all of them."""


class Heap(NamedTuple):
    """Messages that are posted and not yet served: each comes before the two below it, by time, then by number.

    ::

                 0                 what is below place p is at 2 p + 1 and 2 p + 2
             1       2
           3   4   5   6           room that no message is in comes last: it is posted at infinity
    """

    at_ns: Doubles
    message: Ints


class Graph(NamedTuple):
    """Built by :func:`build`; nothing in it is mutated."""

    moments: Moments
    queue: Queue
    elements: int  # links are numbered below it
    starts: Ints  # of each value, in ``followers``, the first moment that follows it; the last: how many do
    followers: Ints
    awaited: Bytes  # how many values each moment follows
    posts: Ints  # the message that each moment posts; NONE


def build(moments: Moments, queue: Queue, elements: int) -> Graph:
    """The graph of ``moments`` and ``queue``."""
    values = len(moments.first) + 2 * len(queue.posted)
    starts, followers, awaited = _followed(moments.first, moments.second, values)
    posts = np.full(len(moments.first), NONE, dtype=np.int32)
    posts[queue.posted] = np.arange(len(queue.posted))
    return Graph(
        moments=moments, queue=queue, elements=elements,
        starts=starts, followers=followers, awaited=awaited, posts=posts,
    )  # fmt: skip


def times_ns(graph: Graph, costs: Costs) -> Doubles:
    """When every value comes to be, in nanoseconds since the origin.

    Raises: AnalysisError, if moments wait for each other in a circle, which no run can.
    """
    times, messages = np.zeros(len(graph.starts) - 1), len(graph.queue.posted)
    known = np.zeros(len(graph.posts) + 2, dtype=np.int32)
    heap = Heap(at_ns=np.full(messages + 1, np.inf), message=np.full(messages + 1, LAST, dtype=np.int32))
    reached = _computed(graph, costs, times, graph.awaited.copy(), known, heap)
    if reached < len(graph.posts):
        raise AnalysisError(
            f"trace: {len(graph.posts) - reached} of {len(graph.posts)} moments wait for each other in a circle; "
            "a clock was set back, or the archive mixes two runs or is damaged: run e2c-dl verify on it"
        )
    return times


@compiled(lambda first, second, values: len(first))
def _followed(first: Ints, second: Ints, values: int) -> tuple[Ints, Ints, Bytes]:
    """Starts, followers and awaited of a Graph. The origin is known: nothing waits for it beside another value."""
    starts = np.zeros(values + 1, dtype=np.int32)
    awaited = np.ones(len(first), dtype=np.int8)
    for moment in range(1, len(first)):
        starts[first[moment] + 1] += 1
        if second[moment] > 0:
            starts[second[moment] + 1] += 1
            awaited[moment] = 2
    for value in range(values):
        starts[value + 1] += starts[value]
    place = starts.copy()
    followers = np.empty(starts[values], dtype=np.int32)
    for moment in range(1, len(first)):
        followers[place[first[moment]]] = moment
        place[first[moment]] += 1
        if second[moment] > 0:
            followers[place[second[moment]]] = moment
            place[second[moment]] += 1
    return starts, followers, awaited


def _added(heap: Heap, size: int, at_ns: float, message: int) -> None:
    """Adds ``message``, posted at ``at_ns``, to the ``size`` that are in ``heap``."""
    place = size
    while place > 0:
        above = (place - 1) // 2
        if (heap.at_ns[above] < at_ns) | ((heap.at_ns[above] == at_ns) & (heap.message[above] < message)):
            break
        heap.at_ns[place], heap.message[place] = heap.at_ns[above], heap.message[above]
        place = above
    heap.at_ns[place], heap.message[place] = at_ns, message


def _first_taken(heap: Heap, size: int) -> None:
    """Takes the first of the ``size`` messages out of ``heap``.

    The earlier of two below moves up, down to the bottom, without a branch that a processor would have to guess; there
    the last one, which is late, is added.
    """
    last = size - 1
    at_ns, message = heap.at_ns[last], heap.message[last]
    heap.at_ns[last], heap.message[last] = np.inf, LAST
    place, below = 0, 1
    while below < last:
        left_ns, right_ns = heap.at_ns[below], heap.at_ns[below + 1]
        left, right = heap.message[below], heap.message[below + 1]
        below += (right_ns < left_ns) | ((right_ns == left_ns) & (right < left))
        heap.at_ns[place], heap.message[place] = heap.at_ns[below], heap.message[below]
        place, below = below, 2 * below + 1
    if last > 0:
        _added(heap, place, at_ns, message)


@compiled(
    lambda graph, costs, times, awaited, known, heap: len(costs.own_ns),
    few=FEW_OF_A_REPLAY, calls=(_added, _first_taken),
)  # fmt: skip
def _computed(graph: Graph, costs: Costs, times: Doubles, awaited: Bytes, known: Ints, heap: Heap) -> int:
    """How many moments could be computed: the time of every value is written to ``times``, of zeros.

    ``awaited``: how many values each moment follows; counted down. ``known``: zeros, room for the values that those
    that follow them have not been told of, one for each moment and two more. ``heap``: room for the messages that are
    posted and not yet served. NumPy makes all four: memory that it asks for costs two replays side by side less than
    what compiled loops ask for.

    Messages are served in the order in which they are posted. Once no moment can be computed before one of them is
    served, whatever is unknown follows an arrival, and nothing is posted before the earliest of them.
    """
    moments, queue = graph.moments, graph.queue
    count, messages = len(moments.first), len(queue.posted)
    sent_ns, arrived_ns = np.zeros(graph.elements), np.zeros(graph.elements)  # of each link, so far
    left, reached, posted = 1, 1, 0
    while left > 0 or posted > 0:
        if left == 0:
            start_ns, message = heap.at_ns[0], heap.message[0]
            _first_taken(heap, posted)
            posted -= 1
            link, delay_ns = queue.link[message], costs.delay_ns[message]
            if queue.waits_to_leave[message]:
                start_ns = max(start_ns, sent_ns[link])
            start_ns += queue.start_residual_ns[message]
            served_ns = start_ns + delay_ns
            if queue.waits_to_arrive[message]:
                served_ns = max(served_ns, arrived_ns[link])
            served_ns += costs.service_ns[message]
            left_ns = start_ns
            if queue.held_back[message]:
                left_ns = max(start_ns, served_ns - delay_ns - costs.ahead_ns[message])
            left_ns += queue.sent_residual_ns[message]
            sent_ns[link], arrived_ns[link] = max(sent_ns[link], left_ns), max(arrived_ns[link], served_ns)
            known[0], known[1], left = count + message, count + messages + message, 2
            times[known[0]], times[known[1]] = served_ns, left_ns
        left -= 1
        value = known[left]
        for place in range(graph.starts[value], graph.starts[value + 1]):
            moment = graph.followers[place]
            awaited[moment] -= 1
            if awaited[moment] == 0:
                first_ns = times[moments.first[moment]] + moments.lag_ns[moment]
                times[moment] = max(first_ns, times[moments.second[moment]]) + costs.own_ns[moment]
                known[left] = moment
                left += 1
                reached += 1
                if graph.posts[moment] >= 0:
                    _added(heap, posted, times[moment], graph.posts[moment])
                    posted += 1
    return reached
