"""What most hosts of a class are slower by at the same time: the machine's doing where they run on machines, no host's.

::

    a  |__..__..    most are slower at once            |________   a     taken off those that were: nobody is blamed
    b  |__..__..    by as much: common           -->   |________   b
    c  |________    one was not: nothing to take off   |________   c

Of a layer as a whole, where others are as fast as ever, it is what that layer does: nothing is taken off.

Work may vary by itself, too, as where batches are of unlike length: each host is slow at times, at times of its own.
One is named only if it is so more often than chance makes of what is usual among its peers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.host_classes import HostClass
from e2c_dl.diagnosis.detection.host_verdicts import HostVerdict
from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.series import WORTH, Judged, Levelled, rows_of
from e2c_dl.diagnosis.detection.together import shared_by
from e2c_dl.diagnosis.model import Limitation, Part

SHARED_BY = 0.75  # of a class: so many slow at the same time are slow for a common reason
HALF = 0.5  # of it: who is slower by less than that, was not a part of it
LEAST_APART = 3.0  # times the noise of a peer: one of its windows that is less slow than that may be as ever
BY_CHANCE = 3.0  # standard errors of how often


def without_common(
    of: HostClass, own: Sequence[Levelled], part: Part, design: Design, layers: Sequence[str]
) -> tuple[list[Levelled], list[Limitation]]:
    """``own`` without what most of them were slower by at the same time, and that said; ``layers``: that of each."""
    alike = [each.series for each in of.alike]
    bases = [one.base for one in own]
    common = shared_by(SHARED_BY, alike, bases)
    if common is None:
        return list(own), []
    judged = levelled([common.series])[0].judged(0.0, max(map(of.unsure, of.alike)))
    if not judged.departs.any():
        return list(own), []
    steps = [common.of(each, np.where(judged.windows, judged.beyond, 0.0)) for each in alike]
    shares = [_share(each.values - base, asked) for each, base, asked in zip(alike, bases, steps, strict=True)]
    shared = np.array([bool(had.sum() >= HALF * asked.sum()) for had, asked in zip(shares, steps, strict=True)])
    if _of_layers(shared, layers):
        return list(own), []
    taken = levelled(
        [replace(each, values=each.values - had) for each, had in zip(alike, shares, strict=True)], turns=True
    )
    if judged.excess_s < WORTH * design.judged_s:
        return taken, []
    slower = f"{judged.slowdown:.1f} x slower at the same time, since second {judged.stretches.onset_s:.3g}"
    sentence = f"Most of {{}} were {slower}, in {part.value}: none of them is blamed for it."
    names = [each.host for each in of.alike]
    return taken, [Limitation.of(sentence, "host", names, common_s=judged.excess_s)]


def _share(beyond: Doubles, steps: Doubles) -> Doubles:
    """What a host had of what is common, per window, at most all of it: ``beyond`` its base, ``steps`` of the common.

    By the median over all windows of a step, not by each, whose noise is the host's own.
    """
    had = np.zeros(len(steps))
    for step in np.unique(steps[steps > 0]):
        during = steps == step
        had[during] = np.clip(np.median(beyond[during]), 0.0, step)
    return had


def _of_layers(shared: npt.NDArray[np.bool_], layers: Sequence[str]) -> bool:
    """Whether those that ``shared`` it are whole layers, one of several hosts among them, and others are whole, too."""
    of_layers = [shared[[each == layer for each in layers]] for layer in dict.fromkeys(layers)]
    whole = all(members.all() or not members.any() for members in of_layers)
    return whole and not shared.all() and any(len(members) > 1 and members.all() for members in of_layers)


def without_usual(
    verdicts: Sequence[HostVerdict], part: Part, design: Design, layers: Sequence[str]
) -> tuple[list[HostVerdict], list[Limitation]]:
    """``verdicts`` on peers; of those that are slow at times as often as others are nothing departs, and it is said."""
    if _of_layers(np.array([bool(each.judged.departs.any()) for each in verdicts]), layers):
        return list(verdicts), []
    usual = [_is_usual(place, [each.judged for each in verdicts]) for place in range(len(verdicts))]
    kept = [
        replace(each, judged=each.judged.only(np.zeros_like(each.judged.departs))) if found else each
        for each, found in zip(verdicts, usual, strict=True)
    ]
    told = [each for each, found in zip(verdicts, usual, strict=True) if found]
    if not any(each.judged.excess_s >= WORTH * design.judged_s for each in told):
        return kept, []
    times = float(np.median([each.judged.slowdown for each in told]))
    often = f"{times:.1f} x slower in some iterations, in {part.value}, as others alike are"
    sentence = f"{{}} {'is' if len(told) == 1 else 'are'} {often}: nobody is blamed for work that varies."
    return kept, [Limitation.of(sentence, "host", [each.of.host for each in told])]


def _is_usual(place: int, every: Sequence[Judged]) -> bool:
    """Whether that of ``every`` is slow at times, and the middle one of the others is about as often as slow."""
    own, others = every[place], [each for at, each in enumerate(every) if at != place]
    if len(rows_of(own.windows)) < 2 or not others:
        return False
    beyond = HALF * float(np.median(own.beyond[own.windows]))
    often = sorted(float(_slow(each, beyond).mean()) for each in others)[(len(others) - 1) // 2]
    count = len(own.windows)
    usual = often * count
    by_chance = BY_CHANCE * float(np.sqrt(usual * (1 - often) * (1 + 1 / len(others))))
    return bool(often > 0 and own.windows.sum() <= usual + by_chance)


def _slow(judged: Judged, beyond: float) -> npt.NDArray[np.bool_]:
    """In which windows one is slower than its base by more than ``beyond``, as its levels tell, or more than noise."""
    one = judged.levelled
    by_level = np.repeat(one.levels, one.lengths.astype(np.int64)) - one.base > beyond
    return np.asarray(by_level | (one.series.values - one.base > max(beyond, LEAST_APART * one.noise)))
