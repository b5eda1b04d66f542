"""How many samples an iteration may have, however long it is and however many connections move in it.

::

    begins .x.x.x.x.x.x...x...x...x.......x............... ends    x: a round that is kept, of those that found movement
           evenly, as the last iteration had them,  then ever   those that have moved since it began, always
           up to three quarters of the room         more rarely

An iteration has at most :data:`MOST_SAMPLES`, those of its end included, as long as no more connections than that move
in it: its end is always told. Counters lose nothing by that: they tell the sum, and no longer so well when it came.
"""

from __future__ import annotations

MOST_SAMPLES = 24
"""Of an iteration, of some 270 bytes each: with 50 spans beside them it stays below 10 kB."""

_EVENLY = 0.75  # of the room within an iteration that is like the last one


class Share:
    """What of the rounds within iterations is kept; for one thread."""

    def __init__(self) -> None:
        self._pace = 1.0  # of rounds that found movement one in so many is kept
        self._slower_at = _EVENLY * MOST_SAMPLES  # samples kept within, when the next are to be rarer
        self._kept = self._found = 0  # samples within this iteration
        self._next = 0.0
        self._rounds = 0  # that found movement

    def takes(self, moving: int, active: int) -> bool:
        """Whether a round within is kept that found ``moving`` connections, ``active`` having moved by now."""
        if not moving:
            return True
        self._rounds += 1
        self._found += moving
        if self._rounds < self._next or self._kept + moving + active > MOST_SAMPLES:
            return False
        self._kept += moving
        if self._kept >= self._slower_at:
            self._pace *= 2
            self._slower_at = (self._kept + MOST_SAMPLES - active) / 2
        self._next = max(self._next + self._pace, self._rounds)
        return True

    def ended(self, active: int) -> None:
        """An iteration is over in which ``active`` connections moved: the next is expected to be like it."""
        evenly = _EVENLY * max(0, MOST_SAMPLES - active)
        self._pace = max(1.0, self._found / evenly) if evenly else 1.0
        self._slower_at = evenly
        self._kept = self._found = self._rounds = 0
        self._next = self._pace
