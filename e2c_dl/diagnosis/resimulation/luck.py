"""Luck: what a run takes on average, where who meets whom, and so how long it takes, is decided by chance.

::

    lap            0     1     2     3     4      0: the run's own order; others: other seeds, slow moments elsewhere
    as it was    178   289   231   204   250  s
    changed      160   221   190   188   197      by the same luck: saved 18 ... 68 s, mean 41, standard deviation 19

One and the same change saves much in one lap and little in the next, so that one lap says little of either. How many
are needed the run itself tells: where FIRST laps of it take as long but for STEADY, as it was and with all restored,
one lap tells it all. Else there are LAPS, and more until every mean saving is CERTAIN, or clearly more or less than
makes it material; or as many as there is patience for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP, STEADY, Chance, Element
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, Predictor, WhatIf, alone_and_together

FIRST = 3
LAPS, MOST_LAPS = 5, 100
CERTAIN = 0.002  # of the run: the standard error of what a change saves, in the mean
NEARLY, CLEARLY = 0.015, 3.0  # the same, where it is so many standard errors from what makes it material
PATIENCE = 10  # times what is simulated without a thought: so much may laps cost
LEAST_CHEAP = 4  # changes that are simulated in all laps


class RunTimes(Predictor, Protocol):
    """What tells how long a run takes by any luck: a measured world."""

    def run_ns(self, change: WhatIf = UNCHANGED, lap: int = 0) -> int:
        """Run time after ``change``; laps beyond 0 have other luck."""
        ...


@dataclass(frozen=True, eq=False)
class Laps:
    """A Predictor whose every run time is the mean over laps of ``one``: over LAPS, where many are asked for.

    What departures cost is told over up to ``most`` laps.
    """

    one: RunTimes
    most: int
    _known: dict[tuple[WhatIf, int], int] = field(default_factory=dict)  # (change, lap) -> run time, simulated once

    def run_ns(self, change: WhatIf = UNCHANGED, lap: int = 0) -> int:
        """Run time of one lap after ``change``."""
        key = change, lap
        if key not in self._known:
            self._known[key] = self.one.replayed_ns if key == (UNCHANGED, 0) else self.one.run_ns(change, lap)
        return self._known[key]

    @property
    def chance(self) -> Chance:
        """How many laps there were, and how far apart, as it was."""
        self._few_ns(UNCHANGED)
        was_ns = [ns for (change, _), ns in self._known.items() if change == UNCHANGED]
        return Chance(runs=len(was_ns), least_s=min(was_ns) / 1e9, most_s=max(was_ns) / 1e9)

    @property
    def least(self) -> int:
        return min(LAPS, self.most)

    @property
    def elements(self) -> tuple[Element, ...]:
        return self.one.elements

    @property
    def replayed_ns(self) -> int:
        return self._few_ns(UNCHANGED)

    @property
    def cheap(self) -> int:
        return max(LEAST_CHEAP, self.one.cheap // self.least)

    @property
    def shares_lines(self) -> bool:
        return self.one.shares_lines

    def runs_ns(self, whatifs: Sequence[WhatIf]) -> list[int]:
        return [self._few_ns(each) for each in whatifs]

    def laps_ns(self, whatifs: Sequence[WhatIf]) -> list[tuple[int, ...]]:
        laps: list[list[int]] = []
        while len(laps) < self.least or (len(laps) < self.most and not _are_certain(laps)):
            laps.append([self.run_ns(each, len(laps)) for each in (UNCHANGED, *whatifs)])
        return [*zip(*laps, strict=True)]

    def most_saved_ns(self, whatif: WhatIf) -> float:
        return self.one.most_saved_ns(whatif)

    def _few_ns(self, change: WhatIf) -> int:
        return round(np.mean([self.run_ns(change, lap) for lap in range(self.least)]))


def _are_certain(laps: Sequence[Sequence[int]]) -> bool:
    """Whether what each change saves is certain in the mean; ``laps``: as it was, then after each change."""
    times_ns = np.array(laps, dtype=np.float64)
    run_ns = times_ns[:, 0].mean()
    saved = (times_ns[:, :1] - times_ns[:, 1:]) / run_ns
    errors = saved.std(axis=0, ddof=1) / np.sqrt(len(laps))
    clear = np.abs(saved.mean(axis=0) - (1 - 1 / MATERIAL_SPEEDUP)) >= CLEARLY * errors
    return bool(((errors <= CERTAIN) | (clear & (errors <= NEARLY))).all())


def averaged(one: RunTimes, restored: Sequence[WhatIf] = ()) -> Laps | None:
    """The run times of ``one`` over several laps; None, if they do not hang on chance, nor with all ``restored``.

    There may be as many laps, from FIRST to MOST_LAPS, as PATIENCE has for what is asked of so many ``restored``.
    """
    asked = len(alone_and_together(len(restored)))
    laps = Laps(one, min(MOST_LAPS, max(FIRST, PATIENCE * one.cheap // (1 + asked))))
    both = (UNCHANGED, WhatIf.together(restored))
    return None if all(_are_steady([laps.run_ns(each, lap) for lap in range(FIRST)]) for each in both) else laps


def _are_steady(laps_ns: Sequence[int]) -> bool:
    return max(laps_ns) - min(laps_ns) <= STEADY * max(laps_ns)
