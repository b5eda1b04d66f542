"""Series of a whole layer together: what each member shows too little of is told by all of them, then asked of each.

::

    a  |..'..'...'..        mean of the members  |__-__-___-__   where it departs from itself: touched
    b  |.'...'..'...   -->                                        |  |   |
    c  |..'.'...'...        each member          two levels, of the windows that are touched and of the others

Noise of m members is less by the root of m in their mean. When they are slow is known then, so that each of them is
asked one question more, not as many as it has windows: it departs only if it does by itself, if with less certainty
than where its own windows have to tell when. It is asked only if the others, without it, are slower then: of few, the
mean follows each of them, and its own noise would tell when.

One that is UNSTEADY times as uneven as most of its layer, or, where that has few, as most of all, is not so by chance:
it may be slow by turns, which of a layer that is uneven altogether nothing tells, since TCP serves all of its links so.
Nor is one by chance that is plainly slow by turns, as not even half of all are.

What most of several were slower by at the same time is :func:`shared_by` them: the same iteration where they keep in
step, the same second where each goes at its own pace.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import noise_of
from e2c_dl.diagnosis.detection.levels import TOLD_BY_OTHERS, levelled, told_apart, told_by_others
from e2c_dl.diagnosis.detection.noise import LEAST_NOISE
from e2c_dl.diagnosis.detection.recurrence import plainly_by_turns
from e2c_dl.diagnosis.detection.series import Levelled, Series
from e2c_dl.diagnosis.detection.windows import OWN_PACE

LEAST_WINDOWS = 4  # of either level: fewer tell a member nothing
UNSTEADY = 5.0
LEAST_STEADY = 3  # members: fewer do not tell what is usual
MOST_PLAIN = 0.5  # of all series: of more, TCP is why


def levelled_together(
    several: Sequence[Series], groups: Sequence[Hashable], *, turns: bool = False, known_noise: float | None = None
) -> list[Levelled]:
    """``several`` comparable series, at least a window each, with their segments; ``groups``: of which each is.

    ``turns``, ``known_noise``: as :func:`levelled` has them.
    """
    of_groups = [[place for place, each in enumerate(groups) if each == group] for group in dict.fromkeys(groups)]
    asked = {place for places in of_groups for place in _unsteady(several, places)} | _plainly_by_turns(several)
    by_turns = [turns or place in asked for place in range(len(several))]
    found = levelled(several, turns=by_turns, known_noise=known_noise)
    for places in of_groups:
        touched = _touched([several[place] for place in places]) if len(places) > 1 else None
        if touched is None:
            continue
        own = {place: touched.of(several[place]) for place in places}
        both = [
            place for place, each in own.items()
            if min(each.sum(), (~each).sum()) >= LEAST_WINDOWS and touched.is_told_without(places.index(place))
        ]  # fmt: skip
        told = told_by_others([found[place] for place in both], [own[place] for place in both])
        for place, each in zip(both, told, strict=True):
            found[place] = each
    return found


def _unsteady(several: Sequence[Series], places: Sequence[int]) -> list[int]:
    """Which of ``places`` are far more uneven than most of them, or of all ``several`` where they are few."""
    among = several if len(places) <= LEAST_STEADY else [several[place] for place in places]
    if len(among) <= LEAST_STEADY:
        return []
    usual = max(LEAST_NOISE, float(np.median([noise_of(each.values) for each in among])))
    return [place for place in places if noise_of(several[place].values) > UNSTEADY * usual]


def _plainly_by_turns(several: Sequence[Series]) -> set[int]:
    """Which of them plainly are, if that is not what most of them are like."""
    found = {place for place, each in enumerate(several) if plainly_by_turns(each.values)}
    return found if len(found) <= MOST_PLAIN * len(several) else set()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Touched:
    """The windows of ``mean`` that are touched."""

    mean: Series
    touched: npt.NDArray[np.bool_]
    own: npt.NDArray[np.float64]  # shape (members, windows): each member's values, 0 where it did not train
    trained: npt.NDArray[np.bool_]  # the same shape

    @cached_property
    def total(self) -> npt.NDArray[np.float64]:
        """Of each window, over its members."""
        return np.asarray(self.own.sum(axis=0))

    @cached_property
    def count(self) -> npt.NDArray[np.int64]:
        """Of each window, how many trained."""
        return np.asarray(self.trained.sum(axis=0))

    def of(self, series: Series) -> npt.NDArray[np.bool_]:
        """Which windows of ``series`` are touched, by their time."""
        return np.asarray(self.touched[_places(self.mean.begins_s, _middles_s(series))])

    def is_told_without(self, member: int) -> bool:
        """Whether the mean of the others is above itself, too, while they are touched."""
        others = (self.total - self.own[member]) / np.maximum(1, self.count - self.trained[member])
        apart = replace(told_apart(replace(self.mean, values=others), self.touched), certainty=TOLD_BY_OTHERS)
        return bool(apart.judged(apart.base).windows[self.touched].all())


def _touched(members: Sequence[Series]) -> _Touched | None:
    """When the mean of ``members`` is above itself at its fastest; None: never, or all the time.

    In windows of the one that trained longest, of those that trained then.
    """
    longest = max(members, key=lambda each: each.until_s - each.begins_s[0])
    middles_s = _middles_s(longest)
    trained = np.array([(each.begins_s[0] <= middles_s) & (middles_s < each.until_s) for each in members])
    values = [(each.values - np.median(each.values))[_places(each.begins_s, middles_s)] for each in members]
    own = np.where(trained, values, 0.0)
    mean = replace(longest, values=own.sum(axis=0) / np.maximum(1, trained.sum(axis=0)), plain=None)
    (one,) = levelled([mean])
    departs = one.judged(one.base).windows
    if not departs.any() or departs.all():
        return None
    return _Touched(mean=mean, touched=departs, own=own, trained=trained)


def _middles_s(series: Series) -> npt.NDArray[np.float64]:
    return np.asarray((series.begins_s + np.append(series.begins_s[1:], series.until_s)) / 2)


def _places(begins_s: npt.NDArray[Any], at_s: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """The window in which each time lies; of one before the first, that."""
    return np.maximum(0, np.searchsorted(begins_s, at_s, side="right") - 1)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What several series have at the same time, as a ``series`` in windows in which all of them have some."""

    series: Series
    in_step: bool

    def of(self, one: Series, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """``values``, one per window of :attr:`series`, in the windows of ``one`` of those that have it.

        At their own pace nothing is known of windows in which not all trained: 0.
        """
        shared = self.series
        if self.in_step:
            return np.asarray(values[_places(shared.iterations, one.iterations)])
        middles_s = _middles_s(one)
        among = (shared.begins_s[0] <= middles_s) & (middles_s < shared.until_s)
        return np.where(among, values[_places(shared.begins_s, middles_s)], 0.0)


def shared_by(part: float, several: Sequence[Series], bases: Sequence[float]) -> Shared | None:
    """By how much that ``part`` of ``several`` is above its own of ``bases``, at least; None, if they never meet."""
    longest = max(several, key=lambda each: each.until_s - each.begins_s[0])
    met = reduce(np.intersect1d, [each.iterations for each in several])
    rows = [np.searchsorted(each.iterations, met) for each in several]
    begun_s = np.stack([each.begins_s[own] for each, own in zip(several, rows, strict=True)])
    apart_s = OWN_PACE * (longest.until_s - longest.begins_s[0]) / len(longest)
    in_step = len(met) > 0 and float(np.ptp(begun_s, axis=0).max()) <= apart_s
    if in_step:
        chosen, of = rows[0], several[0]
    else:
        of, middles_s = longest, _middles_s(longest)
        chosen = np.flatnonzero([
            all(each.begins_s[0] <= at_s < each.until_s for each in several) for at_s in middles_s.tolist()
        ])  # fmt: skip
        rows = [_places(each.begins_s, middles_s[chosen]) for each in several]
    if not len(chosen):
        return None
    beyond = [each.values[own] - base for each, own, base in zip(several, rows, bases, strict=True)]
    values = np.quantile(np.stack(beyond), 1 - part, axis=0, method="lower")
    ends_s = np.append(of.begins_s[1:], of.until_s)
    series = replace(
        of, values=values, iterations=of.iterations[chosen], begins_s=of.begins_s[chosen],
        until_s=float(ends_s[chosen[-1]]), spent_s=of.spent_s[chosen],
    )  # fmt: skip
    return Shared(series=series, in_step=in_step)
