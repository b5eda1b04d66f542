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
it has learned. Of a link that is first used late in a run these are in the middle of it::

    late    | |
            | | | . . . .      by at most log2(message / ten segments) + 1 round trips each,
            m1 m2 m3 m4        and not by more as time goes on

Source: Jacobson, "Congestion avoidance and control", SIGCOMM 1988: the window grows only while it is what limits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.link_kinds import GRAIN_NS
from e2c_dl.diagnosis.detection.series import FLOOR
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.trace.warm_up import WARM_UP_ITERATIONS

INITIAL_BITS = 10 * 1448 * 8.0  # ten segments, Source: RFC 6928
LEARNING = 3  # windows that may be no more than the beginning of a connection, though none on time follows
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
    may_ns = 2 * link.designed_delay_ns + link.designed.jitter_s * 1e9
    held = departs & ~first & (late_ns == most_ns[bursts]) & (late_ns > GRAIN_NS) & (late_ns <= may_ns)
    if len(np.unique(bursts[held])) < LEAST_SHARE * len(np.unique(bursts[departs])):
        return False
    others = departs & ~held
    took_ns, expected_ns = (float((each[others] + GRAIN_NS).sum()) for each in (link.services_ns, link.expected_ns))
    return bool(others.any() and took_ns < np.exp(FLOOR) * expected_ns)


def opens_window(link: ObservedLink, departs: npt.NDArray[np.bool_], windows: npt.NDArray[np.int64]) -> bool:
    """Whether ``link``'s messages ``departs`` are its first, and late only as those are that teach TCP its window.

    ``windows``: that of each message.
    """
    own = np.unique(windows)
    depart_in = np.unique(windows[departs])
    telling = departs & (wire_bits_of(link.rows["nbytes"]) > INITIAL_BITS)
    is_first = len(depart_in) > 0 and len(own[own <= depart_in[-1]]) <= len(depart_in) + WARM_UP_ITERATIONS
    is_over = len(depart_in) < len(own) / 2 or len(own) <= LEARNING
    if link.by_receiver or not telling.any() or not is_first or not is_over:
        return False
    bits = np.maximum(INITIAL_BITS, wire_bits_of(link.rows["nbytes"])[departs])
    trips = np.log2(bits / INITIAL_BITS) + 1
    may_ns = trips * 2 * link.designed_delay_ns[departs] + link.designed.jitter_s * 1e9 + GRAIN_NS
    late_ns = (link.services_ns - link.expected_ns)[departs]
    first, last = np.array_split(late_ns[telling[departs]], 2)
    return bool((late_ns <= may_ns).all() and (not len(last) or last.mean() <= first.mean() + GRAIN_NS))


def _bursts(link: ObservedLink) -> npt.NDArray[np.int64]:
    """The number of the burst of each message, from 0, rising."""
    rows = link.rows
    found_busy = rows["send_start_ns"][1:] + link.delay_ns[1:] < rows["recv_end_ns"][:-1]
    return np.concatenate([[0], np.cumsum(~found_busy)])
