"""A what-if: what of a run is changed before it is replayed, and when.

::

    seconds of training   0          8          20
    Change of a host      |  x 1.0   |   x 0.2   |  x 1.0      its services that begin from 8 to 20 s take a fifth
    Change of a link      |    0     |  -0.05 s  |    0        its messages sent from 8 to 20 s arrive so much sooner

A service takes ``scale`` times as long as observed, and ``less_s`` less. What a whole group of elements would save
together is asked by one WhatIf with a Change for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from e2c_dl.diagnosis.model import Element
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.trace.model import GRADIENT, Phase

AS_OBSERVED = Piecewise.constant(1.0)
NO_LESS = Piecewise.constant(0.0)

RATE, WAY = frozenset({Phase.FLOW}), frozenset({Phase.RECEIVE})
LINK_PHASES = RATE | WAY
"""What a link does for a library's transfer: it carries bytes at its rate, each a delay later."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One element made faster or slower. What begins at a moment is changed by what holds at that moment.

    Worked example: ``Change(element=host, scale=Piecewise.constant(0.5))``, gradients computed twice as fast.
    """

    element: Element  # a host or a directed link
    phases: frozenset[Phase] = GRADIENT
    """Of a host, which of its computing phases. Of a link in a library's transfers: RATE, or WAY; else all of it."""
    scale: Piecewise = AS_OBSERVED  # over seconds of training: times as long as observed
    less_s: Piecewise = (
        NO_LESS  # over seconds of training: of a link's delay, or of each of a host's spans; none below 0
    )


@dataclass(frozen=True, kw_only=True)
class Line:
    """What links share, made faster or slower, for a world in which they share it; a replay goes by their changes."""

    links: frozenset[Element]
    instead: tuple[Change, ...] = ()  # among the changes, of its links: a replay goes by these, such a world does not
    scale: Piecewise  # over seconds of training: times as long as observed
    designed_bps: Piecewise | None = None  # if known, what it is where it is faster than observed


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """All that is changed at once. Several changes of one element multiply their scales and add what they take off."""

    changes: tuple[Change, ...] = ()
    lines: tuple[Line, ...] = ()  # whose links are among the changes
    moving: frozenset[Element] = field(default_factory=frozenset)  # these never stall

    @classmethod
    def together(cls, several: Iterable[WhatIf]) -> WhatIf:
        """All of ``several`` at once."""
        chosen = tuple(several)
        return cls(
            changes=tuple(change for each in chosen for change in each.changes),
            lines=tuple(line for each in chosen for line in each.lines),
            moving=frozenset(element for each in chosen for element in each.moving),
        )


class Predictor(Protocol):
    """What says how long a run takes after a change: a replay of its trace, or a world that takes its times again."""

    @property
    def elements(self) -> tuple[Element, ...]:
        """Hosts in rank order, then links that carried messages."""
        ...

    @property
    def replayed_ns(self) -> int:
        """Run time without any change."""
        ...

    @property
    def cheap(self) -> int:
        """How many what-ifs take no more than a second or so."""
        ...

    @property
    def shares_lines(self) -> bool:
        """Whether links of one line leave each other less in it; else each is as fast as it was, or is changed."""
        ...

    def runs_ns(self, whatifs: Sequence[WhatIf]) -> list[int]:
        """Run time after each of ``whatifs``. Raises: KeyError, if an element is not in the run."""
        ...

    def laps_ns(self, whatifs: Sequence[WhatIf]) -> list[tuple[int, ...]]:
        """Run time without any change, and after each of ``whatifs``, by each luck: one, where none decides."""
        ...

    def most_saved_ns(self, whatif: WhatIf) -> float:
        """What ``whatif`` saves at most, as far as can be told without asking; infinite: that is not known."""
        ...


class OneLuck:
    """What a Predictor of one luck has in common: nothing in it hangs on chance, or it is the run's own."""

    @property
    def shares_lines(self) -> bool:
        return False

    def laps_ns(self: Predictor, whatifs: Sequence[WhatIf]) -> list[tuple[int, ...]]:
        return [(self.replayed_ns,), *((ns,) for ns in self.runs_ns(whatifs))]


UNCHANGED = WhatIf()


def alone_and_together(count: int) -> list[frozenset[int]]:
    """Which of ``count`` changes to ask for at once, to know what each saves alone and jointly; no change is not asked.

    All of them first, then each, then all but each: of two, these are the same.
    """
    everything = frozenset(range(count))
    alone = [frozenset((place,)) for place in range(count)]
    return [each for each in dict.fromkeys((everything, *alone, *(everything - one for one in alone))) if each]


def scaled(element: Element, factor: float) -> WhatIf:
    """``element`` taking ``factor`` times as long, all the time: a host its gradients, a link its messages."""
    return WhatIf(changes=(Change(element=element, scale=Piecewise.constant(factor)),))
