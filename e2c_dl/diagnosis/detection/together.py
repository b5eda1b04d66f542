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

Members that take turns are seldom seen at the same time, and a mean of them has little to say. When one of them is
touched, if its own windows do not tell, those of the others do, in order of time::

    a  |. . '   . . '          those of b and c are slow from here
    b  | .   '   .    '                                 |  |
    c  |   .  '    .'     -->  a's windows between are touched

What most of several were slower by at the same time is :func:`shared_by` them: the same iteration where they keep in
step, the same second where each goes at its own pace.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import noise_of
from e2c_dl.diagnosis.detection.levels import TOLD_BY_OTHERS, levelled, told_apart, told_by_others
from e2c_dl.diagnosis.detection.noise import LEAST_NOISE
from e2c_dl.diagnosis.detection.recurrence import plainly_by_turns
from e2c_dl.diagnosis.detection.series import CERTAINTY, Levelled, Series
from e2c_dl.diagnosis.detection.windows import OWN_PACE

LEAST_WINDOWS = 4  # of either level: fewer tell a member nothing
LEAST_OF_TURNS = 2  # the same, where the others that take turns with it tell when, each by itself
LEAST_TURNING, LEAST_DEPARTING = 3, 2  # members; of the others, that depart: one alone is slow for its own sake
MOST_AT_ONCE = 0.25  # of the windows: more that begin amid another are no turns
MOST_OF_TURNS = 5_000  # windows that are looked at: members times theirs
ASTRAY = 0.4  # of windows in which others tell that a member departs, or does not: as many may be otherwise
FAST = 0.25  # quantile: that of a member's windows it is held beside others at
UNSTEADY = 5.0
LEAST_STEADY = 3  # members: fewer do not tell what is usual
MOST_PLAIN = 0.5  # of all series: of more, TCP is why


def levelled_together(
    several: Sequence[Series], groups: Sequence[Hashable], *, turns: bool = False, known_noise: float | None = None,
    taking_turns: Collection[Hashable] = (),
) -> list[Levelled]:  # fmt: skip
    """``several`` comparable series, at least a window each, with their segments; ``groups``: of which each is.

    ``turns``, ``known_noise``: as :func:`levelled` has them; ``taking_turns``: those of ``groups`` whose members may.
    """
    of_group = {made: [place for place, each in enumerate(groups) if each == made] for made in dict.fromkeys(groups)}
    asked = {place for places in of_group.values() for place in _unsteady(several, places)}
    asked |= _plainly_by_turns(several)
    found = levelled(several, turns=[turns or place in asked for place in range(len(several))], known_noise=known_noise)
    for group, places in of_group.items():
        members = [several[place] for place in places]
        between = _between_others(members) if group in taking_turns else []
        by_mean = _told_by_mean(members)
        in_turn = {member: each.touched for member, each in enumerate(between) if each.tells and member not in by_mean}
        for told, certainty in ((by_mean, TOLD_BY_OTHERS), (in_turn, CERTAINTY)):
            apart = told_by_others([found[places[member]] for member in told], [*told.values()], certainty)
            for member, one in zip(told, apart, strict=True):
                found[places[member]] = one
        for place, among in zip(places, between, strict=False):
            one = found[place]
            found[place] = replace(one, as_others=among.is_as(one.judged(one.base).windows))
    return found


def _told_by_mean(members: Sequence[Series]) -> dict[int, npt.NDArray[np.bool_]]:
    """Member of which their mean tells something -> which of its windows are touched."""
    touched = _touched(members) if len(members) > 1 else None
    if touched is None:
        return {}
    own = {member: touched.of(each) for member, each in enumerate(members)}
    return {
        member: each for member, each in own.items()
        if min(each.sum(), (~each).sum()) >= LEAST_WINDOWS and touched.is_told_without(member)
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class _Between:
    """Where the windows of a member lie among the others'; all of shape (windows,), False where these do not tell."""

    touched: npt.NDArray[np.bool_]  # in the last window before that departs, or between two such
    inside: npt.NDArray[np.bool_]  # between two that depart
    outside: npt.NDArray[np.bool_]  # between two that do not
    beside: npt.NDArray[np.bool_]  # next to one that departs

    @property
    def tells(self) -> bool:
        return bool(min(self.touched.sum(), (~self.touched).sum()) >= LEAST_OF_TURNS)

    def is_as(self, departs: npt.NDArray[np.bool_]) -> bool:
        """Whether a member that ``departs`` then does so when the others do, as far as they tell."""
        strays, stays = (departs & self.outside).sum(), (~departs & self.inside).sum()
        near = (departs & self.beside).sum() >= (1 - ASTRAY) * departs.sum()
        return bool(departs.any() and near and strays <= ASTRAY * departs.sum() and stays <= ASTRAY * self.inside.sum())


def _between_others(members: Sequence[Series]) -> list[_Between]:
    """Each of ``members`` among the others; none, if these do not take turns, are too few, or have too many windows."""
    chosen = [each.tells for each in members]
    counts = [int(each.sum()) for each in chosen]
    if len(members) < LEAST_TURNING or len(members) * sum(counts) > MOST_OF_TURNS:
        return []
    of = np.repeat(np.arange(len(members)), counts)
    values, begins_s, spent_s = (
        np.concatenate([each[telling] for each, telling in zip(own, chosen, strict=True)])
        for own in (
            [each.values - np.quantile(each.values, FAST, method="lower") for each in members],
            [each.begins_s for each in members],
            [each.spent_s for each in members],
        )
    )
    order = np.argsort(begins_s, kind="stable")
    overlaps = np.diff(begins_s[order]) < spent_s[order][:-1] / 2
    if overlaps.mean() > MOST_AT_ONCE:
        return []
    until_s, found = max(each.until_s for each in members), []
    for member, each in enumerate(members):
        others = order[of[order] != member]
        of_others = Series(
            values=values[others], iterations=np.arange(len(others)), begins_s=begins_s[others], until_s=until_s,
            spent_s=spent_s[others],
        )  # fmt: skip
        found.append(_among(of_others, of[others], each))
    return found


def _among(others: Series, of: npt.NDArray[np.int64], member: Series) -> _Between:
    """The windows of ``member``, by the middles of what they took, among those of ``others``, in order of time.

    ``of``, shape as these: whose each is. Where fewer than LEAST_DEPARTING of them depart, none tells anything.
    """
    (one,) = levelled([others])
    departs, begins_s = one.judged(one.base).windows, others.begins_s
    departs &= len(np.unique(of[departs])) >= LEAST_DEPARTING
    at_s = member.begins_s + member.spent_s / 2
    after = np.searchsorted(begins_s, at_s, side="right")
    before, follows = np.maximum(0, after - 1), np.minimum(after, len(departs) - 1)
    has_before, has_after = after > 0, after < len(departs)
    early, late = departs[before] & has_before, departs[follows] & has_after
    within = early & (at_s <= begins_s[before] + others.spent_s[before])
    outside = ~departs[before] & ~departs[follows] & has_before & has_after
    return _Between(touched=within | (early & late), inside=early & late, outside=outside, beside=early | late)


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
