"""When a link departs, as it is told: by its windows, or by more than these.

::

    a rate that recurs    |--##--##--##--|      its own times, where no window tells one of them from another
    what recurs           |-o-x---##---##|      back into the warm-up (o), where messages are as late, at its period:
                                                windows that have to open make others late, between (x)
    losses                |---o---o######|      from the first late message on: most meet no loss, and tell nothing
    on machines           |-o-oo####---o-|      without what is little beside the rest: busy readers, windows that open
    losses by turns       |--##oo##oo##oo|      or, after each of them, grow again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS, Kind
from e2c_dl.diagnosis.detection.links.tcp_simulated import at_least_ns, later_than
from e2c_dl.diagnosis.detection.series import rows_of
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.stretches import MOST_UNEVEN, Stretches, When, at_moments

TWO = 2  # levels, of what is by turns
LITTLE = 0.25  # of what another stretch departs by, and of all; or more of one, up to twice, and less of the other


def told_when(each: JudgedLink, kind: Kind, would_ns: Doubles | None, *, measured: bool = False) -> Stretches:
    """When ``each`` departs, which does as ``kind`` says.

    ``would_ns``, shape (messages,): what each message takes as designed; None: nobody knows. ``measured``: on machines.
    """
    link, found = each.link, each.stretches
    served_s, left_s = (link.left_ns - link.services_ns) / 1e9, link.left_ns / 1e9
    if kind.slow:
        slow = [times for times in kind.slow if times[1] > served_s.min()]
        return at_moments(slow, each.iteration_at(slow[0][0]))
    if would_ns is None:
        return _most_of(each, kind) if measured and found.when is not When.PERIODIC else found
    before = served_s < found.onset_s
    if found.when is When.PERIODIC:
        least_ns = at_least_ns(link, would_ns) * np.sqrt(each.judged.slowdown)  # nearer to what it is than to design
        late = before & (link.services_ns > least_ns + GRAIN_NS)
        early = [(float(served_s[start]), float(left_s[stop - 1])) for start, stop in rows_of(late)]
        early = [times for times in early if _recurs(found.onset_s - times[0], found.period_s)]
        times = [*early, *zip(found.begins_s, found.ends_s, strict=True)]
        further = at_moments(times, each.iteration_at(times[0][0]))
        return further if early and further.when is When.PERIODIC else found
    if kind.part is Part.LOSS and found.when is When.SINCE:
        late = before & later_than(link, would_ns, link.designed.jitter_s * 1e9)
        if late.any():
            onset_s = float(served_s[late][0])
            return at_moments([(onset_s, found.ends_s[-1])], each.iteration_at(onset_s), lasts=True)
    return found


def _most_of(each: JudgedLink, kind: Kind) -> Stretches:
    """When ``each`` departs, without stretches in which it does by little beside another one, and so little in all.

    Of losses by turns what is between them may depart, too: by a window that grows again.
    """
    levelled, departs = each.judged.levelled, each.judged.departs
    several = np.unique(np.round(levelled.levels[departs], 6))
    if kind.part is Part.LOSS and len(several) == TWO < departs.sum():
        by_turns = _without_little(each, [(one, one + 1) for one in np.flatnonzero(departs).tolist()])
        if by_turns is not each:
            return by_turns.stretches
    rows = rows_of(departs)
    return _without_little(each, rows if kind.part is Part.LOSS or departs.all() else _begun(each, rows)).stretches


def _begun(each: JudgedLink, rows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """``rows`` of its levels, of which the first are apart that are little beside the most of their row.

    But for one window right before the rest that departs by itself: it may have changed amid that.
    """
    judged, found = each.judged, []
    beyond = np.maximum(0.0, np.expm1(judged.levelled.levels - judged.reference))
    amid = (judged.levelled.lengths == 1) & (beyond > np.expm1(judged.apart))
    for start, stop in rows:
        first = start + int(np.argmax(beyond[start:stop] >= LITTLE * beyond[start:stop].max()))
        first -= bool(first > start and amid[first - 1])
        found += [row for row in ((start, first), (first, stop)) if row[0] < row[1]]
    return found


def _without_little(each: JudgedLink, rows: Sequence[tuple[int, int]]) -> JudgedLink:
    """``each`` without those ``rows`` of its levels that are little; as it is, if these are not little together."""
    levelled, departs = each.judged.levelled, each.judged.departs.copy()
    beyond = np.expm1(levelled.levels - each.judged.reference)
    most = np.array([beyond[start:stop].max() for start, stop in rows])
    in_all = np.array([beyond[start:stop] @ levelled.lengths[start:stop] for start, stop in rows])
    if most.max() <= 0:
        return each
    by, share = most / most.max(), in_all / in_all.max()
    little = (by * share < LITTLE**2) & (np.maximum(by, share) < 2 * LITTLE)
    if not little.any() or in_all[little].sum() > LITTLE * in_all.sum():
        return each
    for row in np.flatnonzero(little).tolist():
        departs[slice(*rows[row])] = False
    return replace(each, judged=each.judged.only(departs))


def _recurs(apart_s: float, period_s: float) -> bool:
    """Whether what is ``apart_s`` is so by about a whole number of periods."""
    laps = round(apart_s / period_s)
    return laps > 0 and abs(apart_s / laps - period_s) <= MOST_UNEVEN * period_s
