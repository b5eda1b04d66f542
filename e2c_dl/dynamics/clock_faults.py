"""What a scenario does to the clock of a host's trace: faults to skews, in ns of the machine's clock. Pure.

A drift that lasts ``for_s`` ends by one in the opposite direction: what the clock gained until then stays.
"""

from __future__ import annotations

from collections.abc import Iterable

from e2c_dl.dynamics.links import Begun, windows
from e2c_dl.scenario.model import Fault, FaultKind, Scenario
from e2c_dl.trace.skew import Skew

_KINDS = (FaultKind.CLOCK_STEP, FaultKind.CLOCK_DRIFT)


def clock_faults(scenario: Scenario, host: str) -> tuple[tuple[int, Fault], ...]:
    """The faults of ``host``'s clock, numbered as in ``Injected.faults``."""
    return tuple(
        (number, fault)
        for number, fault in enumerate(scenario.injected.faults)
        if fault.kind in _KINDS and fault.host == host
    )


def skews(faults: Iterable[tuple[int, Fault]], began_ns: int, begun: Begun) -> tuple[Skew, ...]:
    """The skews of clock ``faults``, if training began at ``began_ns``; in order of time."""
    found = []
    for window in windows(faults, begun):
        begin_ns, value = began_ns + round(window.begin_s * 1e9), window.fault.value or 0.0
        if window.fault.kind is FaultKind.CLOCK_STEP:
            found.append(Skew(begin_ns=begin_ns, step_ns=round(value * 1e9)))
        else:
            found.append(Skew(begin_ns=begin_ns, drift=value))
            if window.fault.for_s is not None:
                found.append(Skew(begin_ns=begin_ns + round(window.fault.for_s * 1e9), drift=-value))
    return tuple(sorted(found, key=lambda skew: skew.begin_ns))
