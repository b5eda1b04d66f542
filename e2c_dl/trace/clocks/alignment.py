"""A clock's alignment from exchanges with the reference clock: bounds that hold, steps that are noticed.

An exchange bounds the offset rigorously, whatever the two ways take: between its own two times the reference told
one. A clock that goes evenly has one line of offsets, and that passes between the bounds of every exchange. Slow
answers leave room and do not mislead; of all lines that pass, the middle is taken, the room is the uncertainty::

    offset   |   |    |  .-'|          a stretch: its exchanges (bars) and the lines that pass (between the dashes)
             | - | .--|-'   |  |       at either end: least and most offset of any such line
             |.--|'   | - - |  |       no line passes beyond: it stepped, or changed its pace, and a stretch begins anew
             |   |    |        |

Source: S. B. Moon, P. Skelly, D. Towsley, Estimation and removal of clock skew from network delay measurements,
INFOCOM 1999 (a linear programme); its bounds here are the tangents between two convex hulls, kept while exchanges
come in.

A step lies between two exchanges; meanwhile the clock may have been on either side of it. That window, and how far
times in it may be off, is said apart from the rest.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from e2c_dl.trace.model import EVEN_DRIFT, ClockAlignment, ClockStep

MOST_DRIFT = EVEN_DRIFT
DRIFT_APART_NS = 1_000_000_000
"""Exchanges that are nearer to each other tell no drift."""
GRAIN_NS = 500
"""By so much a clock that goes evenly may seem not to: what its readings are worth."""
STEP_APART = 2.0
"""Times the uncertainty elsewhere: what is less open is no window of its own."""

Point = tuple[int, float]


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Offset of the reference clock from one's own (reference = own + offset_ns), at ``at_ns`` of one's own."""

    offset_ns: int
    at_ns: int
    uncertainty_ns: int  # half the round trip


class Stretch:
    """Exchanges, in order of one's own time, that one even clock explains. Grows by :meth:`add`."""

    def __init__(self, first: Exchange) -> None:
        self._origin = first
        self.begin_ns = self.end_ns = first.at_ns
        self.least_uncertainty_ns = first.uncertainty_ns
        self._above: list[Point] = []  # the lower hull of the upper bounds, relative to the first exchange
        self._below: list[Point] = []
        self.add(first)

    def explains(self, each: Exchange) -> bool:
        """Whether an even clock gives ``each`` as well; not if one's own clock was set back."""
        if each.at_ns < self.end_ns:
            return False
        least, most = self.bounds_ns(each.at_ns)
        open_ns = _open_ns(each)
        return each.offset_ns - open_ns <= most and least <= each.offset_ns + open_ns

    def add(self, each: Exchange) -> None:
        """``each``, which it explains, is one of its exchanges."""
        at_ns, offset_ns, open_ns = (
            each.at_ns - self._origin.at_ns,
            each.offset_ns - self._origin.offset_ns,
            _open_ns(each),
        )
        _extend(self._above, (at_ns, offset_ns + open_ns), -1)
        _extend(self._below, (at_ns, offset_ns - open_ns), 1)
        self.end_ns = each.at_ns
        self.least_uncertainty_ns = min(self.least_uncertainty_ns, each.uncertainty_ns)

    def grown(self, exchanges: Sequence[Exchange]) -> Stretch | None:
        """It with ``exchanges``, in order of time, as well; None, if no even clock gives them all."""
        grown = copy.copy(self)
        grown._above, grown._below = list(self._above), list(self._below)
        for each in exchanges:
            if not grown.explains(each):
                return None
            grown.add(each)
        return grown

    def bounds_ns(self, own_ns: int) -> tuple[float, float]:
        """Least and most offset at ``own_ns``, no later than its first exchange or no earlier than its last."""
        at_ns = own_ns - self._origin.at_ns
        mirrored = [(at, -offset) for at, offset in self._below], [(at, -offset) for at, offset in self._above]
        least, most = -_most(at_ns, *mirrored), _most(at_ns, self._above, self._below)
        return self._origin.offset_ns + least, self._origin.offset_ns + most

    def line(self, until_ns: int) -> tuple[Point, Point]:
        """(own clock, offset) at its beginning and at ``until_ns``; level if its exchanges tell no drift."""
        ends = (self.begin_ns, until_ns)
        if self.end_ns - self.begin_ns < DRIFT_APART_NS:
            level_ns = _middle(min((self.bounds_ns(each) for each in (self.begin_ns, self.end_ns)), key=_width))
            return (ends[0], level_ns), (ends[1], level_ns)
        begin_ns, end_ns = (_middle(self.bounds_ns(each)) for each in (self.begin_ns, self.end_ns))
        drift = (end_ns - begin_ns) / (self.end_ns - self.begin_ns)
        return (ends[0], begin_ns), (ends[1], begin_ns + drift * (until_ns - self.begin_ns))

    def uncertainty_ns(self, until_ns: int) -> float:
        """How far its line may be off from its beginning to ``until_ns``.

        An even clock's distance from a line is greatest at one of its ends. It is never said to be less than half the
        shortest round trip: real clocks wander a little, which a line through many exchanges hides.
        """
        return max(self.least_uncertainty_ns, *(self.off_ns(point) for point in self.line(until_ns)))

    def off_ns(self, point: Point) -> float:
        """How far its clock may be from an offset at a time that is not within it."""
        least, most = self.bounds_ns(point[0])
        return max(most - point[1], point[1] - least)


class Alignment:
    """What a clock did, as far as the exchanges tell that :meth:`add` was given."""

    def __init__(self, exchanges: Iterable[Exchange] = ()) -> None:
        self._stretches: list[Stretch] = []
        self._shown_before: list[Stretch] = []  # of a clock set back, which shows the same times again
        for each in exchanges:
            self.add(each)

    def explains(self, exchanges: Iterable[Exchange]) -> bool:
        """Whether the clock seems to go on as it did."""
        return not self._stretches or all(self._stretches[-1].explains(each) for each in exchanges)

    def add(self, *together: Exchange) -> None:
        """One more exchange, or some that follow each other closely, later than those before.

        Where one of these shows that the clock stepped, it did so before all of them, if that explains them as well:
        one that was answered late may seem to go on as before.
        """
        grown = self._stretches[-1].grown(together) if self._stretches else None
        if grown is not None:
            self._stretches[-1] = grown
            return
        fresh = Stretch(together[0]).grown(together[1:])
        if fresh is None:
            for each in together:
                self.add(each)
            return
        while self._stretches and self._stretches[-1].end_ns >= fresh.begin_ns:
            self._shown_before.append(self._stretches.pop())
        self._stretches.append(fresh)

    def value(self, until_ns: int | None = None) -> ClockAlignment:
        """The alignment, whose uncertainty holds up to the last exchange, or ``until_ns`` after it.

        Of a clock that was set back it holds up to the latest time that it showed at any exchange.
        """
        if not self._stretches:
            return ClockAlignment()
        ends = [each.end_ns for each in self._stretches]
        ends[-1] = max(ends[-1], until_ns or ends[-1], *(each.end_ns for each in self._shown_before))
        lines = [stretch.line(end) for stretch, end in zip(self._stretches, ends, strict=True)]
        ambiguous_ns = max((_apart_ns(each, lines) for each in self._shown_before), default=0.0)
        usual_ns = ambiguous_ns + max(map(Stretch.uncertainty_ns, self._stretches, ends))
        gaps = [
            (before.end_ns, after.begin_ns, ambiguous_ns + max(before.off_ns(to[0]), after.off_ns(since[1])))
            for (before, after), (since, to) in zip(pairwise(self._stretches), pairwise(lines), strict=True)
        ]
        usual_ns = max([usual_ns, *(open_ns for *_, open_ns in gaps if open_ns <= STEP_APART * usual_ns)])
        steps = tuple(
            ClockStep(from_ns=begin, to_ns=end, uncertainty_ns=math.ceil(open_ns))
            for begin, end, open_ns in gaps
            if open_ns > usual_ns
        )
        return _told(lines, math.ceil(usual_ns), steps)


def align(*exchanges: Exchange) -> ClockAlignment:
    """The alignment that one or more exchanges, in order of time, give: a line if the clock went evenly, else knots."""
    return Alignment(exchanges).value()


def telling(exchanges: Sequence[Exchange]) -> tuple[Exchange, ...]:
    """Of exchanges that follow each other closely those that bound the offset best: from below and from above.

    The least delayed question need not belong to the least delayed answer.
    """
    below = max(exchanges, key=lambda each: each.offset_ns - each.uncertainty_ns)
    above = min(exchanges, key=lambda each: each.offset_ns + each.uncertainty_ns)
    return tuple(sorted({below, above}, key=lambda each: each.at_ns))


def _apart_ns(earlier: Stretch, lines: Sequence[tuple[Point, Point]]) -> float:
    """How far times that a clock showed in ``earlier``, before it was set back, may be off when ``lines`` align them.

    Both are straight between the ends of either, where they are furthest apart.
    """
    (begin_ns, offset_ns), (end_ns, end_offset_ns) = earlier.line(earlier.end_ns)
    at_ns = np.array([begin_ns, end_ns, *(at for line in lines for at, _ in line if begin_ns < at < end_ns)])
    told_ns = _told(lines, 0, ()).align(at_ns) - at_ns
    # Relative to one time and offset: floats hold differences exactly, not times since a machine has booted.
    own_ns = np.interp(at_ns - begin_ns, [0, end_ns - begin_ns], [0.0, end_offset_ns - offset_ns])
    return float(np.abs(told_ns - offset_ns - own_ns).max()) + earlier.uncertainty_ns(earlier.end_ns)


def _told(lines: Sequence[tuple[Point, Point]], usual_ns: int, steps: tuple[ClockStep, ...]) -> ClockAlignment:
    (begin_ns, offset_ns), (end_ns, end_offset_ns) = lines[0][0], lines[-1][1]
    knots: list[tuple[int, int]] = []
    for at_ns, at_offset_ns in (point for line in lines for point in line):
        if not knots or at_ns > knots[-1][0]:
            knots.append((at_ns, round(at_offset_ns)))
    return ClockAlignment(
        offset_ns=round(offset_ns),
        # Of knots none is told: over a step it would be none of a clock.
        drift=(end_offset_ns - offset_ns) / (end_ns - begin_ns) if end_ns > begin_ns and len(lines) == 1 else 0.0,
        at_ns=begin_ns,
        uncertainty_ns=max([usual_ns, *(step.uncertainty_ns for step in steps)]),
        knots=tuple(knots) if len(lines) > 1 else (),
        usual_uncertainty_ns=usual_ns if steps else None,
        steps=steps,
    )


def _open_ns(each: Exchange) -> float:
    """The room that ``each`` leaves to either side, also while its clock drifts between question and answer."""
    return each.uncertainty_ns * (1 + MOST_DRIFT) + GRAIN_NS


def _extend(hull: list[Point], point: Point, side: int) -> None:
    """Add ``point``, no earlier than all others, to the ``hull`` of what is above (-1: the lower one) or below (1)."""
    if hull and hull[-1][0] == point[0]:
        if (point[1] - hull[-1][1]) * side <= 0:
            return
        hull.pop()
    while len(hull) > 1 and side * _turn(hull[-2], hull[-1], point) >= 0:
        hull.pop()
    hull.append(point)


def _turn(a: Point, b: Point, c: Point) -> float:
    """Above 0 if b is below the line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _most(at_ns: int, above: Sequence[Point], below: Sequence[Point]) -> float:
    """The most that a line can be at ``at_ns``, outside of or at an end of both hulls, which it passes between."""
    most = math.inf
    for when_ns, offset_ns in above:
        ahead_ns = at_ns - when_ns
        # It cannot rise faster from here than it did from any lower bound on the far side.
        behind = [(offset_ns - low) / abs(when_ns - at) for at, low in below if (when_ns - at) * ahead_ns > 0]
        most = min(most, offset_ns + min([MOST_DRIFT, *behind]) * abs(ahead_ns))
    return most


def _middle(bounds_ns: tuple[float, float]) -> float:
    return (bounds_ns[0] + bounds_ns[1]) / 2


def _width(bounds_ns: tuple[float, float]) -> int:
    return round(bounds_ns[1] - bounds_ns[0])
