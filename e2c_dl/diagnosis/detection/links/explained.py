"""Stretches in which a link is as late as TCP makes it as designed, though in others it departs: no part of that.

::

    observed   |==|=====|==|==|=========|=========|        what each message takes
    simulated  |==|=====|==|==|==|==|                      the first is TCP's, by its windows; the second is not

On machines nobody knows what TCP makes of a link. But where messages depart as if segments were lost, and those of one
stretch, which are late by most of it all, as at a lower rate, that is what departs: the others are TCP's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import LEAST_SCATTERED, MAY_SCATTER, kind_of
from e2c_dl.diagnosis.detection.links.lower_rate import recurring_rate
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.detection.series import rows_of
from e2c_dl.diagnosis.model import Part

LATEST = 0.5  # of what all stretches are late: the one by so much, evenly, is why, and windows are of the others
MOST = 0.5  # of what a stretch is late by: that much TCP must make by itself, for jitter alone may explain little


def without_explained(each: JudgedLink, as_designed: AsDesigned) -> JudgedLink:
    """``each``, which departs, without those of its stretches that are as designed, as far as anybody knows."""
    would_ns, departs = as_designed.exactly_ns(each.link), each.judged.departs.copy()
    if would_ns is None:
        return each if as_designed.exact else _by_one_rate(each, as_designed)
    late_ns, would_be_late_ns = each.link.services_ns - each.link.expected_ns, would_ns - each.link.expected_ns
    windows = np.arange(len(each.of.series))
    for segment in np.flatnonzero(departs).tolist():
        start, stop = each.judged.levelled.found[segment]
        of = each.of.messages((start <= windows) & (windows < stop))
        mostly = float(would_be_late_ns[of].sum()) >= MOST * float(late_ns[of].sum())
        if mostly and as_designed.explains(each.link, of):
            departs[segment] = False
    return replace(each, judged=each.judged.only(departs)) if departs.any() else each


def _by_one_rate(each: JudgedLink, as_designed: AsDesigned) -> JudgedLink:
    """``each``, and if it seems to lose segments, but is late mostly in one stretch, by a lower rate: that alone.

    Not if it is late by a rate in the others, too, nor if one rate that recurs suits all of them.
    """
    rows = rows_of(each.judged.departs)
    if len(rows) < 2 or each.link.by_receiver or each.link.designed.loses:
        return each
    late_ns = np.maximum(0, each.link.services_ns - each.link.expected_ns)
    every = each.of.messages(each.judged.windows)
    places = np.arange(len(each.judged.departs))
    alone = [replace(each, judged=each.judged.only((start <= places) & (places < stop))) for start, stop in rows]
    latest = max(alone, key=lambda one: float(late_ns[one.of.messages(one.judged.windows)].sum()))
    own = latest.of.messages(latest.judged.windows)
    if own.sum() < LEAST_SCATTERED or late_ns[own].sum() < LATEST * late_ns[every].sum():
        return each
    if kind_of(each.link, every).part is not Part.LOSS or kind_of(each.link, every & ~own).part is Part.RATE:
        return each
    kind = kind_of(each.link, own)
    evenly = kind.part is Part.RATE and not kind.delay_ns and kind.scatter < MAY_SCATTER
    return latest if evenly and recurring_rate(each, as_designed) is None else each
