"""What a line that several links share carried while they filled it: its rate over time, as a virtual world has it.

::

    link a     |====|      |=======|        |==|        messages, from when they begin to arrive until they are there
    link b        |=====|      |======|
    full           ==          =====                    while those that carry anything fill it by themselves
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.links.kinds import TELLING
from e2c_dl.diagnosis.piecewise import Piecewise, multiplied
from e2c_dl.diagnosis.replay.whatif import Line, WhatIf
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.trace.messages import MessageArray, Messages
from e2c_dl.worlds.virtual.capacity import UNLIMITED_BPS
from e2c_dl.worlds.virtual.links import RankPair, SharedRate

FULL = 1 - 1e-9  # of a line: sums of parts are rounded
MOST_TURNS = 8  # each with fewer of the moments, until one changes nothing


def known_line(line: SharedRate, used: Collection[RankPair]) -> SharedRate:
    """``line`` as designed, of whose links those are ``used``."""
    return replace(line, links=tuple(pair for pair in line.links if pair in used))


def measured_line(
    designed: SharedRate, messages: Messages, origin_ns: int, edges_s: Mapping[RankPair, Sequence[float]],
    own_bps: Mapping[RankPair, float], restored: Sequence[Line], capacity: Piecewise | None = None, *,
    most_bps: float = UNLIMITED_BPS,
) -> SharedRate:  # fmt: skip
    """``designed`` at the rate at which it was measured where its links had enough to send to fill it.

    Between the moments at which ``restored`` has its rate change; if nothing does, between ``edges_s``, at which those
    of its links are known to have changed. Where they never had, as measured in all. By what each of its links carries
    by itself, ``own_bps``, it takes several to fill it as designed. Where it departs, which is where one of
    ``restored`` makes it faster, fewer may do: its rate is the least at which what arrived makes sense; elsewhere it is
    ``most_bps`` at most, for messages that wait for each other seem faster than they are in the mean.
    One whose ``capacity`` changes by design does so when it should, times how much slower than restored it was.
    """
    if capacity is not None:
        rate = multiplied(capacity, *(each.scale for each in restored))
        return at_rates(designed, rate.starts_s.tolist(), rate.values.tolist())
    by_link = messages.by_link()
    own = {pair: own_bps.get(pair, UNLIMITED_BPS) for pair in designed.links if pair in by_link}
    bps = [*own.values()]
    usual_bps = _full_bps([by_link[pair] for pair in own], bps, designed.rate_bps) or designed.rate_bps
    own_s = [edges_s.get(pair, ()) for pair in designed.links]
    starts_s = np.unique(np.concatenate([[0.0], *([each.scale.starts_s for each in restored] or own_s)]))
    rates_bps = []
    for begin_s, end_s in pairwise([*starts_s.tolist(), np.inf]):
        within = [by_link[pair][_begun(by_link[pair], origin_ns, begin_s, end_s)] for pair in own]
        departs = any(float(each.scale.at(np.array(begin_s))) < 1 for each in restored)
        found_bps = _least_bps(within, bps) if departs else _full_bps(within, bps, designed.rate_bps)
        rates_bps.append((found_bps or usual_bps) if departs else min(found_bps or usual_bps, most_bps))
    return at_rates(designed, starts_s.tolist(), rates_bps)


def changed_line(bottleneck: SharedRate, change: WhatIf, ranks: Mapping[str, int]) -> SharedRate:
    """``bottleneck`` after ``change``: its rate, which was measured, times what its line is faster."""
    lines = lines_of(bottleneck, change, ranks)
    if not lines:
        return bottleneck
    steps = [*bottleneck.rates()] if bottleneck.rates is not None else [(0.0, bottleneck.rate_bps)]
    measured = Piecewise(starts_s=np.array([at_s for at_s, _ in steps]), values=np.array([bps for _, bps in steps]))
    designed = [each.designed_bps for each in lines if each.designed_bps is not None]
    moments_s = [each.starts_s for each in (measured, *designed, *(line.scale for line in lines))]
    starts_s = np.unique(np.concatenate(moments_s))
    scale = np.prod([each.scale.at(starts_s) for each in lines], axis=0)
    rates_bps = measured.at(starts_s) / scale
    for each in designed:
        rates_bps = np.where(scale < 1, each.at(starts_s), rates_bps)
    return at_rates(bottleneck, starts_s.tolist(), rates_bps.tolist())


def lines_of(bottleneck: SharedRate, change: WhatIf, ranks: Mapping[str, int]) -> list[Line]:
    """What ``change`` says of ``bottleneck``."""
    return [
        each for each in change.lines
        if {(ranks[link.src], ranks[link.dst or ""]) for link in each.links} <= {*bottleneck.links}
    ]  # fmt: skip


def at_rates(bottleneck: SharedRate, starts_s: Sequence[float], rates_bps: Sequence[float]) -> SharedRate:
    """``bottleneck`` at each of ``rates_bps``, from the second on that ``starts_s`` has for it: 0 for the first.

    Its own rate stays as it was designed: by that TCP's trains of segments are as long as they were.
    """
    steps = tuple(zip(starts_s, rates_bps, strict=True))
    return replace(bottleneck, rates=partial(iter, steps))


def _begun(rows: MessageArray, origin_ns: int, begin_s: float, end_s: float) -> npt.NDArray[np.bool_]:
    """Which messages began to arrive within."""
    at_s = (rows["recv_start_ns"] - origin_ns) / 1e9
    return np.asarray((at_s >= begin_s) & (at_s < end_s))


def _least_bps(links: Sequence[MessageArray], own_bps: Sequence[float]) -> float | None:
    """The least rate at which a line carries what its links do that fill it at that rate; None if nothing arrived.

    Any of them may; where it carries more in the mean than one of them would alone, only several fill it, and so on.
    """
    found_bps = None
    for _ in range(MOST_TURNS):
        again_bps = _full_bps(links, own_bps, found_bps or min(own_bps, default=UNLIMITED_BPS))
        if again_bps is None or (found_bps is not None and again_bps <= found_bps):
            break
        found_bps = again_bps
    return found_bps


def _full_bps(links: Sequence[MessageArray], own_bps: Sequence[float], line_bps: float) -> float | None:
    """Bits per second of several links' messages while what arrived fills a line; None if it never did.

    It is full while the links that carry anything would by themselves, ``own_bps``, carry ``line_bps``: anything that
    shows a rate, for many small ones at one moment fill nothing. Messages of a queue come in bursts, one link's and
    another's, so that of a moment nothing is known but the mean of whole messages: all of the time counts in which the
    line is full.
    """
    edges = []
    for rows, bps in zip(links, own_bps, strict=True):
        begin_ns, end_ns = rows["recv_start_ns"], rows["recv_end_ns"]
        chosen = end_ns > begin_ns
        bits = wire_bits_of(rows["nbytes"])[chosen]
        rate = bits / (end_ns - begin_ns)[chosen]
        filled = np.where(bits >= TELLING * bits.max(initial=0), min(1.0, bps / line_bps), 0.0)
        edges += [(begin_ns[chosen], rate, filled), (end_ns[chosen], -rate, -filled)]
    if not edges:
        return None
    at_ns, rates, filled = (np.concatenate(column) for column in zip(*edges, strict=True))
    order = np.argsort(at_ns, kind="stable")
    lasted_ns = np.diff(at_ns[order])
    full = np.cumsum(filled[order])[:-1] >= FULL
    total_ns = float(lasted_ns[full].sum())
    return float((np.cumsum(rates[order])[:-1] * lasted_ns)[full].sum()) / total_ns * 1e9 if total_ns else None
