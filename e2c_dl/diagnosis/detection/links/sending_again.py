"""What is late because TCP had to send it again: by a round trip, by its time-out, or by a window that was halved."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from e2c_dl.diagnosis.detection.change_points import Doubles

NEAR = 0.1  # to what sending again takes: so near to it that may be why
TIME_OUT_NS = 200e6  # the least after which TCP sends again what nobody acknowledges
SHRINKS, SHRUNK, LEAST_SHRINKING = 0.9, 0.5, 6  # from third to third, and in all, of how late so many messages are


def shrinks(late_ns: Doubles) -> bool:
    """Whether each third of the messages, which are enough, is clearly less late than the one before it."""
    thirds = [float(np.median(each)) for each in np.array_split(late_ns, 3)] if len(late_ns) >= LEAST_SHRINKING else []
    steadily = all(after <= SHRINKS * before for before, after in pairwise(thirds))
    return bool(thirds) and steadily and thirds[-1] <= SHRUNK * thirds[0]  # of a lower rate it stays


def takes_sending_again(late_ns: float, round_trip_ns: float) -> bool:
    """Whether what is late by so much may have been sent again: a round trip later, or when TCP's time was out."""
    return any(is_near(late_ns, each) for each in (round_trip_ns, TIME_OUT_NS, TIME_OUT_NS + round_trip_ns))


def is_near(late_ns: float, of_ns: float) -> bool:
    """Whether what is late by ``late_ns`` is so by ``of_ns``."""
    return abs(late_ns - of_ns) <= NEAR * of_ns
