"""What is late because TCP had to send it again: by a round trip, by its time-out, or by a window that was halved."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.links import ObservedLink

NEAR = 0.1  # to what sending again takes: so near to it that may be why
TIME_OUT_NS = 200e6  # the least after which TCP sends again what nobody acknowledges
SHRINKS, SHRUNK, LEAST_SHRINKING = 0.9, 0.5, 6  # from third to third, and in all, of how late so many messages are
SOON, LONG = 1, 3  # iterations after which something was sent again: a window is still halved, and may have grown
ONE = 0.5  # segment: what is counted between two looks is shared out by time
LEAST_EACH, LATER, LATER_BY = 8, 1.5, 0.1  # messages of either; times later those soon after are; of what one takes


def shrinks(late: Doubles, to: float = SHRUNK) -> bool:
    """Whether each third of the messages, which are enough, is clearly less ``late`` than the one before it.

    And the last is by no more than ``to`` times what the first is: of a lower rate it stays.
    """
    thirds = [float(np.median(each)) for each in np.array_split(late, 3)] if len(late) >= LEAST_SHRINKING else []
    steadily = all(after <= SHRINKS * before for before, after in pairwise(thirds))
    return bool(thirds) and steadily and thirds[-1] <= to * thirds[0]


def takes_sending_again(late_ns: float, round_trip_ns: float) -> bool:
    """Whether what is late by so much may have been sent again: a round trip later, or when TCP's time was out."""
    return any(is_near(late_ns, each) for each in (round_trip_ns, TIME_OUT_NS, TIME_OUT_NS + round_trip_ns))


def is_near(late_ns: float, of_ns: float) -> bool:
    """Whether what is late by ``late_ns`` is so by ``of_ns``."""
    return abs(late_ns - of_ns) <= NEAR * of_ns


def later_after_losses(link: ObservedLink, chosen: npt.NDArray[np.intp]) -> bool:
    """Whether of the messages ``chosen`` those soon after its socket sent again are clearly later than others.

    TCP halves its window then, which grows again; a lower rate serves both alike. False where too few are of a kind, or
    nobody looked at its socket.
    """
    since = iterations_since_losses(link)
    if since is None:
        return False
    since = since[chosen]
    late = (link.services_ns / np.maximum(1, link.expected_ns) - 1)[chosen]
    soon, long = late[since <= SOON], late[since >= LONG]
    if min(len(soon), len(long)) < LEAST_EACH:
        return False
    usual = max(0.0, float(np.median(long)))
    return bool(np.median(soon) >= max(LATER * usual, usual + LATER_BY))


def iterations_since_losses(link: ObservedLink) -> npt.NDArray[np.int64] | None:
    """How many iterations before each message of ``link`` its socket sent something again last, shape (messages,).

    LONG and more where it had not yet; None: nobody looked at its socket.
    """
    if link.traffic is None or not len(link.traffic.per_iteration):
        return None
    table = link.traffic.per_iteration
    row = np.searchsorted(table["start_ns"], link.rows["recv_end_ns"], side="right") - 1
    places = np.arange(len(table))
    latest = np.maximum.accumulate(np.where(table["retransmissions"] >= ONE, places, -len(table) - LONG))
    return np.where(row >= 0, row - latest[row], len(table) + LONG)
