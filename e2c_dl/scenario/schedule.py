"""A value that changes over time: steps, ramps, periods and recorded traces are one thing.

::

    value   |      .---.                points (0, a) (t1, b) (t2, a)         steps: each holds until the next
            |  ----'   '-----           ramp=True                             straight lines between the points
            '------------------> t      period_s=P                            after P seconds it begins again

Seconds count from the moment at which training begins. Before that, and without a period after the last point, the
first and the last value hold. Pure values.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from e2c_dl.errors import InputError

RAMP_STEP_S = 0.1
"""A ramp is put in force in steps of this length: no emulator changes a rate continuously."""

SAME_S = 1e-9
"""Moments that are closer are one: sums of floats land beside the moment that was asked for."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """``points``: (seconds, value), times rising from 0. Raises: InputError if they are not."""

    points: tuple[tuple[float, float], ...]
    ramp: bool = False
    period_s: float | None = None

    def __post_init__(self) -> None:
        times = [time_s for time_s, _ in self.points]
        if not times or times[0] != 0 or any(not a < b < math.inf for a, b in pairwise(times)):
            raise InputError(f"schedule: its times are {times}; begin at 0 and let them rise")
        if self.period_s is not None and not times[-1] < self.period_s < math.inf:
            raise InputError(f"schedule: a period of {self.period_s:g} s, but its last point is at {times[-1]:g} s")

    @classmethod
    def constant(cls, value: float) -> Schedule:
        return cls(points=((0.0, value),))

    @cached_property  # asked at every look for a change, of traces with thousands of points
    def is_constant(self) -> bool:
        return len({value for _, value in self.points}) == 1

    def at(self, time_s: float) -> float:
        """The value in force at ``time_s``: of a ramp, the value of its latest step."""
        return self._stepped(self._lap(time_s)[1])

    def next_change_s(self, time_s: float) -> float:
        """When, after ``time_s``, another value may come; infinity if none does any more."""
        if self.is_constant:
            return math.inf
        if time_s < -SAME_S:
            return 0.0 if self.at(0.0) != self.points[0][1] else self.next_change_s(0.0)
        lap_s, _ = self._lap(time_s)
        # Found, not searched: a trace of an hour has thousands of points, a ramp as many steps.
        index = bisect_right(self.points, time_s + SAME_S, key=lambda point: lap_s + point[0])
        step_s = self._next_of_ramp_s(index, lap_s, time_s)
        if step_s is not None:
            return step_s
        if index < len(self.points):
            return lap_s + self.points[index][0]
        return math.inf if self.period_s is None else lap_s + self.period_s

    def steps(self, until_s: float) -> Iterator[tuple[float, float]]:
        """(when, value) of every step that begins before ``until_s``, from 0 on."""
        if self.is_constant:
            if until_s > 0:
                yield 0.0, self.points[0][1]
            return
        begin_s, last_s = 0.0, -1.0
        while True:
            for step_s in self._step_times():
                time_s = begin_s + step_s
                if time_s >= until_s:
                    return
                if time_s > last_s + SAME_S:
                    yield time_s, self.at(time_s)
                    last_s = time_s
            if self.period_s is None:
                return
            begin_s += self.period_s

    @property
    def least(self) -> float:
        return min(value for _, value in self.points)

    @property
    def greatest(self) -> float:
        return max(value for _, value in self.points)

    def _lap(self, time_s: float) -> tuple[float, float]:
        """(when the period that ``time_s`` lies in began, seconds since)."""
        if self.period_s is None or time_s < 0:
            return 0.0, time_s
        lap_s = math.floor((time_s + SAME_S) / self.period_s) * self.period_s
        return lap_s, time_s - lap_s

    def _next_of_ramp_s(self, index: int, lap_s: float, time_s: float) -> float | None:
        """When, after ``time_s``, the next step between the points before and at ``index`` begins; None: none does."""
        if not self.ramp or not 0 < index < len(self.points):
            return None
        (begin_s, begin), (end_s, end) = self.points[index - 1 : index + 1]
        number = max(1, math.floor((time_s - lap_s - begin_s) / RAMP_STEP_S))
        while begin != end and number < math.ceil((end_s - begin_s) / RAMP_STEP_S):
            step_s = lap_s + (begin_s + number * RAMP_STEP_S)
            if step_s > time_s + SAME_S:
                return step_s
            number += 1
        return None

    def _step_times(self) -> Iterator[float]:
        """Beginnings of the steps of one period, rising."""
        for (begin_s, begin), (end_s, end) in pairwise(self.points):
            yield begin_s
            if self.ramp and begin != end:
                count = math.ceil((end_s - begin_s) / RAMP_STEP_S)
                for number in range(1, count):
                    yield begin_s + number * RAMP_STEP_S
        yield self.points[-1][0]

    def _stepped(self, within_s: float) -> float:
        index = max(0, bisect_right(self.points, within_s + SAME_S, key=lambda point: point[0]) - 1)
        begin_s, begin = self.points[index]
        if not self.ramp or index == len(self.points) - 1 or within_s < -SAME_S:
            return begin
        end_s, end = self.points[index + 1]
        # Half a step ahead, so that the staircase lies around the line and not below or above it.
        number = math.floor((within_s - begin_s + SAME_S) / RAMP_STEP_S)
        middle_s = min((number + 0.5) * RAMP_STEP_S, end_s - begin_s)
        return begin + (end - begin) * middle_s / (end_s - begin_s)
