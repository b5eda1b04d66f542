"""The levels of comparable series: change points by their own noise and others', and recurrences told together.

::

    series --noise, pooled--> segments --levels--> Levelled
                         '--> recurring, by turns, or told by others --> two levels, if they tell more
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import MAD_OF_NORMAL, Doubles, noise_of, segments
from e2c_dl.diagnosis.detection.noise import LEAST_NOISE, LEAST_POOLED, POOLED_AS, pooled, pooled_as
from e2c_dl.diagnosis.detection.recurrence import almost_one_stretch, by_turns, recurring, recurring_of_many
from e2c_dl.diagnosis.detection.series import FLOOR_MODELLED, Levelled, Series

TOLD_BY_OTHERS = 2.5  # standard errors by which a level must depart, where others tell when
RECURRENCE = 2  # change points: period, phase, length and level, of which one has two
CLIPPED = 3.0  # sigma: beyond it a window counts as that far, for one late read must not make a level


def levelled(
    several: Sequence[Series], *, turns: bool | Sequence[bool] = False, known_noise: float | None = None
) -> list[Levelled]:
    """``several`` comparable series, at least a window each, with their segments.

    ``turns``, of all or of each: what has two levels by turns is slow in those of the upper one. Not of links, whose
    TCP does so. ``known_noise``: of many others beside them that have the same, if these are few.
    """
    own = [noise_of(each.values) for each in several]
    usual = float(np.median([noise for noise, each in zip(own, several, strict=True) if len(each) > 1] or [0.0]))
    counted = pooled_as(own, [len(each) for each in several])
    known = usual if len(several) >= LEAST_POOLED else known_noise
    made = []
    for each, noise, asked in zip(several, own, np.broadcast_to(turns, len(several)), strict=True):
        shared = pooled(noise, len(each) if noise else 0, usual, counted)
        if each.known_noise is not None:
            shared = max(LEAST_NOISE, min(shared, each.known_noise))
        made.append(_levelled(each, shared, known, turns=bool(asked)))
    return made


def levelled_at(series: Series, noise: float) -> Levelled:
    """``series``, a window at least, with the segments of a noise that is known; what recurs is not looked for."""
    found = segments(series.values, noise)
    lengths = np.array([stop - start for start, stop in found], dtype=np.float64)
    levels = np.array([_level(series.values[start:stop], noise) for start, stop in found])
    return Levelled(series=series, noise=noise, found=found, levels=levels, told_by=lengths)


def _levelled(series: Series, noise: float, known: float | None, *, turns: bool) -> Levelled:
    """``known``: the noise of many others; None: there are few. It tells nothing of links, as :func:`levelled` says."""
    own = levelled_at(series, noise)
    if np.ptp(series.values) < FLOOR_MODELLED:  # no window departs from another
        return own
    touched = recurring(series.begins_s, series.values, known if turns else None)
    if touched is None and turns:
        touched = by_turns(series.values, known)
        if touched is not None and len(own.found) > 1 and almost_one_stretch(touched):
            return own  # which windows noise took across tells nothing of when
    if touched is None:
        touched = recurring_of_many(series.begins_s, series.values)
    return own if touched is None else told_better(own, touched, RECURRENCE)


def told_better(own: Levelled, touched: npt.NDArray[np.bool_], parameters: int) -> Levelled:
    """``own``, or two levels, of the windows that are ``touched`` (some, not all) and of the others, if they tell more.

    ``parameters``: what else had to be found for them, in change points.
    """
    return _more_told(own, told_apart(own.series, touched), parameters)


def _more_told(own: Levelled, apart: Levelled, parameters: int) -> Levelled:
    if len(own.found) == 1:
        return apart
    return min(own, apart, key=lambda each: each.cost(own.noise, len(own.found) - 1 if each is own else parameters))


def told_by_others(
    several: Sequence[Levelled], touched: Sequence[npt.NDArray[np.bool_]], certainty: float = TOLD_BY_OTHERS
) -> list[Levelled]:
    """Each of ``several``, or two levels, of the windows ``touched`` and of the others, if these tell more.

    When they are touched all of them together tell, so that a window is not chosen for its own value: they need not be
    as certain, but for ``certainty`` standard errors. What they leave is pooled as all noise is.
    """
    aparts = [told_apart(own.series, each) for own, each in zip(several, touched, strict=True)]
    usual = float(np.median([each.noise for each in aparts])) if aparts else 0.0
    aparts = [
        replace(each, noise=pooled(each.noise, len(each.series), usual, POOLED_AS), certainty=certainty)
        for each in aparts
    ]
    return [_more_told(own, apart, 1) for own, apart in zip(several, aparts, strict=True)]


def told_apart(series: Series, touched: npt.NDArray[np.bool_]) -> Levelled:
    """``series`` with two levels: of the windows that are ``touched``, some and not all, and of the others.

    Its noise is what both leave: between neighbours it would be that of a disturbance that comes and goes.
    """
    edges = [0, *(np.flatnonzero(np.diff(touched)) + 1).tolist(), len(series)]
    of_each = [touched[start] for start in edges[:-1]]
    left = np.concatenate(
        [series.values[touched == each] - np.median(series.values[touched == each]) for each in (False, True)]
    )
    noise = max(LEAST_NOISE, float(np.median(np.abs(left))) / MAD_OF_NORMAL)
    level = {each: _level(series.values[touched == each], noise) for each in (False, True)}
    count = {each: float((touched == each).sum()) for each in (False, True)}
    return Levelled(
        series=series, noise=noise, found=list(pairwise(edges)), levels=np.array([level[each] for each in of_each]),
        told_by=np.array([count[each] for each in of_each]),
    )  # fmt: skip


def _level(values: Doubles, noise: float) -> float:
    middle = np.median(values)
    return float(np.clip(values, middle - CLIPPED * noise, middle + CLIPPED * noise).mean())
