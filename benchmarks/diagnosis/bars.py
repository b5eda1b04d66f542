"""What is asked for of the diagnosis, and whether a campaign meets it. README's table shows the same figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.diagnosis.judging import CLEAN, MATERIAL, Culprit, Outcome

RIGHT_LARGE = 0.99
RIGHT_SMALL = 0.95
RIGHT_BOTH = 0.95
ONSET_WITHIN = 3  # iterations
RIGHT_ONSET = 0.90
FALSE_ALARMS = 0.01
ERROR_MEDIAN = 0.05  # of the run time
ERROR_90 = 0.10
LEAST_RUNS = 300  # material, and as many clean
LEAST_LIVE = 30
LARGE = 1.5


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar and what was found. ``found`` None: nothing to judge by, and so not met."""

    name: str
    asked: str
    found: float | None
    of: int  # runs, or culprits, that were judged
    held: bool

    @property
    def row(self) -> str:
        shown = "-" if self.found is None else f"{self.found:.1%}"
        return f"| {self.name} | {self.asked} | {shown} | {self.of} | {'held' if self.held else 'MISSED'} |"


def bars(outcomes: Sequence[Outcome], *, simulated: bool = True) -> list[Bar]:
    """Every bar, in the README's order; live ones are not run again, and few, if any, are slowed as little as x1.2."""
    material = [one for one in outcomes if one.kind == MATERIAL]
    one = [each for each in material if len(each.material) == 1]
    large = [each for each in one if each.material[0].factor >= LARGE]
    small = [each for each in one if each.material[0].factor < LARGE]
    both = [each for each in material if len(each.material) == 2]
    clean = [each for each in outcomes if each.kind == CLEAN]
    began = [culprit for each in one for culprit in each.material if culprit.onset is not None]
    found = [
        _at_least("exactly right, x1.5 and above", RIGHT_LARGE, [each.right for each in large]),
        *(
            [_at_least("exactly right, x1.2 that costs 5 %", RIGHT_SMALL, [each.right for each in small])]
            if simulated or small
            else []
        ),
        _at_least("both of two", RIGHT_BOTH, [each.right for each in both]),
        _at_least(f"onset within {ONSET_WITHIN} iterations", RIGHT_ONSET, [onset_right(each) for each in began]),
        _at_most("false alarms in clean runs", FALSE_ALARMS, _share([bool(each.named) for each in clean]), len(clean)),
    ]
    for strategy in sorted({each.strategy for each in outcomes}) if simulated else ():
        errors = errors_of(each for each in outcomes if each.strategy == strategy)
        for name, asked, quantile in (("median", ERROR_MEDIAN, 0.5), ("90th percentile", ERROR_90, 0.9)):
            value = float(np.quantile(errors, quantile)) if errors else None
            found.append(_at_most(f"prediction, {strategy}, {name}", asked, value, len(errors)))
    return found


def missed(outcomes: Sequence[Outcome], found: Iterable[Bar], *, live: bool = False) -> list[str]:
    """The bars that are not met, and whether there were fewer runs than they are asked of."""
    material, clean = (sum(each.kind == kind for each in outcomes) for kind in (MATERIAL, CLEAN))
    few = len(outcomes) < LEAST_LIVE if live else min(material, clean) < LEAST_RUNS
    return [bar.name for bar in found if not bar.held] + (["fewer runs than asked for"] if few else [])


def onset_right(culprit: Culprit) -> bool:
    """Whether the iteration in which ``culprit`` began was found."""
    if culprit.onset is None or culprit.onset_found is None:
        return False
    return abs(culprit.onset_found - culprit.onset) <= ONSET_WITHIN


def errors_of(outcomes: Iterable[Outcome]) -> list[float]:
    """The errors of all predictions of what a material culprit cost, as parts of the run time."""
    return [
        culprit.predicted_error
        for each in outcomes
        for culprit in each.material
        if culprit.named and culprit.predicted_error is not None
    ]


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def _at_least(name: str, asked: float, hits: Sequence[bool]) -> Bar:
    share = _share(hits)
    return _bar(name, f"at least {asked:.0%}", share, len(hits), lambda value: value >= asked)


def _at_most(name: str, asked: float, value: float | None, of: int) -> Bar:
    return _bar(name, f"at most {asked:.0%}", value, of, lambda value: value <= asked)


def _bar(name: str, asked: str, found: float | None, of: int, holds: Callable[[float], bool]) -> Bar:
    return Bar(name=name, asked=asked, found=found, of=of, held=found is not None and holds(found))
