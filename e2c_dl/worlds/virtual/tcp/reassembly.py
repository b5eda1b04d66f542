"""What the receiver of a stream of segments has of it, in whatever order it came.

::

    0 1 2 3 4 5 6 7 8        complete: 3, everything before it is there
    =======   ===   =        missing(0, 9): (3, 4), (6, 7)
"""

from __future__ import annotations

from e2c_dl.ranges import union

Range = tuple[int, int]
"""(first segment, the one behind the last)."""


class Reassembly:
    """Everything before ``complete`` is there, and pieces after it."""

    __slots__ = ("_ahead", "complete")

    def __init__(self) -> None:
        self.complete = 0
        self._ahead: list[Range] = []

    def add(self, first: int, end: int) -> None:
        """These have come, maybe again."""
        if first <= self.complete:
            self.complete = max(self.complete, end)
        else:
            self._ahead = union([*self._ahead, (first, end)])
        while self._ahead and self._ahead[0][0] <= self.complete:
            self.complete = max(self.complete, self._ahead.pop(0)[1])

    def missing(self, first: int, end: int) -> list[Range]:
        """What of these segments is not there."""
        found, at = [], max(first, self.complete)
        for begin, stop in self._ahead:
            if begin >= end:
                break
            if begin > at:
                found.append((at, begin))
            at = max(at, stop)
        return [*found, (at, end)] if at < end else found
