"""Values that were measured of a link, as JSON too, and intervals around them; :mod:`~.fidelity` judges them.

::

    median of n values     between the order statistics that a binomial(n, 1/2) count stays between
    fraction k of n        Wilson's score interval: sensible for k = 0 and k = n too

Neither assumes how the values are spread: a link's delays follow no one distribution.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import msgspec

from e2c_dl.topology import MOST_BPS, Delay, Fraction

Interval = tuple[float, float]
"""(lower, upper) end."""

CONFIDENCE = 0.95
"""Of the intervals that are shown."""

VERDICT_CONFIDENCE = 0.9999
"""Of the interval that a requested loss must lie in: a matrix of hundreds of links must not accuse one by chance."""


Seen = Annotated[float, msgspec.Meta(ge=0, le=MOST_BPS)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 50)]


class RateFrom(str, Enum):
    """What the rate was measured with."""

    UDP = "udp"
    TCP = "tcp"  # its goodput, as frames: the link is faster than frames can be sent one by one


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one host measured of one outgoing link, idle but for the measurement.

    Intervals are of 95 %. What stands below ``thorough`` is None where a measurement was quick.
    """

    rate_bps: Seen  # of Ethernet frames, headers included
    rate_is_floor: bool  # True: nothing held the frames back; the link carries at least this
    round_trip_s: Delay  # median; there and back
    round_trip_spread_s: float  # between the quartiles
    pings: Count  # answered
    loss: Fraction  # of frames, below the rate
    loss_samples: Count  # frames sent for it
    thorough: bool = False
    rate_from: RateFrom = RateFrom.UDP
    rate_interval_bps: Interval | None = None
    goodput_bps: float | None = None  # payload of one TCP connection
    goodput_interval_bps: Interval | None = None
    round_trip_interval_s: Interval | None = None  # of the median
    loss_interval: Interval | None = None
    loss_burst: float | None = None  # mean frames lost in a row; None without losses too
    delay_spread_s: Delay | None = None  # one way, between the quartiles
    delay_spread_interval_s: Interval | None = None
    reordered: float | None = None  # the least fraction of frames without which the others are in order


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one link carried while others of its bottleneck were full too."""

    rate_bps: Seen
    interval_bps: Interval
    offered_bps: float  # what was sent


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Where the median lies of what ``values`` are independent samples of; from least to greatest if they are few.

    Source: order-statistics interval; Hahn and Meeker, Statistical Intervals, 5.2.
    """
    ordered = sorted(values)
    n = len(ordered)
    outside, below, rank = (1 - confidence) / 2, 0.0, 0
    while rank < n // 2:
        below += math.comb(n, rank) / 2**n
        if below > outside:
            break
        rank += 1
    lowest = max(0, rank - 1)
    return ordered[lowest], ordered[n - 1 - lowest]


def fraction_interval(hits: float, samples: float, confidence: float = CONFIDENCE) -> Interval:
    """Where a probability lies that gave ``hits`` in ``samples``; samples that depend on each other count as fewer.

    Source: Wilson, JASA 22 (1927), 209-212.
    """
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = hits / samples, z * z / samples
    centre = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / samples + weight / (4 * samples))
    return max(0.0, centre - half), min(1.0, centre + half)
