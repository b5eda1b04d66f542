"""What one directed link carried, as a model that a virtual world goes by: rate over time, and delay.

::

    sent  |--- delay ---|== service ==|                 rate of a message = its wire bits / service
                        '-- begins when the message before it has arrived, if that is later

    rate  |------.      .-.       .----                 stretches: where the rate changed, and stayed so for some
          |      '------| |-------'                     messages; of each, all bits / all services
          |             '-' stalled                     a message that took far longer than others of its stretch

Where a link carried nothing for a while, and then was another, it is taken to have changed in the middle of that: it
did so as likely early as late, and runs by other luck may use it then. From its first other message on it would be
slow for less time than it was, in the mean, wherever it stays so to the end. A rate that changes by design does so when
it should, whatever was sent then: messages show how many times slower than designed the link was.

Services are as the replay has them, by the delays that it is given. Change points are found on the logarithm of large
messages' rates, by binary segmentation with a penalty as in BIC (Source: Killick, Fearnhead and Eckley, JASA 2012,
section 2, for the cost), its noise taken from differences of neighbours, so that a step is none.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.links.kinds import TELLING
from e2c_dl.diagnosis.links import Designed, in_service_order, services_ns
from e2c_dl.diagnosis.piecewise import Piecewise, added, multiplied
from e2c_dl.diagnosis.replay.columns import Longs
from e2c_dl.diagnosis.replay.whatif import Change
from e2c_dl.diagnosis.resimulation.stopped import Interval
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.scenario.model import Tcp
from e2c_dl.topology import BurstLoss
from e2c_dl.trace.messages import MessageArray, Messages
from e2c_dl.worlds.virtual.capacity import UNLIMITED_BPS
from e2c_dl.worlds.virtual.links import RankPair

LEAST_MESSAGES = 5  # of a stretch
LEAST_CHANGE = 0.1  # of a rate, for a stretch of its own
PENALTY = 3.0  # times noise squared times log(messages), for one more stretch
STALLED = 10.0  # times its stretch's usual service, and at least:
STALLED_NS = 50e6
LARGE = 0.25  # of the largest message: smaller ones say little of the rate
SHORTEST_NS = 1
NEARLY = 0.9  # of its designed rate: what carries as much shows its rate


Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MeasuredLink:
    """One directed link as it was, over seconds of training."""

    rate_bps: Piecewise
    delay_s: Piecewise  # one way
    stalls: tuple[Interval, ...] = ()  # from when until when it carried nothing; rising
    messages: int = 0
    busy_ns: float = 0.0  # services of all messages
    tcp: Tcp | None = None  # whose windows limit it beside its rate; None: they are in the rate that was measured
    jitter_s: float = 0.0  # beside the delay; 0 also where it is in the rate that was measured
    loss: Piecewise = field(default_factory=lambda: Piecewise.constant(0.0))  # as jitter: 0 where the rate has it
    burst: BurstLoss | None = None  # instead of ``loss``
    edges_s: Mapping[float, tuple[float, float]] = field(default_factory=dict)
    """When the first message was sent that shows a change -> when its rate changed, if it did, and when its delay."""

    @property
    def loses(self) -> bool:
        """Whether segments are lost on it, by luck: where its rate has them in it, that is not known."""
        return self.burst is not None or bool(self.loss.values.any())

    @property
    def without_tcp(self) -> MeasuredLink:
        """This link, of which nothing but rate, delay and jitter count: what loses nothing is an ideal link."""
        return replace(self, tcp=None, loss=Piecewise.constant(0.0), burst=None)

    def served(self, scale: Piecewise) -> Piecewise:
        """``scale``, of messages by when they were sent, by when the link's rate is another."""
        return self._moved(scale, 0)

    def delayed(self, less_s: Piecewise) -> Piecewise:
        """``less_s``, of messages by when they were sent, by when the link's delay is another."""
        return self._moved(less_s, 1)

    def _moved(self, of: Piecewise, part: int) -> Piecewise:
        starts_s = [self.edges_s[at_s][part] if at_s in self.edges_s else at_s for at_s in of.starts_s.tolist()]
        return Piecewise(starts_s=np.maximum.accumulate(starts_s), values=of.values)

    def slower_by_itself(self, own_bps: Piecewise, slower: Piecewise, stalls: tuple[Interval, ...]) -> MeasuredLink:
        """This link, which shares a line: its own rate ``own_bps``, and as it carried where it was ``slower``, below 1.

        That it was slower than its share tells its own rate, and not by how much. ``stalls``: those that are its own.
        """
        starts_s = np.unique(np.concatenate([each.starts_s for each in (own_bps, slower, self.rate_bps)]))
        own, carried = own_bps.at(starts_s), self.rate_bps.at(starts_s)
        rate = np.where(slower.at(starts_s) < 1, np.minimum(own, carried), own)
        return replace(self, rate_bps=Piecewise(starts_s=starts_s, values=rate), stalls=stalls)

    def restored_by(self, changes: Sequence[Change], own_bps: Piecewise) -> MeasuredLink:
        """This link, which shares a line, at its own rate, and as much sooner as ``changes`` have it."""
        less_s = [self.delayed(each.less_s).mapped(np.negative) for each in changes]
        delay_s = added(self.delay_s, *less_s).mapped(lambda delays_s: np.maximum(0.0, delays_s))
        return replace(self, rate_bps=own_bps, delay_s=delay_s)

    def slowed_by(self, changes: Sequence[Change], measured: MeasuredLink) -> MeasuredLink:
        """This link, which is as designed, as slow and as late as what ``changes`` restore; ``measured``: as it was."""
        return replace(
            self, messages=measured.messages, busy_ns=measured.busy_ns, stalls=measured.stalls,
            rate_bps=multiplied(self.rate_bps, *(measured.served(each.scale) for each in changes)),
            delay_s=added(self.delay_s, *(measured.delayed(each.less_s) for each in changes)),
        )  # fmt: skip

    def or_designed(self, designed: MeasuredLink, *, surely: bool = False) -> MeasuredLink:
        """This link, or if it never was nearly as fast as ``designed``, that: its windows were still opening.

        How long they took to open says nothing of what it carries once they are. ``surely``: it is as designed.
        """
        if not surely and self.rate_bps.values.max() >= NEARLY * designed.rate_bps.values.max():
            return self
        return replace(designed, messages=self.messages, busy_ns=self.busy_ns)

    def after(self, moment_s: float) -> MeasuredLink:
        """This link, which never stalls, from ``moment_s`` on, from which seconds count then."""
        return replace(
            self, rate_bps=self.rate_bps.after(moment_s), delay_s=self.delay_s.after(moment_s),
            loss=self.loss.after(moment_s),
        )  # fmt: skip


def designed_link(designed: Designed, tcp: Tcp | None) -> MeasuredLink:
    """The link that ``designed`` tells of, by itself, when ``tcp`` sends over it; None: nothing but its rate counts."""
    rate = designed.own or Piecewise.constant(UNLIMITED_BPS)
    made = MeasuredLink(rate_bps=rate, delay_s=designed.delay_s, tcp=tcp, jitter_s=designed.jitter_s)
    return made if tcp is None else replace(made, loss=designed.loss, burst=designed.burst)


def measured_link(
    rows: MessageArray, origin_ns: int, delay_ns: int | Longs, edges_s: Sequence[float] = (),
    designed_bps: Piecewise | None = None,
) -> MeasuredLink:  # fmt: skip
    """The link of ``rows``, at least one message, whose one-way delay is ``delay_ns``: of each in service order.

    ``edges_s``: seconds at which its rate is known to have changed, few as the messages in between may be.
    ``designed_bps``: its rate, where that changes by design; None: it does not.
    """
    rows = in_service_order(rows)
    delays_ns = np.broadcast_to(delay_ns, len(rows))
    service_ns = np.maximum(SHORTEST_NS, services_ns(rows, delays_ns)).astype(np.float64)
    begin_ns = rows["recv_end_ns"] - service_ns - delays_ns - origin_ns
    sizes = wire_bits_of(rows["nbytes"])
    by_design = Piecewise.constant(1.0) if designed_bps is None else designed_bps
    begin_s, service_s = begin_ns / 1e9, service_ns / 1e9
    bits = sizes / (by_design.between(begin_s, begin_s + service_s) / service_s)  # as if that were 1 bit/s
    large = np.flatnonzero(sizes >= LARGE * sizes.max())
    known = np.searchsorted(rows["send_start_ns"] - origin_ns, np.rint(np.array(edges_s) * 1e9))
    within = (known > 0) & (known < len(rows))
    already = np.searchsorted(large, known[within]).tolist()
    found = large[_change_points(np.log(bits[large] / service_ns[large]), already)]
    telling = np.flatnonzero(sizes >= TELLING * sizes.max())  # a change that is known was told by them
    inner = _telling(np.union1d(found, known[within]).astype(np.intp).tolist(), telling)
    rates, stalls = [], []
    for first, after in pairwise([0, *inner, len(rows)]):
        tells = sizes[first:after] >= min(LARGE * sizes.max(), sizes[first:after].max())
        rate, stalled_ns = _stretch(bits[first:after], service_ns[first:after], tells)
        rates.append(rate * 1e9)
        for at in np.flatnonzero(stalled_ns):
            from_ns = max(0.0, begin_ns[first + at])
            stalls.append((from_ns / 1e9, (from_ns + stalled_ns[at]) / 1e9))
    changed = np.flatnonzero(np.diff(delays_ns)) + 1
    left_ns = begin_ns + service_ns
    seen = known[within]
    served_s, delayed_s = (_changed_ns(seen, *of) / 1e9 for of in ((begin_ns, left_ns, telling), (left_ns, left_ns)))
    later_ns = _changed_ns(changed, left_ns, left_ns)
    sent_s = ((rows["send_start_ns"][changed] - origin_ns) / 1e9).tolist()
    of_delays = dict(zip(sent_s, zip(sent_s, (later_ns / 1e9).tolist(), strict=True), strict=True))
    moments_s = zip(served_s.tolist(), delayed_s.tolist(), strict=True)
    return MeasuredLink(
        rate_bps=multiplied(
            by_design, _over_time(_changed_ns(np.array(inner, dtype=np.intp), begin_ns, left_ns, telling), rates)
        ),
        delay_s=_over_time(later_ns, delays_ns[[0, *changed]] / 1e9),
        stalls=tuple(stalls),
        messages=len(rows),
        busy_ns=float(service_ns.sum()),
        edges_s=of_delays | dict(zip(np.array(edges_s)[within].tolist(), moments_s, strict=True)),
    )


def measured_links(
    messages: Messages, origin_ns: int, delays_ns: Mapping[RankPair, int | Longs],
    edges_s: Mapping[RankPair, Sequence[float]], designed_bps: Mapping[RankPair, Piecewise],
) -> dict[RankPair, MeasuredLink]:  # fmt: skip
    """Every link that carried some of ``messages``, as :func:`measured_link` has it by what is known of each."""
    return {
        pair: measured_link(rows, origin_ns, delays_ns.get(pair, 0), edges_s.get(pair, ()), designed_bps.get(pair))
        for pair, rows in messages.by_link().items()
    }


def _changed_ns(
    at: npt.NDArray[np.intp], begun_ns: Doubles, left_ns: Doubles, telling: npt.NDArray[np.intp] | None = None
) -> Doubles:
    """When a link changed that is another from each of its messages ``at`` on, none of them its first.

    In the middle between when the last message before had left, and the next had ``begun_ns``; of those that are
    ``telling``, if there are any on both sides. A rate is told by what it serves, a delay by what leaves for it.
    """
    telling = np.arange(len(left_ns)) if telling is None else telling
    place = np.searchsorted(telling, at)
    between = (place > 0) & (place < len(telling))
    before = np.where(between, telling[np.maximum(0, place - 1)], at - 1)
    after = np.where(between, telling[np.minimum(place, len(telling) - 1)], at)
    return np.asarray((left_ns[before] + np.maximum(left_ns[before], begun_ns[after])) / 2)


def _telling(inner: Sequence[int], telling: npt.NDArray[np.intp]) -> list[int]:
    """Those of ``inner`` that have some of the ``telling`` messages between them: others alone tell no rate."""
    kept: list[int] = []
    for at in inner:
        if ((telling >= (kept[-1] if kept else 0)) & (telling < at)).any() and (telling >= at).any():
            kept.append(at)
    return kept


def _over_time(starts_ns: Doubles, values: Sequence[float] | Doubles) -> Piecewise:
    """The first of ``values`` from second 0 on, each other from one of ``starts_ns`` on."""
    return Piecewise(starts_s=np.maximum.accumulate(np.array([0.0, *starts_ns / 1e9])), values=np.array(values))


def _stretch(bits: Doubles, service_ns: Doubles, telling: npt.NDArray[np.bool_]) -> tuple[float, Doubles]:
    """Bits per ns of one stretch's messages, and how long each of them stalled, in ns.

    What is usual is told by those that are ``telling``, large ones: of small ones, the delay may be all. Where none
    took any time, nothing limits the rate: any that is known would be one that ranks measure, and choose by.
    """
    if service_ns.max() <= SHORTEST_NS:
        return UNLIMITED_BPS / 1e9, np.zeros(len(bits))
    usual_ns = bits * float(np.median(service_ns[telling] / bits[telling]))
    stalled_ns = np.where(service_ns - usual_ns > np.maximum(STALLED * usual_ns, STALLED_NS), service_ns - usual_ns, 0)
    return float(bits.sum() / (service_ns - stalled_ns).sum()), stalled_ns


def _change_points(values: Doubles, known: Sequence[int] = ()) -> list[int]:
    """Where else than at ``known`` indices ``values`` change and stay changed: rising.

    None is within LEAST_MESSAGES of another, a known one or an end. How far a change goes is told by the stretches
    beside it, not by all that is on either side: behind what is slow for a while, values are as they were.
    """
    if len(values) < 2 * LEAST_MESSAGES:
        return []
    noise = float(np.median(np.abs(np.diff(values)))) / 0.954  # of normal noise, the median of |difference| / deviation
    penalty = max(PENALTY * noise**2 * np.log(len(values)), 1e-12)
    splits: list[tuple[int, int, int]] = []
    ranges = [*pairwise([0, *known, len(values)])]
    while ranges:
        first, after = ranges.pop()
        best = _best_split(values[first:after])
        if best is not None and best[1] > penalty:
            at = first + best[0]
            splits.append((first, at, after))
            ranges += [(first, at), (at, after)]
    found: list[int] = []
    for first, at, after in reversed(splits):  # those within a range before its own
        place = bisect(found, at)
        before, beyond = max([first, *found[:place][-1:]]), min([after, *found[place:][:1]])
        if abs(float(np.median(values[before:at]) - np.median(values[at:beyond]))) >= np.log1p(LEAST_CHANGE):
            found.insert(place, at)
    return found


def _best_split(values: Doubles) -> tuple[int, float] | None:
    """(where to split, how much less the squared distances from the means are then); None if they are too few."""
    count = len(values)
    if count < 2 * LEAST_MESSAGES:
        return None
    sums = np.cumsum(values - values.mean())
    at = np.arange(LEAST_MESSAGES, count - LEAST_MESSAGES + 1)
    gains = sums[at - 1] ** 2 * count / (at * (count - at))
    best = int(np.argmax(gains))
    return int(at[best]), float(gains[best])
