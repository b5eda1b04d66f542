"""Congestion window of one TCP connection, in segments: slow start, congestion avoidance, what a loss leaves of it.

::

    window                       lost: x 0.7
      |          .-----''''/|    .---'''    cubic: C (t - K)^3 + W_max; reno: one segment a round trip
      |        /           |__.-'
      |    _ /  threshold: HyStart has seen the round trip grow, or a loss
      | _-'  slow start: doubles every round trip
      +--------------------------------------> t

Sources: slow start and reno: RFC 5681, 3.1; initial window: RFC 6928, 2; cubic: RFC 9438, 4.2 to 4.7 (RFC 8312
before it); growing only as far as the window is used: RFC 7661, as Linux does it (tcp_is_cwnd_limited).
"""

from __future__ import annotations

import math

INITIAL_WINDOW = 10
"""Segments of a fresh connection. Source: RFC 6928."""

BETA = {"cubic": 0.7, "reno": 0.5}
"""What a loss leaves of the window, by congestion control. Source: RFC 9438, 4.6; RFC 5681, Eq. (4)."""
_C = 0.4  # RFC 9438, 5.1
_UNKNOWN = 1 / 20  # of what is acked, cubic grows at least while no loss has told the capacity: Linux, bictcp_update
_LEAST = 2.0  # segments that a loss leaves: RFC 5681, Eq. (4)


class Window:
    """``segments`` may be on their way. ``threshold``: where slow start ends. Times are in seconds."""

    __slots__ = ("_algorithm", "_epoch_s", "_friendly", "_k_s", "_most", "_origin", "_start", "segments", "threshold")

    def __init__(self, algorithm: str = "cubic") -> None:
        self._algorithm, self.segments, self.threshold = algorithm, float(INITIAL_WINDOW), math.inf
        self._start: HyStart | None = HyStart() if algorithm == "cubic" else None
        self._most = 0.0  # W_max: what it was when segments were last lost; 0: unknown
        self._origin = 0.0  # where the curve is flat
        self._epoch_s = -1.0  # when congestion avoidance began; below 0: it has not
        self._k_s = self._friendly = 0.0

    @property
    def slow_start(self) -> bool:
        return self.segments < self.threshold

    def acked(self, count: int, now_s: float, round_trip_s: float, most_out: int, *, limited: bool) -> None:
        """Grow by ``count`` acknowledged segments, if the window was what ``limited`` the sender.

        In slow start it grows until twice ``most_out``, what was on its way at most.
        """
        if self.slow_start:
            if limited or self.segments < 2 * most_out:
                self.segments = min(self.segments + count, self.threshold)
        elif limited:
            if self._epoch_s < 0:
                self._begin_epoch(now_s)
            self._avoid(count, now_s - self._epoch_s, round_trip_s)

    def observe(self, count: int, acked: int, sent: int, now_s: float, round_trip_s: float) -> None:
        """``count`` segments were acknowledged after ``round_trip_s``: slow start may end (:class:`HyStart`)."""
        if self._start is not None and self._start.over(count, acked, sent, now_s, round_trip_s, self.segments):
            self._start = None  # found once, as slow start after a time-out has its threshold from the loss
            self.threshold = min(self.threshold, self.segments)

    def lost(self) -> None:
        """Segments were lost, and this was seen from what came after them."""
        beta = BETA[self._algorithm]
        # fast convergence, RFC 9438, 4.7: who had less than last time makes room
        self._most = self.segments * (1 + beta) / 2 if self.segments < self._most else self.segments
        self.threshold = self.segments = max(_LEAST, float(int(self.segments * beta)))  # whole, as in Linux
        self._epoch_s = -1.0

    def timed_out(self, *, again: bool = False) -> None:
        """Nothing has come for a retransmission time-out: begin with one segment (RFC 5681, 3.1).

        ``again``: nor has what the time-out before had sent again, of which the threshold is told already.
        """
        if not again:
            self.lost()
        self.segments, self._epoch_s = 1.0, -1.0
        self._most = 0.0  # Linux begins cubic anew (bictcp_state); RFC 9438, 4.8 leaves that open

    def quiet(self, for_s: float) -> None:
        """Nothing was on its way ``for_s``: the time of cubic stands still meanwhile (Linux, cubictcp_cwnd_event)."""
        if self._epoch_s >= 0:
            self._epoch_s += for_s

    def restart(self, quiet_s: float, timeout_s: float) -> None:
        """Slow start after idle: half for each ``timeout_s`` of quiet, not below the initial window (RFC 2861, 3.1)."""
        if quiet_s > timeout_s and self.threshold < math.inf:
            self.threshold = max(self.threshold, 0.75 * self.segments)
        while quiet_s > timeout_s and self.segments > INITIAL_WINDOW:
            self.segments = max(float(INITIAL_WINDOW), self.segments / 2)
            quiet_s -= timeout_s

    def _begin_epoch(self, now_s: float) -> None:
        self._epoch_s = now_s
        self._friendly = self.segments
        self._origin = max(self._most, self.segments)
        self._k_s = ((self._origin - self.segments) / _C) ** (1 / 3)  # Eq. (2), from where the window really is

    def _avoid(self, count: int, passed_s: float, round_trip_s: float) -> None:
        if self._algorithm == "reno":
            self.segments += count / self.segments
            return
        beta = BETA["cubic"]
        target = _C * (passed_s + round_trip_s - self._k_s) ** 3 + self._origin  # Eq. (1), one round trip on
        self._friendly += 3 * (1 - beta) / (1 + beta) * count / self.segments  # Eq. (4): what reno would have
        target = min(max(target, self.segments), 1.5 * self.segments)
        growth = (target - self.segments) / self.segments
        if not self._most:
            growth = max(growth, _UNKNOWN)
        self.segments = max(self.segments + growth * count, self._friendly)


class HyStart:
    """End of slow start before segments are lost: round trips grow, or ACKs come for half of one without a gap.

    Source: Ha and Rhee, Taming the elephants: New TCP slow start, Computer Networks 55(9), 2011, with the bounds that
    Linux has (tcp_cubic.c, hystart_update).
    """

    __slots__ = ("_last_s", "_least_s", "_round_end", "_round_least_s", "_samples", "_start_s")

    FROM = 16  # segments of window
    SAMPLES = 8  # round trips at the begin of a round of which the shortest counts
    GROWTH_S = (0.004, 0.016)  # an eighth of the shortest round trip, at least and at most
    GAP_S = 0.002  # between two ACKs, at most

    def __init__(self) -> None:
        self._least_s = math.inf
        self._round_end = -1
        self._start_s = self._last_s = 0.0
        self._round_least_s, self._samples = math.inf, 0

    def over(self, count: int, acked: int, sent: int, now_s: float, round_trip_s: float, window: float) -> bool:
        """Whether slow start is, after these ``count`` segments. ``acked``, ``sent``: positions in the stream."""
        self._least_s = min(self._least_s, round_trip_s)
        if acked > self._round_end:  # what was sent when the round began is acknowledged
            self._round_end, self._start_s, self._last_s = sent, now_s, now_s
            self._round_least_s, self._samples = math.inf, 0
        if self._samples < self.SAMPLES:
            self._samples += max(1, count // 2)  # an ACK for two segments
            self._round_least_s = min(self._round_least_s, round_trip_s)
        if now_s - self._last_s <= self.GAP_S * count:
            self._last_s = now_s
        if window < self.FROM:
            return False
        least_s, most_s = self.GROWTH_S
        late_s = self._least_s + min(max(self._least_s / 8, least_s), most_s)
        delayed = self._samples >= self.SAMPLES and self._round_least_s > late_s
        return delayed or self._last_s - self._start_s > self._least_s / 2
