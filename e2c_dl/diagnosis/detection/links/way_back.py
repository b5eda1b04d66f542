"""What a link that is later by a delay takes longer by round trips, and what the other way does.

::

    a -> b    its window opens, or it loses segments    |===    |=====    |===      a round trip between each
    b -> a    40 ms later                                   '---'     '----'        of which this is a part

Where b -> a is late, its own messages show little of what that costs the other way, whose acknowledgements come by it.

Source: Mathis, Semke, Mahdavi and Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm", CCR 1997,
Eq. (3): where losses limit a link, its rate is as one over its round trip; as it is where its window opens.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.departures import Departure
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.links import ObservedLink, services_ns
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf


def with_way_back(departure: Departure, each: JudgedLink, back: ObservedLink | None, *, opens: bool) -> Departure:
    """``departure`` of ``each``, and if that is late by a delay what ``back``, the other way, takes less without.

    Of one that loses segments by design all of its messages do, of others, if it ``opens`` its window meanwhile, the
    first. None: nothing went there.
    """
    (change,) = departure.restored.changes
    longer_s = change.less_s.values.max()
    if longer_s <= 0 or back is None:
        return departure
    if back.designed.loses:
        chosen = np.ones(len(back.rows), dtype=np.bool_)
        share = sooner(back, chosen, longer_s * 1e9)
        scale = change.less_s.mapped(lambda less_s: np.where(less_s > 0, share, 1.0))
    elif opens and each.opening.any():
        first_s = float(each.of.series.begins_s[0])
        chosen = np.asarray((back.rows["send_start_ns"] - back.began_ns) / 1e9 < first_s)
        share = sooner(back, chosen, longer_s * 1e9)
        scale = Piecewise.constant(1.0).since(first_s, share)
    else:
        return departure
    restored = WhatIf(changes=(change, Change(element=back.element, scale=scale)))
    less_s = (1 - share) * float(back.services_ns[chosen].sum()) / 1e9
    return replace(departure, restored=restored, excess_s=departure.excess_s + less_s)


def sooner(link: ObservedLink, chosen: npt.NDArray[np.bool_], longer_ns: float, *, own_ns: float = 0.0) -> float:
    """What ``link``'s messages ``chosen`` would take, as a part of what they do, were a round trip not ``longer_ns``.

    All of it goes by round trips where segments are lost by design, else what they take beyond their bits. ``own_ns``:
    what the link itself delivers later, which is not in what they take.
    """
    took_ns = services_ns(link.rows, link.designed_delay_ns + round(own_ns))[chosen].astype(np.float64)
    least_ns, part = (
        np.minimum(took_ns, link.expected_ns[chosen]),
        link.round_trip_ns / (link.round_trip_ns + longer_ns),
    )
    would_ns = np.maximum(least_ns, part * took_ns) if link.designed.loses else least_ns + part * (took_ns - least_ns)
    return float(would_ns.sum() / took_ns.sum()) if took_ns.any() else 1.0
