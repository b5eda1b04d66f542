"""Links whose delay is longer all the time, though services show little or something else of it: by first bytes alone.

A busy link hides a delay; and of a shared line, what others leave a link hides how late it is (:mod:`.first_bytes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.links.first_bytes import (
    CERTAIN,
    first_bytes_late_ns,
    found_line_idle,
    late_first_bytes_ns,
    least_late_ns,
)  # fmt: skip
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.topology import Pair

FRAMES = 4.0  # that a first segment waits for at most: it is served twice, by its link and by the line
WAY_BACK = 0.25  # of how late the other way is: so much late acknowledgements alone may make of a link of a line
MUCH = 0.5  # of what its messages are late by: a delay that makes less is not why


def hidden_delays(
    judged: Sequence[JudgedLink], carried: Sequence[ObservedLink], design: Design
) -> dict[JudgedLink, float]:  # fmt: skip
    """Those of ``judged`` that are late by a delay all the time, as if they departed all the time -> by how much, ns.

    Of machines, which may read late, those alone that depart anyhow, and share a line. Of a modelled world those, too,
    that do not, or by themselves not all the time.
    """
    lines, modelled, found = design.line_of, design.reference.modelled, {}
    by_pair = {each.link.pair: each for each in judged}
    for each in judged:
        shared = each.link.pair in lines
        if shared and (modelled or each.departs):
            late_ns = _late_on_line_ns(each, carried, lines)
            if late_ns < WAY_BACK * _later_ns(by_pair.get(each.link.pair[::-1])):
                continue
        elif modelled and not shared and not each.judged.departs.all():
            late_ns = late_first_bytes_ns(each.link, least=CERTAIN if each.link.designed.loses else 1)
        else:
            continue
        if late_ns:
            found[replace(each, judged=replace(each.judged, departs=np.ones_like(each.judged.departs)))] = late_ns
    return found


def _later_ns(back: JudgedLink | None) -> float:
    """How much longer than designed each message took the other way, mean; 0, if it does not depart."""
    if back is None or not back.departs:
        return 0.0
    return max(0.0, back.judged.excess_s) * 1e9 / max(1.0, _messages(back))


def _messages(each: JudgedLink) -> float:
    """How many of its messages depart."""
    return float(each.of.messages(each.judged.windows).sum())


def _late_on_line_ns(each: JudgedLink, carried: Sequence[ObservedLink], lines: Mapping[Pair, str]) -> float:
    """By how much ``each``, on one of the ``lines``, is late; 0, if a lower rate may be why, or it is by far more.

    Nor is it a delay what first bytes of others on that line are late by, too.
    """
    link, judged = each.link, each.judged
    line = [one for one in carried if lines.get(one.pair) == lines[link.pair]]

    def idle(one: ObservedLink) -> npt.NDArray[np.bool_]:
        return found_line_idle(one, [other for other in line if other is not one])

    late_ns = late_first_bytes_ns(link, idle(link), least=CERTAIN)
    if not late_ns:
        return 0.0
    asked_ns = [first_bytes_late_ns(one)[idle(one)] for one in line if one is not link]
    of_others_ns = [float(np.median(each_ns)) for each_ns in asked_ns if len(each_ns)]
    by_rate_ns = FRAMES * link.frame_ns * (judged.slowdown if each.departs else 1.0)
    is_why = late_ns * _messages(each) >= MUCH * judged.excess_s * 1e9
    return late_ns if is_why and late_ns - by_rate_ns - min(of_others_ns, default=0.0) > least_late_ns(link) else 0.0
