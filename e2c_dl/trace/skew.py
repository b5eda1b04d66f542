"""A host's own clock as the trace sees it, when a scenario makes it step or drift. The machine's clock stays alone.

::

    own = machine                                            without a fault
    own = machine + step + drift * (machine - begin)         from ``begin`` on; several add up

Every time that a host writes into its trace, tells others in a clock exchange, or logs a change with, is ``own``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Skew:
    """From ``begin_ns`` of the machine's clock on."""

    begin_ns: int
    step_ns: int = 0
    drift: float = 0.0  # seconds per second


class TraceClock:
    """A clock that starts as the machine's. Skews may be added by any thread, in order of time."""

    def __init__(self, machine: Callable[[], int] = time.monotonic_ns) -> None:
        self._machine = machine
        self._skews: tuple[Skew, ...] = ()

    def __call__(self) -> int:
        """Now, in ns of this host's own clock."""
        return self.own_ns(self._machine())

    def own_ns(self, machine_ns: int) -> int:
        """What this clock showed, or will show, when the machine's shows ``machine_ns``."""
        own_ns = machine_ns
        for skew in self._skews:
            if machine_ns >= skew.begin_ns:
                own_ns += skew.step_ns + round(skew.drift * (machine_ns - skew.begin_ns))
        return own_ns

    def skew(self, skew: Skew) -> None:
        """Step or drift from ``skew.begin_ns`` on."""
        self._skews = (*self._skews, skew)
