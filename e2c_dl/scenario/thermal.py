"""A device that throttles itself when it gets too hot: the condition that Sparta manages.

::

    C dT/dt = P u(t) - (T - ambient) / R        u: 1 while it computes, 0 while it does not
    throttled from T >= limit until T <= limit - hysteresis: then it computes ``factor`` times slower

With tau = R C and rise = P R this is dT/dt = (ambient + rise u - T) / tau: a device that computes for ever reaches
ambient + rise. Throttled computing heats as much as ``throttled_rise`` says. Pure values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from e2c_dl.errors import InputError

_SAME_C = 1e-9  # who waits until it has cooled to a temperature finds it there, whatever floats make of it


@dataclass(frozen=True, kw_only=True)
class Thermal:
    """The device. Raises: InputError if it could never throttle, or never recover."""

    ambient_c: float = 25.0  # temperature without load, degrees Celsius
    rise_c: float = 60.0  # how much warmer it gets when it computes for ever, unthrottled
    throttled_rise_c: float = 30.0  # the same, throttled
    tau_s: float = 20.0  # time constant of warming and cooling
    limit_c: float = 70.0  # throttles from here
    hysteresis_c: float = 5.0  # recovers this much below
    factor: float = 2.0  # times slower while throttled

    def __post_init__(self) -> None:
        wrong = None
        if not (self.tau_s > 0 and self.factor > 1 and self.hysteresis_c > 0):
            wrong = "tau and hysteresis are above 0, factor is above 1"
        elif not self.ambient_c < self.limit_c - self.hysteresis_c:
            wrong = f"it is throttled at {self.limit_c:g} C, and {self.ambient_c:g} C around it let it never recover"
        elif not self.rise_c > self.throttled_rise_c >= 0:
            wrong = "it warms less while throttled: rise > throttled_rise >= 0"
        if wrong:
            raise InputError(f"thermal: {wrong}")


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
        if there or never:
            return 0.0 if there else math.inf
        return device.tau_s * math.log((self.temperature_c - target_c) / (threshold_c - target_c))

    def recovers_s(self, device: Thermal) -> float:
        """Seconds of doing nothing after which throttling ends; infinity if it is not throttled."""
        if not self.throttled:
            return math.inf
        above, threshold = (
            self.temperature_c - device.ambient_c,
            device.limit_c - device.hysteresis_c - device.ambient_c,
        )
        return max(0.0, device.tau_s * math.log(above / threshold))

    def busy_for(self, device: Thermal, seconds: float) -> Heat:
        """The state after computing for ``seconds``, at most :meth:`next_switch_s`, whereupon it switches."""
        target_c = device.ambient_c + (device.throttled_rise_c if self.throttled else device.rise_c)
        temperature_c = _towards(self.temperature_c, target_c, seconds, device.tau_s)
        switched = seconds >= self.next_switch_s(device)
        return Heat(time_s=self.time_s + seconds, temperature_c=temperature_c, throttled=self.throttled is not switched)


def _towards(temperature_c: float, target_c: float, seconds: float, tau_s: float) -> float:
    return target_c + (temperature_c - target_c) * math.exp(-max(0.0, seconds) / tau_s)
