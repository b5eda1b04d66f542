"""Messages that wait for TCP's window: late by a round trip at most, amid others that are on time.

A burst that is longer than what TCP has learned to send at once is held up until the first acknowledgement is back::

    sent      m1 m2 m3 m4 m5            burst: messages that find the link busy, and the one that they follow
    arrives        m1 m2 m3 m4 .... m5      m5 waits for the ACK of m1: at most a round trip after m1 was sent
                  |<----- round trip ----->|

A link of a lower rate is slower for each of them, and an added delay is that of the first. So a link departs only by
what is left when the latest of each burst, which is not its first and late by at most a round trip, is taken as if it
were on time.

Source: Jacobson, "Congestion avoidance and control", SIGCOMM 1988: the window grows only while it is what limits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.link_kinds import GRAIN_NS
from e2c_dl.diagnosis.detection.series import FLOOR
from e2c_dl.diagnosis.links import ObservedLink

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


def _bursts(link: ObservedLink) -> npt.NDArray[np.int64]:
    """The number of the burst of each message, from 0, rising."""
    rows = link.rows
    found_busy = rows["send_start_ns"][1:] + link.delay_ns[1:] < rows["recv_end_ns"][:-1]
    return np.concatenate([[0], np.cumsum(~found_busy)])
