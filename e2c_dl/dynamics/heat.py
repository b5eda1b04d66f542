"""Heat of a device that throttles itself: its temperature and state over seconds of training. Pure.

The device, and the equation that it follows, are :class:`e2c_dl.scenario.thermal.Thermal`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from e2c_dl.scenario.thermal import Thermal

_SAME_C = 1e-9  # who waits until it has cooled to a temperature finds it there, whatever floats make of it


@dataclass(frozen=True, kw_only=True)
class Heat:
    """The state of a device at ``time_s``."""

    time_s: float
    temperature_c: float
    throttled: bool = False

    @classmethod
    def cold(cls, device: Thermal, time_s: float) -> Heat:
        return cls(time_s=time_s, temperature_c=device.ambient_c)

    def idle_until(self, device: Thermal, time_s: float) -> Heat:
        """The state after doing nothing until ``time_s``."""
        temperature_c = _towards(self.temperature_c, device.ambient_c, time_s - self.time_s, device.tau_s)
        throttled = self.throttled and temperature_c > device.limit_c - device.hysteresis_c + _SAME_C
        return Heat(time_s=time_s, temperature_c=temperature_c, throttled=throttled)

    def next_switch_s(self, device: Thermal) -> float:
        """Seconds of computing after which throttling begins or ends; infinity if it does not."""
        if self.throttled:
            target_c, threshold_c = device.ambient_c + device.throttled_rise_c, device.limit_c - device.hysteresis_c
            there, never = self.temperature_c <= threshold_c, target_c >= threshold_c
        else:
            target_c, threshold_c = device.ambient_c + device.rise_c, device.limit_c
            there, never = self.temperature_c >= threshold_c, target_c <= threshold_c
        if there or never:  # a temperature approaches its target and never passes it
            return 0.0 if there else math.inf
        return device.tau_s * math.log((self.temperature_c - target_c) / (threshold_c - target_c))

    def recovers_s(self, device: Thermal) -> float:
        """Seconds of doing nothing after which throttling ends; infinity if it is not throttled."""
        if not self.throttled:
            return math.inf
        above_c = self.temperature_c - device.ambient_c
        threshold_c = device.limit_c - device.hysteresis_c - device.ambient_c
        return max(0.0, device.tau_s * math.log(above_c / threshold_c))

    def busy_for(self, device: Thermal, seconds: float) -> Heat:
        """The state after computing for ``seconds``, at most :meth:`next_switch_s`, whereupon it switches."""
        target_c = device.ambient_c + (device.throttled_rise_c if self.throttled else device.rise_c)
        temperature_c = _towards(self.temperature_c, target_c, seconds, device.tau_s)
        switched = seconds >= self.next_switch_s(device)
        return Heat(time_s=self.time_s + seconds, temperature_c=temperature_c, throttled=self.throttled is not switched)


def _towards(temperature_c: float, target_c: float, seconds: float, tau_s: float) -> float:
    return target_c + (temperature_c - target_c) * math.exp(-max(0.0, seconds) / tau_s)  # no time runs back
