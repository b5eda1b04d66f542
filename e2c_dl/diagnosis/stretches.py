"""Stretches of a run in which an element departs from its reference, and the name of their pattern.

::

    PERSISTENT   |################|     all the time
    SINCE        |------##########|     from an onset to the end
    PERIODIC     |--##---##---##--|     three times or more, at equal distances
    ONCE         |-----###--------|
    AT_TIMES     |-#----###--#----|     several times, at no equal distances

Onset: where the first of them begins, as iteration and as second of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from e2c_dl import formatting
from e2c_dl.ranges import union

MOST_UNEVEN = 0.25
"""Of a period: distances that differ by more, relative to their median, are no period."""

ALIKE = 3.0  # times the shortest: stretches that are no longer are described by one length
LEAST_PERIODS = 3  # two distances: one says nothing of the next


class When(Enum):
    """Pattern of the stretches."""

    PERSISTENT = "persistent"
    SINCE = "since"
    PERIODIC = "periodic"
    ONCE = "once"
    AT_TIMES = "at times"


@dataclass(frozen=True, kw_only=True)
class Stretches:
    """When an element departs. ``begins_s`` and ``ends_s`` are seconds of training, rising, one each per stretch."""

    when: When
    onset_iteration: int
    onset_s: float
    begins_s: tuple[float, ...]
    ends_s: tuple[float, ...]
    period_s: float = 0.0  # of PERIODIC: from one onset to the next, median

    @property
    def length_s(self) -> float:
        """Median over stretches."""
        return float(np.median(np.subtract(self.ends_s, self.begins_s)))

    def described(self) -> str:
        """In words: ``since iteration 20 (second 4.30)``, ``every 10.0 s for 2.00 s``, ``once, for 3.00 s``."""
        long = formatting.seconds(self.length_s)
        onset = f"iteration {self.onset_iteration} (second {self.onset_s:.3g})"
        return {
            When.PERSISTENT: "all the time",
            When.SINCE: f"since {onset}",
            When.PERIODIC: f"every {formatting.seconds(self.period_s)} for {long}, first in {onset}",
            When.ONCE: f"once, for {long} from {onset} on",
            When.AT_TIMES: f"{len(self.begins_s)} times, {self._lengths()}, first in {onset}",
        }[self.when]

    def _lengths(self) -> str:
        """How long the stretches are: each, where they are about as long as each other; else from what to what."""
        each_s = np.subtract(self.ends_s, self.begins_s)
        if each_s.max() <= ALIKE * each_s.min():
            return f"for {formatting.seconds(self.length_s)} each"
        least, most, total = map(formatting.seconds, (each_s.min(), each_s.max(), self.total_s))
        return f"for {least} to {most}, {total} in all"

    @property
    def total_s(self) -> float:
        """Of all stretches together."""
        return float(np.sum(np.subtract(self.ends_s, self.begins_s)))


def throughout(until_s: float) -> Stretches:
    """All of a run that lasts ``until_s``."""
    return Stretches(when=When.PERSISTENT, onset_iteration=0, onset_s=0.0, begins_s=(0.0,), ends_s=(until_s,))


def stretches(
    found: Sequence[tuple[int, int]], windows: int, iterations: npt.NDArray[np.int64],
    begins_s: npt.NDArray[np.float64], until_s: float,
) -> Stretches:  # fmt: skip
    """The pattern of ``found``, which are (first, beyond the last) of ``windows`` windows; at least one, rising.

    ``iterations`` and ``begins_s``: of each window; ``until_s``: where the last ends.
    """
    edges_s = [*begins_s, until_s]
    if [*found] == [(0, windows)]:
        return throughout(until_s)
    seconds = [(float(edges_s[start]), float(edges_s[stop])) for start, stop in found]
    return at_moments(seconds, int(iterations[found[0][0]]), lasts=found[-1][1] == windows)


def at_moments(found: Sequence[tuple[float, float]], onset_iteration: int, *, lasts: bool = False) -> Stretches:
    """The pattern of ``found``, (begin, end) in seconds, at least one, rising; ``lasts``: to the end of the run."""
    begins_s, ends_s = zip(*found, strict=True)
    when, period_s = When.AT_TIMES, _period_s(begins_s) or 0.0
    if len(found) == 1:
        when = When.SINCE if lasts else When.ONCE
    elif period_s:
        when = When.PERIODIC
    return Stretches(
        when=when, onset_iteration=onset_iteration, onset_s=begins_s[0], begins_s=begins_s, ends_s=ends_s,
        period_s=period_s,
    )  # fmt: skip


def united(several: Sequence[Stretches]) -> Stretches:
    """When any of ``several``, at least one, departs."""
    always = next((each for each in several if each.when is When.PERSISTENT), None)
    if always is not None:
        return always
    first = min(several, key=lambda each: each.onset_s)
    found = union(times for each in several for times in zip(each.begins_s, each.ends_s, strict=True))
    lasts = any(each.when is When.SINCE and each.ends_s[-1] >= found[-1][1] for each in several)
    return at_moments(found, first.onset_iteration, lasts=lasts)


def _period_s(starts_s: Sequence[float]) -> float | None:
    """The distance at which ``starts_s`` follow each other, None if there is none; one in five may be missing."""
    if len(starts_s) < LEAST_PERIODS:
        return None
    apart_s = np.diff(starts_s)
    period_s = float(np.median(apart_s))
    laps = np.maximum(1, np.rint(apart_s / period_s))
    even = np.abs(apart_s / laps - period_s) <= MOST_UNEVEN * period_s
    return period_s if bool(even.all()) and laps.sum() <= 1.25 * len(laps) else None
