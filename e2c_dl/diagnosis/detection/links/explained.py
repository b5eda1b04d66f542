"""Stretches in which a link is as late as TCP makes it as designed, though in others it departs: no part of that.

::

    observed   |==|=====|==|==|=========|=========|        what each message takes
    simulated  |==|=====|==|==|==|==|                      the first is TCP's, by its windows; the second is not
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned

MOST = 0.5  # of what a stretch is late by: that much TCP must make by itself, for jitter alone may explain little


def without_explained(each: JudgedLink, as_designed: AsDesigned) -> JudgedLink:
    """``each``, which departs, without those of its stretches that are as designed; as it is if nobody knows."""
    would_ns, departs = as_designed.exactly_ns(each.link), each.judged.departs.copy()
    if would_ns is None:
        return each
    late_ns, would_be_late_ns = each.link.services_ns - each.link.expected_ns, would_ns - each.link.expected_ns
    windows = np.arange(len(each.of.series))
    for segment in np.flatnonzero(departs).tolist():
        start, stop = each.judged.levelled.found[segment]
        of = each.of.messages((start <= windows) & (windows < stop))
        mostly = float(would_be_late_ns[of].sum()) >= MOST * float(late_ns[of].sum())
        if mostly and as_designed.explains(each.link, of):
            departs[segment] = False
    return replace(each, judged=each.judged.only(departs)) if departs.any() else each
