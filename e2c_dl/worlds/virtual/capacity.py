"""How many bits a link can carry from one moment to another, when its rate changes over time.

::

    rate   |----10----|    |--5--|---10---...      steps: (from when, bits per ns), constant until the next
                      | 0  |                       a link that is down has rate 0
    carried(t) = integral of rate from 0 to t      finish and start are its inverse
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from e2c_dl.worlds.virtual.kernel import FOREVER

UNLIMITED_BPS = 1e18
"""The rate of a link without one: a message of a gigabyte takes 8 ns."""

Step = tuple[int, float]
"""from when (ns), bits per ns."""


def steps_of(
    rate_bps: float, schedule: Iterable[tuple[float, float]], down: Iterable[tuple[float, float]]
) -> tuple[Step, ...]:
    """Steps from 0 on: ``rate_bps``, then as ``schedule`` (s, bit/s) says, and 0 during ``down`` (from s, until s)."""
    rates = [(0, rate_bps / 1e9), *((round(time_s * 1e9), bps / 1e9) for time_s, bps in schedule)]
    outages = [(round(begin_s * 1e9), min(FOREVER, round(end_s * 1e9))) for begin_s, end_s in down]
    times = sorted({time for time, _ in rates} | {time for outage in outages for time in outage if time < FOREVER})
    return tuple((time, _rate_at(rates, outages, time)) for time in times)


def at_most(steps: Sequence[Step], bounds: Sequence[Step]) -> tuple[Step, ...]:
    """The lower of both rates at any time; before its first step a bound is not one."""
    times = sorted({time for time, _ in (*steps, *bounds)})
    return tuple((time, min(_value_at(steps, time), _value_at(bounds, time))) for time in times)


class Capacity:
    """Integrates steps, the first of which is at 0. ``constant`` is the rate if there is but one."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._times = [time for time, _ in steps]
        self._rates = [rate for _, rate in steps]
        self._carried = [0.0]
        for index in range(1, len(steps)):
            lasted_ns = self._times[index] - self._times[index - 1]
            self._carried.append(self._carried[-1] + lasted_ns * self._rates[index - 1])
        self.constant = self._rates[0] if len(steps) == 1 and self._rates[0] > 0 else None

    def rate_at(self, time_ns: int) -> float:
        """Bits per ns."""
        return self._rates[bisect_right(self._times, time_ns) - 1]

    def next_change_ns(self, time_ns: int) -> int:
        """When the rate changes next, after ``time_ns``."""
        index = bisect_right(self._times, time_ns)
        return self._times[index] if index < len(self._times) else FOREVER

    def finish_ns(self, start_ns: int, bits: float) -> int:
        """When ``bits`` that begin to leave at ``start_ns`` have left."""
        if start_ns >= FOREVER:
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
        index = bisect_right(self._times, time_ns) - 1
        return self._carried[index] + (time_ns - self._times[index]) * self._rates[index]

    def _reached(self, carried: float, earliest_ns: int) -> int:
        """The first moment from ``earliest_ns`` on at which ``carried`` bits have been carried since 0."""
        index = max(bisect_right(self._times, earliest_ns) - 1, 0)
        while index + 1 < len(self._times) and self._carried[index + 1] < carried:
            index += 1
        missing = carried - self._carried[index]
        if self._rates[index] <= 0:
            return self._times[index] if missing <= 0 else FOREVER
        return self._times[index] + int(missing / self._rates[index] + 0.5)


def _rate_at(rates: Sequence[Step], outages: Sequence[tuple[int, int]], time_ns: int) -> float:
    if any(begin <= time_ns < end for begin, end in outages):
        return 0.0
    return _value_at(rates, time_ns)


def _value_at(steps: Sequence[Step], time_ns: int) -> float:
    past = [rate for time, rate in steps if time <= time_ns]
    return past[-1] if past else UNLIMITED_BPS / 1e9
