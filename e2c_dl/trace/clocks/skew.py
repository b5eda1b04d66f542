"""A host's own clock as the trace sees it, when a scenario makes it step or drift. The machine's clock stays alone.

::

    own = machine                                            without a fault
    own = machine + step + drift * (machine - begin)         from ``begin`` on; several add up

    own |          .--           a clock that is set back goes at a tenth of its pace until it has caught up again:
        |    ..---'              what programs order events by never goes back, and what a host did stays in order
        |  .'
        '------------ machine

Every time that a host writes into its trace, tells others in a clock exchange, or logs a change with, is ``own``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

SLOWER = 10  # times, while a clock catches up with itself


@dataclass(frozen=True, kw_only=True)
class Skew:
    """From ``begin_ns`` of the machine's clock on."""

    begin_ns: int
    step_ns: int = 0
    drift: float = 0.0  # seconds per second


class TraceClock:
    """A clock that starts as the ``machine``'s, in ns. Any thread may skew it."""

    def __init__(self, machine: Callable[[], int]) -> None:
        self._machine = machine
        self._skews: tuple[Skew, ...] = ()

    def __call__(self) -> int:
        """Now, in ns of this host's own clock."""
        return self.own_ns(self._machine())

    def own_ns(self, machine_ns: int) -> int:
        """Time of this clock, past or to come, when the machine's shows ``machine_ns``; never falls with it."""
        skews = self._skews
        own_ns = machine_ns + _gained_ns(skews, machine_ns)
        for skew in skews:
            if skew.begin_ns <= machine_ns and skew.step_ns < 0:
                earlier = [each for each in skews if each.begin_ns < skew.begin_ns]
                before_ns = skew.begin_ns + _gained_ns(earlier, skew.begin_ns)
                own_ns = max(own_ns, before_ns + (machine_ns - skew.begin_ns) // SLOWER)
        return own_ns

    def skew(self, skew: Skew) -> None:
        """Step or drift from ``skew.begin_ns`` on."""
        self._skews = (*self._skews, skew)

    def reset(self, skews: Iterable[Skew]) -> None:
        """These skews and no others."""
        self._skews = tuple(skews)


def _gained_ns(skews: Iterable[Skew], machine_ns: int) -> int:
    return sum(
        skew.step_ns + round(skew.drift * (machine_ns - skew.begin_ns)) for skew in skews if machine_ns >= skew.begin_ns
    )
