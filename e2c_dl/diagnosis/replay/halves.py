"""Second half of a run predicted from its first: how far what-ifs of it may be believed.

::

    iteration    0  1 | 2  3  4  5  6  7 | 8  9 10 11 12 13 14 15
                 warm |  first half      |  as many, in which every service, gap, delay and residual is that of the same
                  up                        event of the same rank (or link) in the first half, one after another

The graph of the second half is its own, its durations are borrowed. Unlike a replay of the unchanged trace, which is
right by construction, this can be wrong: where durations say too little, and where the run was not the same throughout.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.replay.columns import ORIGIN, Ints, Longs, Moments, Queue, order_of
from e2c_dl.diagnosis.replay.graph import Costs, Graph, times_ns

MIN_ITERATIONS = 4
"""To borrow from: of fewer, one that was disturbed would be most of them."""


def half_error(graph: Graph, ends: Longs, iterations: int, first: int) -> float:
    """|predicted - measured| / measured time of the second half of a run of ``iterations``; NaN if it is too short.

    ``first``: the first iteration after warm-up; ``ends``: of each rank.
    """
    half = iterations // 2
    if half - first < MIN_ITERATIONS:
        return math.nan
    moments, queue = graph.moments, graph.queue
    later = moments.iteration >= half
    began_ns = float(moments.observed_ns[later].min(initial=np.inf))
    measured_ns = float(moments.observed_ns[ends].max())
    of_moments = _borrowed(_moment_keys(moments), moments.iteration, half, first)
    of_messages = _borrowed(_message_keys(queue), queue.iteration, half, first)
    moments, queue = _moments(moments, of_moments), _queue(queue, of_messages)
    costs = Costs(
        own_ns=moments.service_ns + moments.residual_ns, delay_ns=queue.delay_ns, service_ns=queue.service_ns,
        ahead_ns=queue.ahead_ns,
    )  # fmt: skip
    predicted_ns = float(times_ns(graph._replace(moments=moments, queue=queue), costs)[ends].max())
    return abs(predicted_ns - measured_ns) / (measured_ns - began_ns) if measured_ns > began_ns else math.nan


def _moments(moments: Moments, source: Longs) -> Moments:
    return moments._replace(
        lag_ns=moments.lag_ns[source], service_ns=moments.service_ns[source], residual_ns=moments.residual_ns[source]
    )


def _queue(queue: Queue, source: Longs) -> Queue:
    """A message of another size takes that much more or less time to carry."""
    size = queue.bits / queue.bits[source]
    return queue._replace(
        delay_ns=queue.delay_ns[source],
        service_ns=queue.service_ns[source] * size,
        ahead_ns=queue.ahead_ns[source] * size,
        start_residual_ns=queue.start_residual_ns[source],
        sent_residual_ns=queue.sent_residual_ns[source],
    )


def _moment_keys(moments: Moments) -> Longs:
    """Alike are events of one rank, phase and bucket; -1: none, what follows nothing has a time and no duration."""
    event = ((moments.first != ORIGIN) | (moments.phase == 0)) & (moments.iteration >= 0)
    return np.where(event, _keys(moments.rank, moments.phase, moments.bucket + 1), -1)


def _message_keys(queue: Queue) -> Longs:
    """Alike are messages of one link and bucket whose sizes differ by less than 2: a small one tells no rate."""
    return _keys(queue.link, queue.bucket + 1, np.log2(np.maximum(1.0, queue.bits)).astype(np.int64))


def _keys(*columns: npt.NDArray[np.integer]) -> Longs:
    """A number from 0 for each row of ``columns``, which sorts like the row; a small one, which sorts fast."""
    found = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        least = column.min(initial=0)
        found *= column.max(initial=0) - least + 1
        found += column - least
    return found


def _borrowed(keys: Longs, iteration: Ints, half: int, first: int) -> Longs:
    """From which each takes what it takes: itself, or of the second half the next alike of the first half, in turn."""
    source = np.arange(len(keys))
    order = order_of(keys)  # in order of time, those alike together
    keys, iteration = keys[order], iteration[order]
    lends = (iteration >= first) & (iteration < half) & (keys >= 0)
    takes = (iteration >= half) & (keys >= 0)
    lenders, takers, lent, taken = order[lends], order[takes], keys[lends], keys[takes]
    begins = np.flatnonzero(np.diff(taken, prepend=-1))  # where those alike begin, each of which is looked up once
    alike = np.diff(np.append(begins, len(takers)))
    from_, to = (np.searchsorted(lent, taken[begins], side=side) for side in ("left", "right"))
    place, count = np.repeat(from_, alike), np.repeat(to - from_, alike)
    turn = np.arange(len(takers)) - np.repeat(begins, alike)
    found = count > 0
    source[takers[found]] = lenders[(place + turn % np.maximum(count, 1))[found]]
    return source
