"""Capacity of a link whose rate changes over time: how many bits it carries from one moment to another.

::

    rate   |----10----|    |--5--|---10---...      steps: (from when, bits per ns), constant until the next
                      | 0  |                       a link that is down has rate 0
    carried(t) = integral of rate from 0 to t      finish and start are its inverse

Steps may go on for ever, as those of a periodic schedule do: they are asked for as far as time has come.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from e2c_dl.worlds.virtual.kernel import FOREVER

UNLIMITED_BPS = 1e18
"""The rate of a link without one: a message of a gigabyte takes 8 ns."""

Step = tuple[int, float]
"""from when (ns), bits per ns."""


class Capacity:
    """Integrates steps, the first of which is at 0. ``constant`` is the rate if there is but one."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._source = iter(steps)
        self._times: list[int] = []
        self._rates: list[float] = []
        self._carried: list[float] = []  # bits until each step, so that no sum is taken twice
        more = self._more() and self._more()  # only a second step tells that the rate is not constant
        self.constant = self._rates[0] if not more and self._rates[0] > 0 else None  # nothing divides by 0

    def rate_at(self, time_ns: int) -> float:
        """Bits per ns."""
        if self.constant is not None:
            return self.constant
        return self._rates[self._index(time_ns)]

    def next_change_ns(self, time_ns: int) -> int:
        if self.constant is not None:
            return FOREVER
        index = self._index(time_ns) + 1
        return self._times[index] if index < len(self._times) else FOREVER

    @property
    def last_change_ns(self) -> int:
        """When the rate changed for the last time, as far as it was asked for."""
        return self._times[-1]

    def finish_ns(self, start_ns: int, bits: float) -> int:
        """When ``bits`` that begin to leave at ``start_ns`` have left."""
        if start_ns >= FOREVER:  # behind what never leaves, nothing leaves
            return FOREVER
        if self.constant is not None:
            return start_ns + int(bits / self.constant + 0.5)
        return max(start_ns, self._reached(self._carried_until(start_ns) + bits, start_ns))

    def begin_ns(self, finish_ns: int, bits: float) -> int:
        """When the last ``bits`` of what had left at ``finish_ns`` began to leave; not before 0."""
        if finish_ns >= FOREVER:
            return FOREVER
        if self.constant is not None:
            return max(0, finish_ns - int(bits / self.constant + 0.5))
        return min(finish_ns, self._reached(max(0.0, self._carried_until(finish_ns) - bits), 0))

    def _carried_until(self, time_ns: int) -> float:
        index = self._index(time_ns)
        return self._carried[index] + (time_ns - self._times[index]) * self._rates[index]

    def _reached(self, carried: float, earliest_ns: int) -> int:
        """The first moment from ``earliest_ns`` on at which ``carried`` bits have been carried since 0."""
        index = self._index(earliest_ns)
        while (index + 1 < len(self._times) or self._more()) and self._carried[index + 1] < carried:
            index += 1
        missing = carried - self._carried[index]
        if self._rates[index] <= 0:
            return self._times[index] if missing <= 0 else FOREVER  # at rate 0 nothing more is carried
        return self._times[index] + int(missing / self._rates[index] + 0.5)

    def _index(self, time_ns: int) -> int:
        """Of the step that ``time_ns`` is in; the one after it is known, if there is one."""
        while self._times[-1] <= time_ns and self._more():  # no further than asked: steps may be endless
            pass
        return max(0, bisect_right(self._times, time_ns) - 1)

    def _more(self) -> bool:
        """Whether there was another step to take from the source."""
        step = next(self._source, None)
        if step is None:
            return False
        time, rate = step
        carried = self._carried[-1] + (time - self._times[-1]) * self._rates[-1] if self._times else 0.0
        self._times.append(time)
        self._rates.append(rate)
        self._carried.append(carried)
        return True
