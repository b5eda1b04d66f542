"""Device that throttles itself when it gets too hot: the condition that Sparta manages.

::

    C dT/dt = P u(t) - (T - ambient) / R        u: 1 while it computes, 0 while it does not
    throttled from T >= limit until T <= limit - hysteresis: then it computes ``factor`` times slower

With tau = R C and rise = P R this is dT/dt = (ambient + rise u - T) / tau: a device that computes for ever reaches
ambient + rise. Throttled computing heats as much as ``throttled_rise`` says. Its state over time is
:class:`e2c_dl.dynamics.heat.Heat`. Pure values.
"""

from __future__ import annotations

from dataclasses import dataclass

from e2c_dl.errors import InputError


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
