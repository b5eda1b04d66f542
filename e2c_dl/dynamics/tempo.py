"""How fast one host computes over time: c seconds of CPU end when the integral of its speed reaches c.

::

    speed(t) = base / (factor(t) x injected x slow windows x throttled)        base: the speed of a host of factor 1

    speed |----.        .-----
          |    '--------'            area under it, from begin to end = c
          '-----|-----------|---> t
              begin        end

Seconds count from the beginning of training. The heat of a host that throttles itself rises while it computes, so
that its switches are part of the integral. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from e2c_dl.dynamics.links import Begun, windows
from e2c_dl.scenario.model import Fault, FaultKind, Scenario
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Heat, Thermal


@dataclass(frozen=True, kw_only=True)
class Tempo:
    """One host's. ``device`` None: it never throttles, and its Heat only tells the time."""

    base: float  # times a whole core, of a host of factor 1
    schedule: Schedule  # times slower than that, by design
    injected: float = 1.0  # times slower than designed, all the time
    slow: tuple[tuple[int, Fault], ...] = ()  # SLOW_HOST faults of this host, numbered as in Injected.faults
    device: Thermal | None = None

    @classmethod
    def of(cls, scenario: Scenario, host: str, speed: float) -> Tempo:
        """The tempo of ``host``, told that it computes at ``speed`` with its constant factor."""
        slow = tuple(
            (number, fault)
            for number, fault in enumerate(scenario.injected.faults)
            if fault.kind is FaultKind.SLOW_HOST and fault.host == host
        )
        return cls(
            base=speed * scenario.emulated_factor(host),
            schedule=scenario.schedules.compute.get(host) or Schedule.constant(scenario.compute.factor(host)),
            injected=scenario.injected.compute.get(host, 1.0),
            slow=slow,
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

    def factor(self, time_s: float, begun: Begun) -> float:
        """Times slower than a host of factor 1, at ``time_s``; heat comes on top."""
        factor = self.schedule.at(time_s) * self.injected
        for window in windows(self.slow, begun):
            if window.covers(time_s):
                factor *= window.fault.value or 1.0
        return factor

    def next_change_s(self, time_s: float, begun: Begun) -> float:
        """When, after ``time_s``, :meth:`factor` may change next, as far as it is known now."""
        edges = [window.next_edge_s(time_s) for window in windows(self.slow, begun)]
        return min([self.schedule.next_change_s(time_s), *edges])

    def idle_until(self, heat: Heat, time_s: float) -> Heat:
        """The state after doing nothing until ``time_s``; a moment in the past changes nothing."""
        return heat if time_s <= heat.time_s else self.later(heat, time_s, busy=False)

    def later(self, heat: Heat, time_s: float, *, busy: bool) -> Heat:
        """The state at ``time_s``, computing or not from ``heat`` on, before anything switches."""
        if busy or self.device is None:
            return self._busy_for(heat, time_s - heat.time_s)
        return heat.idle_until(self.device, time_s)

    def computed(self, heat: Heat, cpu_s: float, begun: Begun) -> tuple[Heat, ...]:
        """The states from ``heat`` on, at which the speed changed, until ``cpu_s`` of a core's work are done: the last.

        A state that throttles, or no longer does, is the one after its switch.
        """
        passed = []
        while True:
            rate = self._speed(heat, begun)
            until_s = self.next_change_s(heat.time_s, begun) - heat.time_s
            switch_s = math.inf if self.device is None else heat.next_switch_s(self.device)
            busy_s = min(cpu_s / rate, until_s, switch_s)
            cpu_s -= busy_s * rate
            done = busy_s not in (until_s, switch_s)
            heat = self._busy_for(heat, busy_s)
            passed.append(heat)
            if done:
                return tuple(passed)

    def _speed(self, heat: Heat, begun: Begun) -> float:
        throttled = self.device.factor if self.device is not None and heat.throttled else 1.0
        return self.base / (self.factor(heat.time_s, begun) * throttled)

    def _busy_for(self, heat: Heat, seconds: float) -> Heat:
        if self.device is None:
            return Heat(time_s=heat.time_s + seconds, temperature_c=heat.temperature_c)
        return heat.busy_for(self.device, seconds)
