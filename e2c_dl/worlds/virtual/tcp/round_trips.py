"""Round trips of one TCP connection as its sender knows them, and how long it waits for an ACK that does not come.

Sources: smoothed round trip and retransmission time-out: RFC 6298, 2.2, 2.3, 5.5, with Linux' least variance of 200 ms
in place of the least time-out of a second; probe time-out and reordering window: RFC 8985, 7.2 and 6.2.
"""

from __future__ import annotations

import math

LEAST_VARIANCE_S = 0.2
"""Linux, TCP_RTO_MIN: added to the smoothed round trip at least."""
MOST_TIMEOUT_S = 120.0
"""Linux, TCP_RTO_MAX."""
_LONE_S = 0.2  # a receiver may hold the ACK of a lone segment back as long


class RoundTrips:
    """Times are in seconds. ``least_s`` is the shortest that was seen."""

    __slots__ = ("_variance_s", "backoff", "least_s", "smoothed_s")

    def __init__(self, first_s: float) -> None:
        self.smoothed_s, self._variance_s, self.least_s = first_s, first_s / 2, first_s
        self.backoff = 0  # time-outs one after another

    def seen(self, round_trip_s: float) -> None:
        """One segment, which was sent once, was acknowledged after ``round_trip_s``."""
        self.least_s = min(self.least_s, round_trip_s)
        self._variance_s += (abs(round_trip_s - self.smoothed_s) - self._variance_s) / 4
        self.smoothed_s += (round_trip_s - self.smoothed_s) / 8

    @property
    def timeout_s(self) -> float:
        """Until everything that is on its way counts as lost; twice as long after each time-out."""
        least_s = self.smoothed_s + max(4 * self._variance_s, LEAST_VARIANCE_S)
        return min(MOST_TIMEOUT_S, math.ldexp(least_s, self.backoff))

    def probe_s(self, out: int) -> float:
        """Until a segment is sent to ask what has become of ``out`` segments that are on their way."""
        return min(self.timeout_s, 2 * self.smoothed_s + (_LONE_S if out == 1 else 0.0))

    @property
    def reordering_s(self) -> float:
        """How much later than another a segment may come before it counts as lost."""
        return self.least_s / 4
