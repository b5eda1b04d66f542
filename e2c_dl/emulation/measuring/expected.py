"""Expected measurements of a link that is exactly as requested: medians, spreads, bursts.

::

    one way       delay_s, spread as the distribution says, never below 0; a fraction ``reorder`` has no delay at all
    round trip    the sum of two such, and the time that the frame takes on both links

Computed from GRID equally likely delays of each direction: exact enough for medians and quartiles, no random numbers.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from functools import cache

from e2c_dl.topology import Bottleneck, Distribution, Link, Pair, Topology

GRID = 200
PARETO_SHAPE = 3.0
"""Of netem's pareto; mean 1.5 and standard deviation sqrt(0.75) times its least value."""


def alone(topology: Topology, src: str, dst: str) -> Link:
    """``src`` -> ``dst`` as it is while nobody else sends: no faster than the bottleneck that it passes."""
    link = topology.link(src, dst)
    rates = [link.rate_bps, *(shared.rate_bps for shared in topology.bottlenecks if (src, dst) in shared.links)]
    return replace(link, rate_bps=min((rate_bps for rate_bps in rates if rate_bps is not None), default=None))


def shares(topology: Topology, bottleneck: Bottleneck, sum_bps: float) -> dict[Pair, float]:
    """Link -> its part of ``sum_bps``: equal parts, but for links that are slower; less in all if they all are."""
    requested = {pair: topology.link(*pair).rate_bps for pair in bottleneck.links}
    rates = {pair: math.inf if rate_bps is None else rate_bps for pair, rate_bps in requested.items()}
    found: dict[Pair, float] = {}
    left_bps = sum_bps
    for pair in sorted(rates, key=lambda pair: (rates[pair], pair)):
        found[pair] = min(rates[pair], left_bps / (len(rates) - len(found)))
        left_bps -= found[pair]
    return found


def one_way_s(link: Link) -> list[float]:
    """GRID equally likely delays of one segment on the idle link, sorted."""
    at_once = round(link.reorder * GRID)  # what is reordered skips the delay
    rest = GRID - at_once
    spread = [link.delay_s + link.jitter_s * _standard(link.distribution, (i + 0.5) / rest) for i in range(rest)]
    return sorted([0.0] * at_once + [max(0.0, delay_s) for delay_s in spread])


def spread_s(link: Link) -> float:
    """Between the quartiles of the one-way delay."""
    return _between_quartiles(one_way_s(link))


@cache
def round_trip_s(there: Link, back: Link, frame_bytes: int) -> tuple[float, float]:
    """(median, spread between the quartiles) of what a ping of ``frame_bytes`` takes."""
    serialised_s = sum(frame_bytes * 8 / link.rate_bps for link in (there, back) if link.rate_bps is not None)
    if not any(link.jitter_s or link.reorder for link in (there, back)):  # spares GRID * GRID sums
        return there.delay_s + back.delay_s + serialised_s, 0.0
    trips = sorted(a + b for a in one_way_s(there) for b in one_way_s(back))
    return statistics.median(trips) + serialised_s, _between_quartiles(trips)


def burst_frames(link: Link) -> float:
    """Mean length of the runs of lost segments; 0 without loss, infinite if all are lost."""
    if link.down:
        return float("inf")
    if link.burst is None:
        return 0.0 if link.loss == 0 else float("inf") if link.loss == 1 else 1 / (1 - link.loss)
    burst, mean = link.burst, link.burst.mean
    if mean == 0:
        return 0.0
    bad = burst.good_to_bad / (burst.good_to_bad + burst.bad_to_good)
    kept_after_bad = burst.bad_to_good * (1 - burst.loss_in_good) + (1 - burst.bad_to_good) * (1 - burst.loss_in_bad)
    kept_after_good = burst.good_to_bad * (1 - burst.loss_in_bad) + (1 - burst.good_to_bad) * (1 - burst.loss_in_good)
    ends = bad * burst.loss_in_bad * kept_after_bad + (1 - bad) * burst.loss_in_good * kept_after_good
    return mean / ends if ends else float("inf")


def independent(samples: int, link: Link) -> float:
    """How many independent samples tell as much of the loss as ``samples`` in a row do: fewer, if it comes in bursts.

    The states of a Gilbert-Elliott chain correlate as memory^distance, memory = 1 - p - r.
    """
    if link.burst is None or not 0 < link.burst.mean < 1:
        return float(samples)
    burst, mean = link.burst, link.burst.mean
    bad = burst.good_to_bad / (burst.good_to_bad + burst.bad_to_good)
    memory = 1 - burst.good_to_bad - burst.bad_to_good
    between = bad * (1 - bad) * (burst.loss_in_bad - burst.loss_in_good) ** 2
    variance = mean * (1 - mean) + 2 * between * memory / (1 - memory)
    return max(1.0, samples * min(1.0, mean * (1 - mean) / variance))


def _between_quartiles(ordered: list[float]) -> float:
    return ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4]


def _standard(distribution: Distribution, share: float) -> float:
    """The quantile ``share`` of the distribution, in units of ``jitter_s`` around ``delay_s``."""
    if distribution is Distribution.UNIFORM:
        return 2 * share - 1
    if distribution is Distribution.NORMAL:
        return statistics.NormalDist().inv_cdf(share)
    return (math.pow(1 - share, -1 / PARETO_SHAPE) - 1.5) / math.sqrt(0.75)
