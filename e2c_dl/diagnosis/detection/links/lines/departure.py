"""A line that several links share, all of which depart: when it did, and what makes it as designed again.

::

    link a    |ok|    |slow|           |ok|          windows in which each carried something
    link b        |ok|        |slow|        |slow|
    line      |-- ok -|--- slow ------| ok |-slow--  as those of its links that carry something have it

A link that carries little says little of when the line was slow: all of them together do. Nor need any one of them
depart by itself, where what they carry together tells (:mod:`.carried`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from e2c_dl.diagnosis.departures import Departure
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.series import Judged, rows_of
from e2c_dl.diagnosis.model import Element, Part, some
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change, Line, WhatIf
from e2c_dl.diagnosis.stretches import Stretches, stretches

HALF = 0.5  # of them


def line_departure(line: Element, links: Sequence[JudgedLink], design: Design) -> Departure:
    """The departure of what ``links``, at least two, share: none of them is as fast as its share."""
    when, scale = _over_time(links)
    slowdown = float(np.median([each.judged.slowdown for each in links]))
    changes = tuple(Change(element=each.link.element, scale=each.judged.scale()) for each in links)
    said = f"carry their messages {slowdown:.1f} x slower than their shares allow, {when.described()}"
    excess_s = sum(each.judged.excess_s for each in links)
    return _departure(line, links, design, _Slow(slowdown, when, scale, changes, said, excess_s))


def whole_line_departure(line: Element, links: Sequence[JudgedLink], judged: Judged, design: Design) -> Departure:
    """The departure of what ``links`` share, as ``judged`` by all that they carry together."""
    when, scale, slowdown = judged.stretches, judged.scale(), judged.slowdown
    changes = tuple(Change(element=each.link.element, scale=scale) for each in links)
    said = f"carry together {slowdown:.2f} x less than it allows, {when.described()}"
    return _departure(line, links, design, _Slow(slowdown, when, scale, changes, said, judged.excess_s))


class _Slow(NamedTuple):
    """How slow a line is, and when; what restores its links where it has no rate of its own."""

    slowdown: float
    when: Stretches
    scale: Piecewise
    changes: tuple[Change, ...]
    said: str
    excess_s: float


def _departure(line: Element, links: Sequence[JudgedLink], design: Design, slow: _Slow) -> Departure:
    (bottleneck,) = (each for each in design.bottlenecks if each.name == line.src)
    capacity = design.capacity(bottleneck)
    restored = Line(
        links=frozenset(each.link.element for each in links), scale=slow.scale, instead=slow.changes,
        designed_bps=capacity if design.reference.modelled else None,
    )  # fmt: skip
    alone_bps = sum(each.link.designed_bps for each in links)  # less, if they all need less
    names = some("link", [str(each.link.element) for each in links])
    expected_bps = min(float(np.median(capacity.values)), alone_bps)
    return Departure(
        element=line, part=Part.RATE, when=slow.when, slowdown=slow.slowdown,
        observed=expected_bps / slow.slowdown, expected=expected_bps,
        evidence=f"All links of {line} ({names}) {slow.said}.",
        restored=WhatIf(changes=slow.changes, lines=(restored,)), excess_s=slow.excess_s,
    )  # fmt: skip


def _over_time(links: Sequence[JudgedLink]) -> tuple[Stretches, Piecewise]:
    """When most of those of ``links`` that carried something departed, and the scale of each stretch, the middle one.

    From where a window of any of them begins until the next one does.
    """
    looked, series = [each.looked for each in links], [each.of.series for each in links]
    begins_s, firsts = np.unique(np.concatenate([each.begins_s for each in looked]), return_index=True)
    iterations = np.concatenate([each.iterations[each.tells] for each in series])[firsts]
    was_seen = np.array([each.was_looked_at(begins_s) for each in looked])
    slow, scales = (
        np.where(was_seen, np.array([of.at(begins_s) for of in every]), np.nan)
        for every in ([each.judged.during() for each in links], [each.judged.scale() for each in links])
    )
    share = np.nanmean(slow, axis=0)
    departs = share >= min(HALF, share.max())
    until_s = max(each.until_s for each in series)
    rows, middle = rows_of(departs), np.nanmedian(scales, axis=0)
    when = stretches(rows, len(departs), iterations, begins_s, until_s)
    values = np.ones(len(departs))
    for start, stop in rows:
        values[start:stop] = np.median(middle[start:stop])
    first = np.flatnonzero(np.diff(values, prepend=np.nan))
    starts_s = np.append(0.0, begins_s[first[1:]])  # warm-up is as what follows it
    return when, Piecewise(starts_s=starts_s, values=values[first])
