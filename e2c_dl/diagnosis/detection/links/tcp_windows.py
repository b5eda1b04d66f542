"""Messages that wait for TCP's window: late by a round trip at most, amid others that are on time.

A burst that is longer than what TCP has learned to send at once is held up until the first acknowledgement is back::

    sent      m1 m2 m3 m4 m5            burst: messages that find the link busy, and the one that they follow
    arrives        m1 m2 m3 m4 .... m5      m5 waits for the ACK of m1: at most a round trip after m1 was sent
                  |<----- round trip ----->|

A link of a lower rate is slower for each of them, and an added delay is that of the first. So a link departs only by
what is left when the latest of each burst, which is not its first and late by at most a round trip, is taken as if it
were on time.

A connection that is new begins with ten segments and doubles them every round trip; where that overshoots, it goes on
slowly. So its first messages may be late by as many round trips as the doublings that they need, and are on time once
it has learned. Of a link that is first used late, or by small messages until then, these are in the middle of the run::

    late    | |
            | | | . . . .      by at most log2(message / ten segments) + 1 round trips each, and not by more as time
            m1 m2 m3 m4        goes on; after an overshoot by more than that, and by ever less: OVERSHOT
                               times as much in all, for a rate that recovers looks like it

And where both ways are busy acknowledgements wait behind data. A message that is longer than the window goes on when
its first one is back, which is behind all that the other way had in its queue: as much as the window there lets in::

    a -> b    |== window ==|. . . . . .|======      late, as designed, by what the queue is longer than the window
    b -> a    |====== queue ======|ack|             again after each window, until one holds a whole message

Source: Jacobson, "Congestion avoidance and control", SIGCOMM 1988: the window grows only while it is what limits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS
from e2c_dl.diagnosis.detection.links.sending_again import shrinks
from e2c_dl.diagnosis.detection.series import FLOOR
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.trace.warm_up import WARM_UP_ITERATIONS

INITIAL_BITS = 10 * 1448 * 8.0  # ten segments, Source: RFC 6928
LEARNING = 7  # messages that may be no more than the beginning of a connection, though none on time follows
OVERSHOT = 20.0  # times what opening takes: in all, no window that was too large at first makes messages later
LEAST_SHARE = 0.5  # of the bursts: so many must have had to wait


def waits_for_window(link: ObservedLink, departs: npt.NDArray[np.bool_]) -> bool:
    """Whether ``link``'s messages ``departs``, shape (messages,), are late only as those are that wait for a window."""
    if link.by_receiver or not departs.any():
        return False
    bursts = _bursts(link)
    late_ns = np.where(departs, link.services_ns - link.expected_ns, -np.inf)
    most_ns = np.full(bursts[-1] + 1, -np.inf)
    np.maximum.at(most_ns, bursts, late_ns)
    first = np.concatenate([[True], np.diff(bursts) > 0])
    jitter_ns = link.designed.jitter_s * 1e9
    may_ns = 2 * link.designed_delay_ns + jitter_ns + link.expected_ns  # what opens the window is on its way as long
    held = departs & ~first & (late_ns == most_ns[bursts]) & (late_ns > GRAIN_NS) & (late_ns <= may_ns)
    teaches = departs & _teaches(link)
    if len(np.unique(bursts[held])) < LEAST_SHARE * len(np.unique(bursts[departs & ~teaches])):
        return False
    others = departs & ~held & ~teaches
    took_ns, expected_ns = (float((each[others] + GRAIN_NS).sum()) for each in (link.services_ns, link.expected_ns))
    return bool(others.any() and took_ns < np.exp(FLOOR) * expected_ns + others.sum() * jitter_ns)


def opens_window(link: ObservedLink, departs: npt.NDArray[np.bool_]) -> bool:
    """Whether ``link``'s messages ``departs`` are its first, and late only as those are that teach TCP its window."""
    large = _is_large(link)
    telling = departs & large
    if link.by_receiver or not telling.any():
        return False
    late_ns = link.services_ns - link.expected_ns
    on_time = large & (late_ns <= np.expm1(FLOOR) * link.expected_ns + GRAIN_NS)
    first_late, *_, last_late = np.flatnonzero(telling)[[0, -1]]
    if (
        on_time[:first_late].sum() > WARM_UP_ITERATIONS
        or on_time[:last_late].sum() > telling.sum() + WARM_UP_ITERATIONS
    ):
        return False  # it had learned already, and is late again
    if shrinks(late_ns[telling]) and late_ns[telling].sum() <= OVERSHOT * _opening_ns(link)[telling].max():
        return True
    is_over = telling.sum() <= large.sum() / 2 or large.sum() <= LEARNING
    first, last = np.array_split(late_ns[telling], 2)
    return bool(
        is_over
        and (late_ns <= _opening_ns(link))[departs].all()
        and (not len(last) or last.mean() <= first.mean() + GRAIN_NS)
    )


def acknowledged_late_ns(link: ObservedLink, back: ObservedLink) -> npt.NDArray[np.float64] | None:
    """How late each message of ``link`` may be, shape (messages,), for ``back``, the other way, has data in its queue.

    By both windows, as sockets had told them before it; 0.0 where they had not yet, None if nobody looked at them. A
    message that the window holds does not wait, though several of them together may.
    """
    rows, nbytes = link.rows, np.maximum(1, link.rows["nbytes"])
    windows = [_window_bytes(each, rows["send_start_ns"]) for each in (link, back)]
    if windows[0] is None or windows[1] is None:
        return None
    window_ns = windows[0] * link.expected_ns / nbytes
    most_queued_ns = windows[1] * back.expected_ns.sum() / max(1, back.rows["nbytes"].sum())
    begins_ns = link.began_ns + link.left_ns - link.services_ns
    arrived_ns = np.maximum.accumulate(back.rows["recv_end_ns"])
    carried_ns = np.append(0.0, np.cumsum(back.expected_ns))
    first = np.searchsorted(arrived_ns, begins_ns, side="right")  # of those under way meanwhile
    beyond = np.maximum(first, np.searchsorted(back.rows["send_start_ns"], rows["recv_end_ns"]))
    meanwhile_ns = np.minimum(carried_ns[beyond] - carried_ns[first], rows["recv_end_ns"] - begins_ns)
    round_ns = np.minimum(meanwhile_ns, most_queued_ns) + link.round_trip_ns
    rounds = np.minimum(np.ceil(nbytes / windows[0]) - 1, np.maximum(1.0, meanwhile_ns / np.maximum(1.0, round_ns)))
    late_ns = np.where(meanwhile_ns > GRAIN_NS, rounds * np.maximum(0.0, round_ns - window_ns), 0.0)
    return np.asarray(np.nan_to_num(late_ns))


def _window_bytes(link: ObservedLink, at_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | None:
    """The largest congestion window of the last iteration before ``at_ns`` in which one of ``link`` was seen.

    NaN: in none. None: in none of the run.
    """
    if link.traffic is None:
        return None
    table = link.traffic.per_iteration
    table = table[table["window_bytes"] > 0]
    if not len(table):
        return None
    row = np.searchsorted(table["end_ns"], at_ns, side="right") - 1
    return np.where(row >= 0, table["window_bytes"][np.maximum(row, 0)], np.nan)


def _is_large(link: ObservedLink) -> npt.NDArray[np.bool_]:
    """Which messages a new connection does not send at once: smaller ones teach it nothing."""
    return np.asarray(wire_bits_of(link.rows["nbytes"]) > INITIAL_BITS)


def _teaches(link: ObservedLink) -> npt.NDArray[np.bool_]:
    """The first messages of ``link`` that are larger than a new connection sends at once, as late as those may be.

    As many as the largest needs doublings, and one more.
    """
    large = _is_large(link)
    most = max(float(wire_bits_of(link.rows["nbytes"]).max()), INITIAL_BITS)
    doublings = np.ceil(np.log2(most / INITIAL_BITS))
    is_first = large & (np.cumsum(large) <= doublings + 1)
    return np.asarray(is_first & (link.services_ns - link.expected_ns <= _opening_ns(link)))


def _opening_ns(link: ObservedLink) -> npt.NDArray[np.float64]:
    """How late each message may be on a new connection, shape (messages,)."""
    trips = np.log2(np.maximum(INITIAL_BITS, wire_bits_of(link.rows["nbytes"])) / INITIAL_BITS) + 1
    return np.asarray(trips * 2 * link.designed_delay_ns + link.designed.jitter_s * 1e9 + GRAIN_NS)


def _bursts(link: ObservedLink) -> npt.NDArray[np.int64]:
    """The number of the burst of each message, from 0, rising."""
    rows = link.rows
    found_busy = rows["send_start_ns"][1:] + link.delay_ns[1:] < rows["recv_end_ns"][:-1]
    return np.concatenate([[0], np.cumsum(~found_busy)])
