"""Series of one part of one element over windows of the run, and which of its stretches depart from a reference.

Of every window (an iteration, or a piece of time) a series has the logarithm of how long the element took, beside its
design; logarithms, for noise multiplies, and twice as slow is as far from normal as twice as fast. ::

    log(observed / design)     ______
                       _______|      |______        segments: windows of one level (change_points)
    reference  -------------------------------      0, or what peers or the element's own past make it
                              |depart|

A segment of k windows departs if its level is above the reference by more than all of these, and so a finding has a
floor that is known beforehand: :attr:`Judged.resolution`.

* FLOOR. Models, calibrations and emulation differ from what they stand for by some percent on any machine; links of a
  modelled world differ from their own model by what TCP makes of them, FLOOR_MODELLED;
* CERTAINTY standard errors of that level, sigma / sqrt(k), by this series' own noise: 4, for noise has as many
  ways to look like a departure as there are elements times segments;
* what the caller knows of its kind: how far comparable elements lie apart by themselves.

Stretches that are too short to be told each by itself, but recur, are told together (:mod:`.levels`). One that is far
less than another, and not SURE, is noise, which is not always normal: it would be the onset of what came much later.

A departure whose stretches lasted less than WORTH of the run longer than their reference is dropped: no restored run is
shorter by more than what was taken off its services, so it can not matter; but to a strategy that chooses by rates, of
which :mod:`e2c_dl.diagnosis.choices` asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import PENALTY, Doubles, Segments
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.stretches import Stretches, stretches

FLOOR = float(np.log(1.1))
FLOOR_MODELLED = float(np.log(1.05))
CERTAINTY = 4.0
WORTH = 0.01
BASE_SHARE = 0.25  # of the windows: so long must an element be fast for this to be its own normal
SURE = 7.0  # standard errors: as far, noise is not even where a host is noisier than usual for a while
BESIDE = 0.25  # of what the greatest stretch takes longer: what is less, and not SURE, is noise beside it
NOTHING = 0.01  # of the time that the greatest stretch takes longer: as many times longer, but of next to no time
NEAR_THEM = 0.25  # of what the lesser of two neighbours departs by: what departs by less is normal between them


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """All of shape (windows,), windows in order of time; ``values`` are logarithms."""

    values: Doubles
    iterations: npt.NDArray[np.int64]
    begins_s: Doubles  # seconds of training
    until_s: float  # where the last window ends
    spent_s: Doubles  # what it took: what a restored run can save is a part of this
    plain: Doubles | None = None  # observed / design itself, where values are the logarithm of something steadier
    known_noise: float | None = None  # of values, where they are as designed; None: it has to be told by themselves
    telling: npt.NDArray[np.bool_] | None = None  # the others tell nothing by themselves; None: all do

    @property
    def tells(self) -> npt.NDArray[np.bool_]:
        """Which windows tell what it was like."""
        return np.ones(len(self), dtype=bool) if self.telling is None else self.telling

    @property
    def designed_s(self) -> Doubles:
        """What it would have taken by its design."""
        return self.spent_s / (np.exp(self.values) if self.plain is None else self.plain)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, kw_only=True, eq=False)
class Levelled:
    """A series with its segments and their levels."""

    series: Series
    noise: float
    found: Segments
    levels: Doubles  # (segments,)
    told_by: Doubles  # (segments,) windows that tell each level: of a recurrence all that it touches, or does not
    certainty: float = CERTAINTY  # standard errors by which a level must depart
    as_others: bool = False  # others of its layer tell when it departs

    @cached_property
    def lengths(self) -> Doubles:
        return np.array([stop - start for start, stop in self.found], dtype=np.float64)

    def cost(self, noise: float, parameters: int) -> float:
        """Squares about its levels in units of ``noise``, and PENALTY for ``parameters``, as change points cost."""
        left = (self.series.values - np.repeat(self.levels, self.lengths.astype(np.int64))) / noise
        return float((left**2).sum() + PENALTY * np.log(len(left)) * parameters)

    @cached_property
    def _fast(self) -> npt.NDArray[np.intp]:
        """The lowest segments that make up BASE_SHARE of the windows together."""
        order = np.argsort(self.levels, kind="stable")
        together = np.cumsum(self.lengths[order])
        return order[: int(np.searchsorted(together, BASE_SHARE * together[-1])) + 1]

    @property
    def base(self) -> float:
        """Level at which it is when it is fast."""
        return float(np.average(self.levels[self._fast], weights=self.lengths[self._fast]))

    @property
    def base_error(self) -> float:
        """Standard error of the base."""
        return self.noise / float(np.sqrt(max(self.lengths[self._fast].sum(), self.told_by[self._fast].max())))

    def judged(self, reference: float, apart: float = 0.0, floor: float = FLOOR) -> Judged:
        """This beside ``reference``, from which it must be further than ``apart`` and ``floor``."""
        beyond = self.levels - reference
        far = np.where(self._rose, floor, max(floor, apart))
        need = np.maximum(far, self.certainty * self.noise / np.sqrt(self.told_by))
        departs = beyond > need
        # A segment between two that depart, and itself clearly not normal, is a part of their stretch.
        beside = np.concatenate([[False], departs[:-1]]) & np.concatenate([departs[1:], [False]])
        lesser = np.minimum(np.append(np.inf, beyond[:-1]), np.append(beyond[1:], np.inf))
        departs |= beside & (beyond > np.maximum(need / 2, lesser * NEAR_THEM))
        return Judged(
            levelled=self, reference=reference, apart=max(floor, apart), departs=departs, like=self.like(departs)
        )

    @property
    def _rose(self) -> npt.NDArray[np.bool_]:
        """Which levels are clearly above its own base, when others tell: not for how far comparable ones lie apart."""
        if self.certainty >= CERTAINTY:
            return np.zeros(len(self.levels), dtype=bool)
        error = np.hypot(self.noise / np.sqrt(self.told_by), self.base_error)
        return np.asarray(self.levels - self.base > np.maximum(FLOOR, self.certainty * error))

    def like(self, departs: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
        """Itself; of segments that tell nothing, the one that ``departs`` before them, if another, or the end, follows.

        Before the first that tells anything, that one.
        """
        tells = self.series.tells
        like = np.arange(len(departs))
        for start, stop in rows_of(~departs & np.array([not tells[start:stop].any() for start, stop in self.found])):
            at_end = stop == len(departs)
            if start == 0:
                like[:stop] = like[:stop] if at_end or not departs[stop] else stop
            elif departs[start - 1] and (at_end or departs[stop]):
                like[start:stop] = start - 1
        return like


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """Which segments of a series depart from ``reference``."""

    levelled: Levelled
    reference: float
    apart: float
    departs: npt.NDArray[np.bool_]  # (segments,)
    like: npt.NDArray[
        np.intp
    ]  # (segments,) the one that each is restored with: itself, or where it tells nothing another
    reference_error: float = 0.0  # standard error of the reference, of few peers

    @property
    def resolution(self) -> float:
        """How many times slower it must have been, all the time, to be seen."""
        series_error = self.levelled.noise / np.sqrt(max(1, len(self.levelled.series)))
        return float(np.exp(max(self.apart, CERTAINTY * float(np.hypot(series_error, self.reference_error)))))

    @cached_property
    def windows(self) -> npt.NDArray[np.bool_]:
        """Which windows depart."""
        return np.repeat(self.departs, self.levelled.lengths.astype(np.int64))

    @cached_property
    def beyond(self) -> Doubles:
        """Of each window the level beyond the reference."""
        return np.repeat(self.levelled.levels - self.reference, self.levelled.lengths.astype(np.int64))

    @property
    def slowdown(self) -> float:
        """Times slower while it departs: what it took in those windows / what it would have."""
        return float(self.levelled.series.spent_s[self.windows].sum() / self._expected_s[self.windows].sum())

    @property
    def usual_s(self) -> tuple[float, float]:
        """(what a window takes, what it would by the reference), medians of those in which it departs.

        Not the one over :attr:`slowdown`, a mean: of what is slow by turns, windows are not all as slow.
        """
        series = self.levelled.series
        spent_s, designed_s = (float(np.median(each[self.windows])) for each in (series.spent_s, series.designed_s))
        return spent_s, designed_s * float(np.exp(self.reference))

    @property
    def excess_s(self) -> float:
        """What it took longer than its reference while it departed: no restored run saves more."""
        return float((self.levelled.series.spent_s - self._expected_s)[self.windows].sum())

    @cached_property
    def _expected_s(self) -> Doubles:
        """What each window would have taken by the reference, noise included, whose mean is above its median.

        The reference is a level of logarithms, and times add up; ``plain`` ones are held to what is no such level.
        """
        series = self.levelled.series
        mean = self.reference + (self.levelled.noise**2 / 2 if series.plain is None else 0.0)
        return np.asarray(series.designed_s * np.exp(mean))

    @property
    def clear(self) -> Judged:
        """This without stretches that noise may well be, and that take little longer beside another, or nothing.

        Not of links, where a few late messages tell why.
        """
        levelled, rows = self.levelled, rows_of(self.departs)
        beyond = (levelled.levels - self.reference) * levelled.lengths
        longer = np.array([float(beyond[start:stop].sum()) for start, stop in rows])
        firsts = [start for start, _ in levelled.found]
        excess_s = np.add.reduceat(levelled.series.spent_s - self._expected_s, firsts)
        costs_s = np.array([float(excess_s[start:stop].sum()) for start, stop in rows])
        most_s = costs_s.max(initial=0.0)
        nothing = (most_s > 0) & (costs_s < NOTHING * most_s)
        nothing &= costs_s[nothing].sum() < NOTHING * costs_s.sum()  # all of them together, too
        kept = self.departs.copy()
        for (start, stop), own, is_nothing in zip(rows, longer.tolist(), nothing.tolist(), strict=True):
            mean = own / levelled.lengths[start:stop].sum()
            surely = mean * np.sqrt(levelled.told_by[start:stop].sum()) >= SURE * levelled.noise
            kept[start:stop] = not is_nothing and (surely or own >= BESIDE * longer[~nothing].max())
        return self.only(kept)

    def only(self, departs: npt.NDArray[np.bool_]) -> Judged:
        """This, of which those segments alone depart."""
        return replace(self, departs=departs, like=self.levelled.like(departs))

    @property
    def shown(self) -> list[tuple[int, int]]:
        """(first, beyond the last) of each row of windows in which it departs, from the first segment on that does.

        Also where it tells nothing in between.
        """
        known = self.departs[self.like] & (self.like <= np.arange(len(self.like)))
        return rows_of(np.repeat(known, self.levelled.lengths.astype(np.int64)))

    @cached_property
    def stretches(self) -> Stretches:
        """When it departs."""
        series = self.levelled.series
        return stretches(self.shown, len(series), series.iterations, series.begins_s, series.until_s)

    def scale(self) -> Piecewise:
        """Over seconds of training: what its services are to be multiplied by to be as their reference has them."""
        series = self.levelled.series
        firsts = np.array([start for start, _ in self.levelled.found])
        restored = np.add.reduceat(self._expected_s, firsts) / np.add.reduceat(series.spent_s, firsts)
        values = np.where(self.departs, np.minimum(1.0, restored), 1.0)[self.like[self._first_alike]]
        starts_s = series.begins_s[firsts[self._first_alike]]
        starts_s[0] = 0.0  # warm-up is as what follows it
        return Piecewise(starts_s=np.append(starts_s, series.until_s), values=np.append(values, values[-1]))

    def scale_of_each(self) -> Piecewise:
        """The same, where what a window takes beyond its reference is known of each by itself, and no noise."""
        series = self.levelled.series
        restored = np.minimum(1.0, np.exp(self.reference - series.values))
        values = np.where(self.windows, restored, 1.0)
        before = np.median(restored) if self.windows[0] else 1.0  # warm-up is as what follows it
        starts_s = np.concatenate([[0.0], series.begins_s, [series.until_s]])
        return Piecewise(starts_s=starts_s, values=np.concatenate([[before], values, values[-1:]]))

    def during(self) -> Piecewise:
        """Over seconds of training: 1.0 while it departs, else 0.0."""
        held = self.scale()
        departs = self.departs[self.like[self._first_alike]]
        return replace(held, values=np.append(departs, departs[-1:]).astype(np.float64))

    @cached_property
    def _first_alike(self) -> npt.NDArray[np.intp]:
        """The first segment of each row of those that are restored with the same one."""
        return np.flatnonzero(np.diff(self.like, prepend=-1))


def rows_of(touched: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(start, stop) of each row of those that are ``touched``."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], touched, [False]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
