"""Estimate of a simulated link by what it delivered lately: what a sender could know, not what the model says.

::

    header read   payload read                  the rate is payload / (last byte - header), over the last LAST messages
        |==============|                        that their sender has heard of by now
                       |~~~acknowledged~~~>|
"""

from __future__ import annotations

from collections import deque

from e2c_dl.strategies.base import LinkEstimate
from e2c_dl.worlds.lately import LAST
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES


class Delivered:
    """The last messages that a link delivered."""

    def __init__(self) -> None:
        self._last: deque[tuple[int, int, int]] = deque(maxlen=2 * LAST)  # arrived, ns of its payload, bytes of it
        self.note = self._last.append

    def estimate(self, now_ns: int, there_ns: int, back_ns: int) -> LinkEstimate | None:
        """By what is acknowledged at ``now_ns``; ``there_ns`` and ``back_ns``: what the ways take now."""
        carried = [each for each in self._last if each[1] > 0 and each[2] > MESSAGE_HEADER_BYTES]
        known = [each for each in carried if each[0] + back_ns <= now_ns][-LAST:]
        if not known:
            return None
        nbytes, busy_ns = (sum(each[place] for each in known) for place in (2, 1))
        return LinkEstimate(
            rate_bps=8e9 * (nbytes - len(known) * MESSAGE_HEADER_BYTES) / busy_ns,
            round_trip_s=(there_ns + back_ns) / 1e9, age_s=(now_ns - known[-1][0] - back_ns) / 1e9,
        )  # fmt: skip
