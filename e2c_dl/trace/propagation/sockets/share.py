"""How many samples an iteration may have, however long it is and however many connections move in it.

::

    begins .x.x.x.x.x.x...x.......x...............x....... ends    x: a round that is kept, of those that found movement
           evenly, as the last iteration had them,  then after     those that have moved since it began, always
           up to three quarters of the room         twice the time

An iteration has at most :data:`MOST_SAMPLES`, those of its end included, as long as no more connections than that move
in it: its end is always told. One that goes on for much longer than the last is told of after twice the time again and
again, whatever the room: it may be the only one, or be cut off. Counters lose nothing by that: they tell the sum, and
no longer so well when it came.
"""

from __future__ import annotations

MOST_SAMPLES = 24
"""Of an iteration, of some 270 bytes each: with 50 spans beside them it stays below 10 kB."""

LONG = 100
"""Rounds, some 10 s: no iteration of fewer has more samples than there is room for."""

_EVENLY = 0.75  # of the room within an iteration that is like the last one


class Share:
    """What of the rounds within iterations is kept; for one thread."""

    def __init__(self) -> None:
        self._pace = 1.0  # of rounds that found movement one in so many is kept
        self._evenly = _EVENLY * MOST_SAMPLES  # samples kept within, until they are to be rarer
        self._kept = self._found = 0  # samples within this iteration
        self._next = 0.0
        self._beyond = LONG  # the next round that is kept without room for it
        self._rounds = 0  # that found movement

    def takes(self, moving: int, active: int) -> bool:
        """Whether a round within is kept that found ``moving`` connections, ``active`` having moved by now."""
        if not moving:
            return True
        self._rounds += 1
        self._found += moving
        full = self._kept + moving + active > MOST_SAMPLES
        if self._rounds < (self._beyond if full else self._next):
            return False
        self._kept += moving
        self._beyond = max(self._beyond, 2 * self._rounds)
        if self._kept >= self._evenly:
            self._next = 2 * self._rounds
        else:
            self._next = max(self._next + self._pace, self._rounds)
        return True

    def ended(self, active: int) -> None:
        """An iteration is over in which ``active`` connections moved: the next is expected to be like it."""
        self._evenly = _EVENLY * max(0, MOST_SAMPLES - active)
        self._pace = max(1.0, self._found / self._evenly) if self._evenly else 1.0
        self._beyond = max(LONG, 2 * self._rounds)
        self._kept = self._found = self._rounds = 0
        self._next = self._pace
