"""Speed at which a host is emulated to compute, over time: c seconds of CPU end when its integral reaches c.

::

    speed(t) = base / (factor(t) x injected x slow windows x throttled)        base: the speed of a host of factor 1

    speed |----.        .-----
          |    '--------'            area under it, from begin to end = c
          '-----|-----------|---> t
              begin        end

Seconds count from the beginning of training. The heat of a host that throttles itself rises while it computes, so that
its switches are part of the integral, which is exact: every change is in force at the moment it was requested for. A
changing speed also tells, each time some computing has ended, what changed meanwhile. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from e2c_dl.dynamics.faults import BegunFaults, NumberedFault, faults_of_kind
from e2c_dl.dynamics.heat import Heat
from e2c_dl.errors import TrainingError
from e2c_dl.scenario.model import FaultKind, Scenario
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal
from e2c_dl.trace.changes import Change

HEAT_EVERY_S = 1.0  # as often as a host's metrics

OnChange = Callable[[Change, float, float, int | None], None]
"""(compute, throttle or recover; at which second of training; the factor, or the temperature in degrees Celsius; the
iteration that began it, if one did)."""

OnHeat = Callable[[Heat], None]


@dataclass(frozen=True, kw_only=True)
class HostSpeed:
    """One host's speed as the scenario has it. ``device`` None: it never throttles; its Heat only tells the time."""

    base: float  # times a whole core, of a host of factor 1
    schedule: Schedule  # times slower than that, by design
    injected: float = 1.0  # times slower than designed, all the time; of a what-if, maybe faster
    slow: tuple[NumberedFault, ...] = ()  # SLOW_HOST faults of this host, numbered as in Injected.faults
    device: Thermal | None = None

    @classmethod
    def of(cls, scenario: Scenario, host: str, speed: float) -> HostSpeed:
        """The speed of ``host``, told that it computes at ``speed`` with its constant factor."""
        return cls(
            base=speed * scenario.emulated_factor(host),
            schedule=scenario.schedules.compute.get(host) or Schedule.constant(scenario.compute.factor(host)),
            injected=scenario.added_factor(host),
            slow=faults_of_kind(scenario, FaultKind.SLOW_HOST, host=host),
            device=scenario.schedules.thermal.get(host),
        )

    @property
    def changes(self) -> bool:
        """Whether its speed is ever other than at first."""
        return not self.schedule.is_constant or bool(self.slow) or self.device is not None

    @property
    def greatest_speed(self) -> float:
        return self.base / (self.schedule.least * self.injected)

    @property
    def cold(self) -> Heat:
        """How it begins training."""
        return Heat(time_s=0.0, temperature_c=0.0) if self.device is None else Heat.cold(self.device, 0.0)

    def factor(self, time_s: float, begun: BegunFaults) -> float:
        """Times slower than a host of factor 1, at ``time_s``; heat comes on top."""
        factor = self.schedule.at(time_s) * self.injected
        for window in begun.windows(self.slow):
            if window.covers(time_s):
                factor *= window.fault.value or 1.0
        return factor

    def next_change_s(self, time_s: float, begun: BegunFaults) -> float:
        """When, after ``time_s``, :meth:`factor` may change next, as far as it is known now."""
        edges = [window.next_edge_s(time_s) for window in begun.windows(self.slow)]
        return min([self.schedule.next_change_s(time_s), *edges])

    def idle_until(self, heat: Heat, time_s: float) -> Heat:
        """The state after doing nothing until ``time_s``; a moment in the past changes nothing."""
        return heat if time_s <= heat.time_s else self.later(heat, time_s, busy=False)

    def later(self, heat: Heat, time_s: float, *, busy: bool) -> Heat:
        """The state at ``time_s``, computing or not from ``heat`` on, before anything switches."""
        if busy or self.device is None:
            return self._busy_for(heat, time_s - heat.time_s)
        return heat.idle_until(self.device, time_s)

    def computed(self, heat: Heat, cpu_s: float, begun: BegunFaults) -> tuple[Heat, ...]:
        """The states from ``heat`` on, at which the speed changed, until ``cpu_s`` of a core's work are done: the last.

        A state that throttles, or no longer does, is the one after its switch.
        """
        passed = []
        while True:
            rate = self._speed(heat, begun)
            until_s = self.next_change_s(heat.time_s, begun) - heat.time_s
            switch_s = math.inf if self.device is None else heat.next_switch_s(self.device)
            busy_s = min(cpu_s / rate, until_s, switch_s)
            cpu_s -= busy_s * rate  # work is what is kept when the speed changes, not time
            done = busy_s not in (until_s, switch_s)  # exact: min() has returned one of them as it is
            heat = self._busy_for(heat, busy_s)
            passed.append(heat)
            if done:
                return tuple(passed)

    def _speed(self, heat: Heat, begun: BegunFaults) -> float:
        throttled = self.device.factor if self.device is not None and heat.throttled else 1.0
        return self.base / (self.factor(heat.time_s, begun) * throttled)

    def _busy_for(self, heat: Heat, seconds: float) -> Heat:
        if self.device is None:
            return Heat(time_s=heat.time_s + seconds, temperature_c=heat.temperature_c)
        return heat.busy_for(self.device, seconds)


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
    """A :class:`HostSpeed` on this host's clock, with the heat that it has by now; ``begun``: see :meth:`slowed`.

    Computes as at first until training has begun. :meth:`began` and :meth:`slowed` may be called by another thread than
    the one that computes. Raises: TrainingError if the host is ever faster than a core.
    """

    def __init__(
        self, host: HostSpeed, on_change: OnChange, on_heat: OnHeat, begun: BegunFaults | None = None
    ) -> None:  # fmt: skip
        check_speed(host.greatest_speed)
        self._host, self._on_change, self._on_heat = host, on_change, on_heat
        self._began_ns: int | None = None
        self._begun = BegunFaults() if begun is None else begun
        self._heat = host.cold
        self._factor = math.nan  # equal to nothing, so that the first factor is told

    def began(self, began_ns: int) -> None:
        """Training began then."""
        self._began_ns = began_ns
        self._tell_factor(0.0)
        self._tell_heat(self._heat)

    def slowed(self, iteration: int, time_s: float) -> None:
        """``begun`` was told of a fault of this host that begins at ``time_s``, with ``iteration``."""
        self._tell_factor(time_s, iteration)

    def ends_ns(self, begin_ns: int, cpu_s: float) -> int:
        if self._began_ns is None:  # calibration and warming up are paced, and leave no heat
            return begin_ns + int(cpu_s * self._host.factor(-1.0, self._begun) / self._host.base * 1e9)
        begin = self._host.idle_until(self._heat, (begin_ns - self._began_ns) / 1e9)
        end = self._host.computed(begin, cpu_s, self._begun)[-1]  # only asked: the heat goes on in finished()
        return self._began_ns + round(end.time_s * 1e9)

    def finished(self, begin_ns: int, cpu_s: float) -> None:
        if self._began_ns is None:
            return
        self.idle(begin_ns)  # it has cooled since it last computed
        for state in self._host.computed(self._heat, cpu_s, self._begun):
            self._pass(state, busy=True)

    def idle(self, until_ns: int) -> None:
        """Nothing is computed until then."""
        if self._began_ns is None:
            return
        until_s = (until_ns - self._began_ns) / 1e9
        recovers_s = self._heat.time_s + self._recovers_s()
        for moment_s in (recovers_s, until_s):  # in two steps, as the recovery is told at its own moment
            if self._heat.time_s < moment_s <= until_s:
                self._pass(self._host.idle_until(self._heat, moment_s), busy=False)

    def _recovers_s(self) -> float:
        return math.inf if self._host.device is None else self._heat.recovers_s(self._host.device)

    def _pass(self, state: Heat, *, busy: bool) -> None:
        """Go on to ``state``, telling what changed on the way."""
        before, self._heat = self._heat, state
        self._tell_samples(before, state.time_s, busy=busy)
        moment_s = before.time_s
        while (moment_s := self._host.next_change_s(moment_s, self._begun)) <= state.time_s:
            self._tell_factor(moment_s)
        if state.throttled is not before.throttled:
            what = Change.THROTTLE if state.throttled else Change.RECOVER
            self._on_change(what, state.time_s, state.temperature_c, None)
            self._tell_heat(state)

    def _tell_factor(self, time_s: float, iteration: int | None = None) -> None:
        factor = self._host.factor(time_s, self._begun)
        if factor != self._factor:  # windows may begin and end to no effect: nothing has changed then
            self._factor = factor
            self._on_change(Change.COMPUTE, time_s, factor, iteration)

    def _tell_samples(self, before: Heat, until_s: float, *, busy: bool) -> None:
        number = math.floor(before.time_s / HEAT_EVERY_S) + 1  # at whole seconds, however computing is cut into pieces
        while self._host.device is not None and number * HEAT_EVERY_S <= until_s:
            self._tell_heat(self._host.later(before, number * HEAT_EVERY_S, busy=busy))
            number += 1

    def _tell_heat(self, heat: Heat) -> None:
        if self._host.device is not None:
            self._on_heat(heat)


def check_speed(value: float) -> None:
    """Raises: TrainingError for a speed that no pacing gives."""
    if not 0 < value <= 1 + 1e-9:  # a 1 that was computed may be a little more
        raise TrainingError(f"speed {value}: a host can be emulated at more than 0 and at most 1 of its own speed")
