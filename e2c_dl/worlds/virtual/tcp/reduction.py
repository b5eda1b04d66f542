"""Reduction of what is on its way after a loss: recovery sends in proportion to what arrives."""

from __future__ import annotations

import math


class Reduction:
    """Proportional rate reduction: what recovery sends, from ``before`` segments on their way to ``after``.

    Source: RFC 6937, 3.1.
    """

    __slots__ = ("_after", "_before", "delivered", "sent")

    def __init__(self, before: int, after: float) -> None:
        self._before, self._after = max(1, before), after
        self.delivered = self.sent = 0

    def room(self, out: int) -> int:
        """How many segments may be sent while ``out`` are on their way; the first goes at once."""
        if out > self._after:
            room = math.ceil(self.delivered * self._after / self._before) - self.sent
        else:
            room = min(int(self._after) - out, max(self.delivered - self.sent, 0) + 1)
        return max(room, 0 if self.sent else 1)
