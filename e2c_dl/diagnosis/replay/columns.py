"""Columns of a run's graph: what happened, as arrays that loops run over.

A *value* is a time that others may follow::

    0 .. N            moments: 0 the origin, then all tasks' events
    N .. N + M        arrivals of messages
    .. N + 2 M        when each message was sent
    .. N + 3 M        when each message began to be sent

All times are nanoseconds since the origin, as doubles: exact for runs of up to 104 days.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

ORIGIN = 0
"""The moment all others follow: it never moves."""

NONE = -1


class Moments(NamedTuple):
    """By moment. Its time is ``max(time[first] + lag, time[second]) + service + residual``."""

    observed_ns: Doubles
    first: Ints  # moments
    second: Ints  # values
    lag_ns: Doubles  # a gap in its task
    service_ns: Doubles
    residual_ns: Doubles  # waking up; time without a cause
    rank: Ints  # by its place; NONE: the origin
    phase: Ints  # of the span it ends; 0: a task's beginning, a rank's end
    iteration: Ints
    bucket: Ints


class Queue(NamedTuple):
    """By message; those of one link in the order in which they were sent::

    start   = max(posted, the link's latest sent)              + start_residual
    arrived = max(start + delay, the link's latest arrived)    + service
    sent    = start                         if it was not held back      + sent_residual
            = max(start, arrived - delay - ahead)  if it was             + sent_residual
    """

    link: Ints  # element
    posted: Ints  # moment
    start_ns: Doubles  # observed, as the next two
    arrived_ns: Doubles
    sent_ns: Doubles
    delay_ns: Doubles
    service_ns: Doubles  # at least 0
    ahead_ns: Doubles  # when it was sent, the bytes in the kernel still needed so long to leave
    start_residual_ns: Doubles
    sent_residual_ns: Doubles
    held_back: Bools
    waits_to_leave: Bools  # False: it was seen to leave before an earlier one was sent
    waits_to_arrive: Bools  # False: it was seen to arrive before an earlier one
    sent_after: Ints  # message that the link sent last before it, NONE if it did not wait for that one
    arrived_after: Ints  # ... that arrived last before it
    iteration: Ints
    bucket: Ints
    bits: Doubles  # on the wire


def order_of(numbers: npt.NDArray[np.integer]) -> Longs:
    """The order that sorts ``numbers``, equal ones as they stand: of those that fit 16 bits four times as fast."""
    small = np.iinfo(np.int16)
    if len(numbers) and small.min <= numbers.min() and numbers.max() <= small.max:
        numbers = numbers.astype(np.int16)  # NumPy counts them instead of comparing
    return np.asarray(np.argsort(numbers, kind="stable"))


def in_order_of_time(moments: Moments, queue: Queue) -> tuple[Moments, Queue, Ints]:
    """Both renumbered, so that what happens together lies together in memory; and every value's new number.

    It halves what a replay costs.
    """
    count, messages = len(moments.first), len(queue.posted)
    order = np.append(ORIGIN, 1 + np.argsort(moments.observed_ns[1:], kind="stable"))
    order_of_messages = np.argsort(queue.start_ns, kind="stable")
    number = np.empty(count + 2 * messages, dtype=np.int32)
    number[order] = np.arange(count)
    for first in (count, count + messages):
        number[first + order_of_messages] = np.arange(first, first + messages)
    moments = Moments._make(np.take(column, order) for column in moments)
    queue = Queue._make(np.take(column, order_of_messages) for column in queue)
    message = np.append(number[count : count + messages] - count, np.int32(NONE))  # the last, -1, is of NONE
    return (
        moments._replace(first=number[moments.first], second=number[moments.second]),
        queue._replace(
            posted=number[queue.posted],
            sent_after=message[queue.sent_after],
            arrived_after=message[queue.arrived_after],
        ),
        number,
    )


def values_ns(moments: Moments, queue: Queue) -> Doubles:
    """When every value was observed."""
    return np.concatenate([moments.observed_ns, queue.arrived_ns, queue.sent_ns, queue.start_ns])
