"""What a link carries while something is due, as its receiver sees it, and how its sender hears of that.

::

    came              |head, first part|   rest of the message   |        next message ...
    receiver                           |--- waits for it --------|  idle  |
                                       '-------- counted --------'

Counted is what comes after all that had come was read, and how long that takes: a receiver that was late finds more at
once, which says nothing, and counts from then on. After each message of which something was counted, the receiver
writes the sums to its end of the connection: the only bytes that go that way. So the sender knows what arrived, also of
messages that are over before TCP's window is full: of those its own kernel tells bursts and round trips.
"""

from __future__ import annotations

import struct
import time
from collections import deque

from e2c_dl.errors import TrainingError
from e2c_dl.worlds.lately import LAST

LEAST_BYTES = 1 << 13  # below, what the receiver takes to wake up is as long as what it waits for
_SUMS = struct.Struct("<qq")  # bytes, ns
REPORT_BYTES = _SUMS.size


class ReportError(TrainingError):
    """Bytes that are no report of a receiver."""


class Carried:
    """The receiver's side: sums of bytes that were waited for, and of the time that it took."""

    def __init__(self) -> None:
        self._bytes = self._ns = 0
        self._since: tuple[int, int] | None = None  # bytes that had come, and when: all were read, and more were due
        self._told_bytes = 0

    def drained(self, came_bytes: int, *, due: bool) -> None:
        """All ``came_bytes`` so far are read. ``due``: more must come, of a message that has begun."""
        now_ns = time.monotonic_ns()
        if self._since is not None and came_bytes - self._since[0] >= LEAST_BYTES:
            self._bytes += came_bytes - self._since[0]
            self._ns += now_ns - self._since[1]
        self._since = (came_bytes, now_ns) if due else None

    def report(self) -> bytes:
        """The sums, packed; empty, if they are those of the last report."""
        if self._bytes == self._told_bytes:
            return b""
        self._told_bytes = self._bytes
        return _SUMS.pack(self._bytes, self._ns)


class Heard:
    """The sender's side: the last reports."""

    def __init__(self) -> None:
        self._sums: deque[tuple[int, int]] = deque([(0, 0)], maxlen=LAST + 1)
        self._heard_s = 0.0

    def take(self, report: bytes) -> None:
        """Hear of ``report``, REPORT_BYTES long. Raises: ReportError, if it is none."""
        carried_bytes, ns = _SUMS.unpack(report)
        if carried_bytes <= self._sums[-1][0] or ns <= self._sums[-1][1]:
            raise ReportError("it sent what is no report of what it received")
        self._sums.append((carried_bytes, ns))
        self._heard_s = time.monotonic()

    def rate(self) -> tuple[float, float] | None:
        """(bits per second, of the last LAST reports together; seconds since the last); None: there was none."""
        (from_bytes, from_ns), (to_bytes, to_ns) = self._sums[0], self._sums[-1]
        if to_ns == from_ns:
            return None
        return 8e9 * (to_bytes - from_bytes) / (to_ns - from_ns), time.monotonic() - self._heard_s
