"""What a link that is later by a delay costs the other way: what is lost there takes longer to be sent again.

::

    a -> b    loses segments by design    |=====x    |=====x    |===        a round trip for each that is sent again
    b -> a    40 ms later                        '----'     '----'          of which this is a part

Its own messages show little of that: the acknowledgements of the other way's come by it.

Source: Mathis, Semke, Mahdavi and Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm", CCR 1997,
Eq. (3): where losses limit a link, its rate is as one over its round trip.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from e2c_dl.diagnosis.departures import Departure
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf


def with_way_back(departure: Departure, link: ObservedLink, back: ObservedLink | None) -> Departure:
    """``departure`` of ``link``, and if that is late by a delay what ``back``, the other way, would take less without.

    None: nothing went there. Of a way back that loses nothing by design it is ``departure`` as it was.
    """
    (change,) = departure.restored.changes
    longer_s = float(change.less_s.values.max())
    if longer_s <= 0 or back is None or not back.designed.loses:
        return departure
    round_trip_s = sum(float(np.median(each.designed_delay_ns)) for each in (link, back)) / 1e9
    took_ns, least_ns = back.services_ns.astype(np.float64), back.expected_ns
    sooner_ns = np.maximum(least_ns, took_ns * round_trip_s / (round_trip_s + longer_s))
    would_ns = np.minimum(took_ns, sooner_ns)  # what lost nothing takes no more than its bits
    share = float(would_ns.sum() / max(1.0, took_ns.sum()))
    sooner = Change(element=back.element, scale=change.less_s.mapped(lambda less_s: np.where(less_s > 0, share, 1.0)))
    return replace(
        departure, restored=WhatIf(changes=(change, sooner)),
        excess_s=departure.excess_s + float((took_ns - would_ns).sum()) / 1e9,
    )  # fmt: skip
