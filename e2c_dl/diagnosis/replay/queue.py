"""Messages of directed links, each link serving its own one after another: columns of :class:`Queue`.

::

    posted    send_start                    recv_end
      |----------|~~~~~~~ delay ~~~~~~~|======|            message 1: queue, delay, service
      |             |~~~~~~~ delay ~~~~~~~|...|======|     message 2: its service begins when message 1's has ended
                                                     recv_end

    service = recv_end - max(send_start + delay, previous recv_end of the link)

A delay is believed up to the time that the message really took: beyond it, a message would arrive before it was sent.
One that arrives before an earlier one of its link did not wait for that one, nor will it in a replay. A SEND that took
longer than 1 ms was held back by a full kernel buffer: it ends when as many bytes as observed are still to leave. A
shorter one takes as long as observed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from e2c_dl.diagnosis.replay.columns import NONE, Bools, Doubles, Ints, Longs, Queue
from e2c_dl.diagnosis.replay.compiled import compiled
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.trace.messages import MessageArray

HELD_BACK_NS = 1_000_000
"""A SEND longer than this waited for room in the kernel's buffer."""

Delays = Mapping[tuple[int, int], "int | Longs"]
"""(src rank, dst rank) -> one-way delay, 0 where absent: of all its messages, or of each in service order."""


def served(joined: MessageArray) -> tuple[Longs, Longs]:
    """Order in which the links, one after another, served ``joined``, sorted by link; and each message's link by then,
    the first being 0."""
    pairs = (joined["src"].astype(np.int64) << 16) + joined["dst"]
    link = np.cumsum(np.diff(pairs, prepend=pairs[:1]) != 0)
    return np.lexsort((joined["send_start_ns"], link)), link  # stable: ties keep the trace's order


def queue_of(rows: MessageArray, link: Longs, posted: Longs, delays_ns: Delays, start_ns: int) -> Queue:
    """The columns of ``rows``, messages in the order of :func:`served`, posted at those moments.

    ``link``: each one's, rising, from 0. ``start_ns``: the origin.
    """
    began_ns, sent_ns, arrived_ns = (
        (rows[name] - start_ns).astype(np.float64) for name in ("send_start_ns", "send_end_ns", "recv_end_ns")
    )
    posted_ns = (rows["posted_ns"] - start_ns).astype(np.float64)
    delay_ns = np.minimum(_delays_ns(rows, link, delays_ns), arrived_ns - began_ns)
    sent_after, waits_to_leave = _after(link, sent_ns, began_ns)
    arrived_after, waits_to_arrive = _after(link, arrived_ns, arrived_ns)
    waited_ns = np.where(sent_after == NONE, 0.0, sent_ns[sent_after])
    busy_ns = np.where(arrived_after == NONE, -np.inf, arrived_ns[arrived_after])
    held_back = sent_ns - began_ns > HELD_BACK_NS
    ahead_ns = np.maximum(0, arrived_ns - delay_ns - sent_ns)
    left_ns = np.where(held_back, np.maximum(began_ns, arrived_ns - delay_ns - ahead_ns), began_ns)
    return Queue(
        link=link.astype(np.int32), posted=posted.astype(np.int32), sent_after=sent_after, arrived_after=arrived_after,
        start_ns=began_ns, arrived_ns=arrived_ns, sent_ns=sent_ns, delay_ns=delay_ns,
        service_ns=arrived_ns - np.maximum(began_ns + delay_ns, busy_ns), ahead_ns=ahead_ns,
        start_residual_ns=began_ns - np.maximum(posted_ns, waited_ns), sent_residual_ns=sent_ns - left_ns,
        held_back=held_back, waits_to_leave=waits_to_leave, waits_to_arrive=waits_to_arrive,
        iteration=rows["iteration"].astype(np.int32), bucket=rows["bucket"].astype(np.int32),
        bits=wire_bits_of(rows["nbytes"]),
    )  # fmt: skip


def _delays_ns(rows: MessageArray, link: Longs, delays_ns: Delays) -> Doubles:
    found = np.zeros(len(rows))
    starts = np.flatnonzero(np.diff(link, prepend=-1))
    for start, stop in zip(starts, np.append(starts, len(rows))[1:], strict=True):
        found[start:stop] = delays_ns.get((int(rows["src"][start]), int(rows["dst"][start])), 0)
    return found


def _after(link: Longs, end_ns: Doubles, own_ns: Doubles) -> tuple[Ints, Bools]:
    """Of each message the earlier one of its link whose end was last, NONE if it did not wait for that; and whether
    it may have waited: not, if it was at ``own_ns`` before that end."""
    latest = _latest(link, end_ns)
    overtakes = (latest != NONE) & (end_ns[latest] > own_ns)
    return np.where(overtakes, np.int32(NONE), latest), ~overtakes


@compiled(lambda link, end_ns: len(link))
def _latest(link: Longs, end_ns: Doubles) -> Ints:
    """Of each message the earlier one of its link whose end was last; -1 of the first."""
    found = np.full(len(link), -1, dtype=np.int32)
    latest = 0
    for message in range(1, len(link)):
        if link[message] != link[message - 1]:
            latest = message
            continue
        found[message] = latest
        if end_ns[message] >= end_ns[latest]:
            latest = message
    return found
