"""The time of day beside a host's own clock, by which other programs' traces are placed: pairs kept while both go.

::

    time of day - own |             .----    a pair is kept first and last and, where the two move apart, before and
                      |             |        after; between pairs of one stretch the difference is a straight line.
                      |----.__.-----'        Where it leaps, somebody set the time of day: a stretch begins anew
                      '------------------ own clock

A leap is known to within the two looks around it. A time of day that was shown twice, as the clock was set back, is
taken for the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

EVERY_S = 2.0
"""Between two looks."""
APART_NS = 100_000
"""By how much the two move apart until a pair is kept."""
MOST_PAIRS = 128
"""More are thinned out: twice as far apart, as often as it takes."""
_LEAP_NS, _LEAP_SHARE = 1_000_000, 1e-3  # no daemon that slews moves a clock further, but for chrony told to hurry
_TRIES = 3

Pair = tuple[int, int]
"""(own clock, time of day since 1970), ns."""
Times = npt.NDArray[np.int64]


class PairsKept:
    """Looks at both clocks now and then. Threads look one after the other."""

    def __init__(self, own: Callable[[], int], of_day: Callable[[], int] = time.time_ns) -> None:
        self._own, self._of_day = own, of_day
        self._pairs: list[Pair] = []
        self._newest: Pair | None = None
        self._apart_ns = APART_NS

    def look(self) -> bool:
        """Look; whether a pair was kept but for the first, since the two have moved apart."""
        before, self._newest = self._newest, self._pair()
        if before is None:
            self._pairs.append(self._newest)
        elif _apart_ns(self._pairs[-1], self._newest) > self._apart_ns:
            if before != self._pairs[-1]:
                self._pairs.append(before)
            self._pairs.append(self._newest)
            while len(self._pairs) > MOST_PAIRS:
                self._thin()
            return True
        return False

    def pairs(self) -> tuple[Pair, ...]:
        """In order of time, with the newest."""
        newest = self._newest
        return tuple(self._pairs) if newest is None or newest in self._pairs else (*self._pairs, newest)

    def _pair(self) -> Pair:
        """Of some readings the one that took least: a thread may be held up in between."""
        return min(self._reading() for _ in range(_TRIES))[1]

    def _reading(self) -> tuple[int, Pair]:
        before_ns, of_day_ns, after_ns = self._own(), self._of_day(), self._own()
        return after_ns - before_ns, ((before_ns + after_ns) // 2, of_day_ns)

    def _thin(self) -> None:
        """Leave out pairs that tell little: no leap."""
        self._apart_ns *= 2
        kept = self._pairs[:1]
        for pair, following in zip(self._pairs[1:], [*self._pairs[2:], self._pairs[-1]], strict=True):
            if max(_apart_ns(kept[-1], pair), _apart_ns(pair, following)) > self._apart_ns:
                kept.append(pair)
        self._pairs = kept


class TimesOfDay:
    """Puts times of day on a host's own clock, by ``pairs`` in order of its own time, at least one."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        stretches: list[list[Pair]] = [[pairs[0]]]
        for before, pair in pairwise(pairs):
            passed_ns = pair[0] - before[0]
            if abs(pair[1] - before[1] - passed_ns) > _LEAP_NS + _LEAP_SHARE * passed_ns:
                stretches.append([])
            stretches[-1].append(pair)
        self._stretches = [np.array(stretch, dtype=np.int64).T for stretch in stretches]

    def own_ns(self, of_day_ns: Times) -> Times:
        """Each of ``of_day_ns`` on the own clock; beyond the pairs both go alike."""
        stretches = self._stretches
        # What each would have shown by the next look, had it not leapt.
        ends_ns = [this[1, -1] + after[0, 0] - this[0, -1] for this, after in pairwise(stretches)]
        found = _placed(stretches[-1], of_day_ns)
        for shown in (False, True):  # what a stretch has shown is of no other; the first one holds
            for stretch, end_ns in reversed(list(zip(stretches, ends_ns, strict=False))):
                of_it = (of_day_ns <= end_ns) & (not shown or of_day_ns >= stretch[1, 0])
                found = np.where(of_it, _placed(stretch, of_day_ns), found)
        return found


def _placed(stretch: Times, of_day_ns: Times) -> Times:
    own_ns, shown_ns = stretch
    ahead_ns = own_ns - shown_ns
    # Floats hold differences exactly, not times since 1970.
    more_ns = np.interp(of_day_ns - shown_ns[0], shown_ns - shown_ns[0], ahead_ns - ahead_ns[0])
    return np.asarray(of_day_ns + ahead_ns[0] + np.rint(more_ns).astype(np.int64))


def _apart_ns(one: Pair, other: Pair) -> int:
    return abs(other[1] - one[1] - (other[0] - one[0]))
