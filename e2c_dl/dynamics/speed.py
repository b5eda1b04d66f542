"""The speed at which a host is emulated to compute: always the same, or as a scenario changes it.

Both answer when computing that began at some moment ends. A changing speed also tells, each time some computing has
ended, what changed meanwhile: the integral is exact, so that every change is in force at the moment it was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from e2c_dl.dynamics.tempo import Tempo
from e2c_dl.errors import TrainingError
from e2c_dl.scenario.thermal import Heat
from e2c_dl.trace.changes import Change

HEAT_EVERY_S = 1.0

OnChange = Callable[[Change, float, float, int | None], None]
"""(compute, throttle or recover; at which second of training; the factor, or the temperature in degrees Celsius; the
iteration that began it, if one did)."""

OnHeat = Callable[[Heat], None]


class Speed(Protocol):
    """What paces. Moments are ns of the machine's monotonic clock."""

    def ends_ns(self, begin_ns: int, cpu_s: float) -> int:
        """When ``cpu_s`` of computing that began at ``begin_ns`` end, as far as it is known now."""
        ...

    def finished(self, begin_ns: int, cpu_s: float) -> None:
        """They have ended."""
        ...


class ConstantSpeed:
    """``value`` times the speed of a whole core. Raises: TrainingError if that is impossible."""

    def __init__(self, value: float) -> None:
        check_speed(value)
        self.value = value

    def ends_ns(self, begin_ns: int, cpu_s: float) -> int:
        return begin_ns + int(cpu_s / self.value * 1e9)

    def finished(self, begin_ns: int, cpu_s: float) -> None:
        """It does not matter."""


class ChangingSpeed:
    """A :class:`Tempo` on this host's clock, with the heat that it has by now.

    Computes as at first until training has begun. :meth:`began` and :meth:`slowed` may be called by another thread than
    the one that computes. Raises: TrainingError if the tempo is ever faster than a core.
    """

    def __init__(self, tempo: Tempo, on_change: OnChange, on_heat: OnHeat) -> None:
        check_speed(tempo.greatest_speed)
        self._tempo, self._on_change, self._on_heat = tempo, on_change, on_heat
        self._began_ns: int | None = None
        self._begun: dict[int, float] = {}
        self._heat = tempo.cold
        self._factor = math.nan

    def began(self, began_ns: int) -> None:
        """Training began then."""
        self._began_ns = began_ns
        self._tell_factor(0.0)
        self._tell_heat(self._heat)

    def slowed(self, numbers: tuple[int, ...], iteration: int, time_s: float) -> None:
        """The faults of these numbers begin at ``time_s``, with ``iteration``."""
        self._begun = {**self._begun, **dict.fromkeys(numbers, time_s)}
        self._tell_factor(time_s, iteration)

    def ends_ns(self, begin_ns: int, cpu_s: float) -> int:
        if self._began_ns is None:
            return begin_ns + int(cpu_s * self._tempo.factor(-1.0, {}) / self._tempo.base * 1e9)
        begin = self._tempo.idle_until(self._heat, (begin_ns - self._began_ns) / 1e9)
        end = self._tempo.computed(begin, cpu_s, self._begun)[-1]
        return self._began_ns + round(end.time_s * 1e9)

    def finished(self, begin_ns: int, cpu_s: float) -> None:
        if self._began_ns is None:
            return
        self.idle(begin_ns)
        for state in self._tempo.computed(self._heat, cpu_s, self._begun):
            self._pass(state, busy=True)

    def idle(self, until_ns: int) -> None:
        """Nothing is computed until then."""
        if self._began_ns is None:
            return
        until_s = (until_ns - self._began_ns) / 1e9
        recovers_s = self._heat.time_s + self._recovers_s()
        for moment_s in (recovers_s, until_s):
            if self._heat.time_s < moment_s <= until_s:
                self._pass(self._tempo.idle_until(self._heat, moment_s), busy=False)

    def _recovers_s(self) -> float:
        return math.inf if self._tempo.device is None else self._heat.recovers_s(self._tempo.device)

    def _pass(self, state: Heat, *, busy: bool) -> None:
        """Go on to ``state``, telling what changed on the way."""
        before, self._heat = self._heat, state
        self._tell_samples(before, state.time_s, busy=busy)
        moment_s = before.time_s
        while (moment_s := self._tempo.next_change_s(moment_s, self._begun)) <= state.time_s:
            self._tell_factor(moment_s)
        if state.throttled is not before.throttled:
            what = Change.THROTTLE if state.throttled else Change.RECOVER
            self._on_change(what, state.time_s, state.temperature_c, None)
            self._tell_heat(state)

    def _tell_factor(self, time_s: float, iteration: int | None = None) -> None:
        factor = self._tempo.factor(time_s, self._begun)
        if factor != self._factor:
            self._factor = factor
            self._on_change(Change.COMPUTE, time_s, factor, iteration)

    def _tell_samples(self, before: Heat, until_s: float, *, busy: bool) -> None:
        number = math.floor(before.time_s / HEAT_EVERY_S) + 1
        while self._tempo.device is not None and number * HEAT_EVERY_S <= until_s:
            self._tell_heat(self._tempo.later(before, number * HEAT_EVERY_S, busy=busy))
            number += 1

    def _tell_heat(self, heat: Heat) -> None:
        if self._tempo.device is not None:
            self._on_heat(heat)


def check_speed(value: float) -> None:
    """Raises: TrainingError for a speed that no pacing gives."""
    if not 0 < value <= 1 + 1e-9:
        raise TrainingError(f"speed {value}: a host can be emulated at more than 0 and at most 1 of its own speed")
