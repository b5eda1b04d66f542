"""A device's marks on the host's clock, without making it wait: each one bounds how the two clocks stand.

::

    host     set |--------------------------------| seen to be passed
    device                passed at d                   host's clock then: no sooner than set, no later than seen

That is what a clock exchange tells of two hosts, so :mod:`e2c_dl.trace.clocks.alignment` has the rest: marks set while
the device is idle bound from below, marks that somebody waited for from above, and drift shows over many. One mark is
waited for at the start; all later waits are for results that are needed anyway.

Elapsed times are 32-bit floats of milliseconds, exact to a microsecond over some seconds only: each gradient is counted
from a mark of its own, and these from one another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from e2c_dl.trace.clocks.alignment import Alignment, Exchange
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.training.device.events import Event, Events


@dataclass(frozen=True)
class Mark:
    """One mark, and when the host set it."""

    event: Event
    set_ns: int


class Timeline:
    """The marks of one device. Waits once, when it is made. For one thread."""

    def __init__(self, events: Events, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._events, self._clock = events, clock
        self._alignment = Alignment()
        self._value = ClockAlignment()
        self._uncertainty_ns = 0
        self._origin = self.mark()
        self._origin_ns = 0  # on the device's clock, which begins with the first mark
        self._latest_ns = 0
        self.wait(self._origin)
        self.count_from(self._origin)

    def mark(self) -> Mark:
        """A mark behind all work asked for by now; does not wait."""
        now_ns = self._clock()
        return Mark(self._events.set(), now_ns)

    def wait(self, mark: Mark) -> None:
        """Return when the device has passed ``mark``, and learn from it how the clocks stand."""
        mark.event.wait()
        now_ns, device_ns = self._clock(), self._device_ns(mark)
        if device_ns < self._latest_ns:  # an earlier one was seen later: it bounds nothing
            return
        self._latest_ns = device_ns
        self._alignment.add(Exchange(
            offset_ns=(mark.set_ns + now_ns) // 2 - device_ns, at_ns=device_ns,
            uncertainty_ns=(now_ns - mark.set_ns + 1) // 2,
        ))  # fmt: skip
        # At once: what is placed next then lies between bounds, not beyond the last one, where nothing holds.
        self._value = self._alignment.value()
        self._uncertainty_ns = max(self._uncertainty_ns, self._value.uncertainty_ns)

    def count_from(self, mark: Mark) -> None:
        """``mark``, which has been passed, is the one that later ones are counted from."""
        self._origin, self._origin_ns = mark, self._device_ns(mark)

    def host_ns(self, mark: Mark) -> int:
        """When the device passed ``mark``, no later than one that was waited for, on the host's clock."""
        device_ns = self._device_ns(mark)
        return max(mark.set_ns, int(self._value.align(np.array([device_ns], dtype=np.int64))[0]))

    @property
    def uncertainty_ns(self) -> int:
        """How far the times told so far may be off."""
        return self._uncertainty_ns

    def _device_ns(self, mark: Mark) -> int:
        return self._origin_ns + round(self._origin.event.ms_until(mark.event) * 1e6)
