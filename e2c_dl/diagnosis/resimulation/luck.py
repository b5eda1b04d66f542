"""Luck: what a run takes on average, where who meets whom, and so how long it takes, is decided by chance.

::

    lap            0     1     2     3     4      0: the run's own order; others: other seeds, slow moments elsewhere
    as it was    178   289   231   204   250  s
    changed      160   221   190   188   197      by the same luck: saved 18 ... 68 s, mean 41, standard deviation 19

One and the same change saves much in one lap and little in the next, so that one lap says little of either. How many
are needed the run itself tells: where FIRST laps of it, as it was, take as long but for STEADY, one lap tells it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from e2c_dl.diagnosis.model import Chance, Element
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, Predictor, WhatIf

FIRST = 3
STEADY = 0.01  # of the mean: from the least to the most of the first laps
LAPS, MOST_LAPS = 5, 20
PATIENCE = 4  # times what is simulated without a thought: so much may laps cost
LEAST_CHEAP = 4  # changes that are simulated in all laps


class RunTimes(Predictor, Protocol):
    """What tells how long a run takes by any luck: a measured world."""

    def run_ns(self, change: WhatIf = UNCHANGED, lap: int = 0) -> int:
        """Run time after ``change``; laps beyond 0 have other luck."""
        ...


@dataclass(frozen=True, eq=False)
class Laps:
    """A Predictor whose every run time is the mean over so many laps of ``one``."""

    one: RunTimes
    as_it_was_ns: tuple[int, ...]  # by lap

    @property
    def chance(self) -> Chance:
        """How many laps there are, and how far apart."""
        return Chance(runs=len(self), least_s=min(self.as_it_was_ns) / 1e9, most_s=max(self.as_it_was_ns) / 1e9)

    def __len__(self) -> int:
        return len(self.as_it_was_ns)

    @property
    def elements(self) -> tuple[Element, ...]:
        return self.one.elements

    @cached_property
    def replayed_ns(self) -> int:
        return round(np.mean(self.as_it_was_ns))

    @property
    def cheap(self) -> int:
        return max(LEAST_CHEAP, self.one.cheap // len(self))

    def runs_ns(self, whatifs: Sequence[WhatIf]) -> list[int]:
        return [round(np.mean(each)) for each in self.laps_ns(whatifs)]

    def laps_ns(self, whatifs: Sequence[WhatIf]) -> list[tuple[int, ...]]:
        return [tuple(self.one.run_ns(each, lap) for lap in range(len(self))) for each in whatifs]

    def most_saved_ns(self, whatif: WhatIf) -> float:
        return self.one.most_saved_ns(whatif)


def averaged(one: RunTimes, asked: int = 1) -> Laps | None:
    """The run times of ``one`` over several laps; None, if they do not hang on chance.

    As many laps, up to MOST_LAPS, as PATIENCE has for one and ``asked`` changes in each of them, but at least LAPS, or
    of very many changes FIRST.
    """
    first_ns = (one.replayed_ns, *(one.run_ns(lap=lap) for lap in range(1, FIRST)))
    if max(first_ns) - min(first_ns) <= STEADY * float(np.mean(first_ns)):
        return None
    least = LAPS if asked <= one.cheap else FIRST
    laps = min(MOST_LAPS, max(least, PATIENCE * one.cheap // (1 + asked)))
    return Laps(one, (*first_ns, *(one.run_ns(lap=lap) for lap in range(FIRST, laps))))
