"""Kind of the departure of a link that loses segments by design: a longer delay, more loss, or a lower rate.

::

    a delay   first bytes of all messages that found the link idle are late: losses can not do that to all
    a loss    its sender's sockets sent more again than designed; a rate, if they did not
    sockets that nobody looked at, or few messages that found it idle, in a modelled world: the link is simulated with
              that rate, that delay, and that loss, which let its messages take as long in the mean; it was the one
              whose messages are spread alike

Of a link that losses keep slow a lower rate takes nothing, and then none as low as that is found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from e2c_dl import formatting
from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.links.ends import end_of
from e2c_dl.diagnosis.detection.links.first_bytes import (
    first_bytes_late_ns,
    found_idle,
    late_first_bytes_ns,
    least_late_ns,
)  # fmt: skip
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS, Kind
from e2c_dl.diagnosis.detection.links.kinds_simulated import within_stretches
from e2c_dl.diagnosis.detection.links.losing.judged import DEVIATIONS, LosingLink
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.links import ObservedLink, services_ns
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.stretches import Stretches
from e2c_dl.topology import Pair

MORE = 0.5  # of what is lost by design: so much more is sent again where more is lost
EXPLAINED = 1.5  # times what a delay would have messages take
BOTH = 2  # messages: that of all these the first segment was lost is as good as never by chance
LUCKS, STEPS = 2, 6  # of each that is tried, one of large ones; halvings of where it may be
LEAST_LATER_S, LEAST_TIMES = 1e-4, 1.1  # delay; as many losses
MOST_SEGMENTS, LARGE = 40_000, 15_000  # of the links that are tried: all of that takes half a minute or so
SLOWEST, MOST_LOST = 4.0, 0.3  # times what the link departs by; of the segments
NEARER = 0.6  # of how far the other is: then it is that

Tried = Callable[[float, int], ObservedLink]
"""(amount, luck) -> the link as it would have been."""


def worth_trying(departing: Sequence[JudgedLink]) -> frozenset[Pair]:
    """Those of ``departing`` that lose segments by design and for which rates, delays and losses are tried.

    Those that cost most, as many as have MOST_SEGMENTS together.
    """
    losing = [each for each in departing if isinstance(each, LosingLink)]
    losing.sort(key=lambda each: -each.judged.excess_s)
    sizes = np.cumsum([each.link.segments for each in losing])
    return frozenset(each.link.pair for each, size in zip(losing, sizes, strict=True) if size <= MOST_SEGMENTS)


def losing_kind(each: LosingLink, as_designed: AsDesigned, *, tried: bool) -> Kind:
    """What of the link ``each`` departs, while it does. ``tried``: simulation may tell it."""
    link, departs = each.link, within_stretches(each)
    delay_ns = late_first_bytes_ns(link, departs, least=BOTH)
    if delay_ns and (as_designed.exact or _explains(each, delay_ns, departs)):
        return _delayed(each, delay_ns)
    found = Kind(part=Part.RATE, rate=each.judged.slowdown)
    end = end_of(link, departs)
    if end is not None:
        return replace(found, part=end)
    idle = found_idle(link) & departs
    on_time = bool(idle.any() and np.median(first_bytes_late_ns(link)[idle]) <= least_late_ns(link))
    lost_more = _lost_more(each, float(departs.mean()))
    if lost_more:
        return replace(found, part=Part.LOSS)
    tried = tried and as_designed.exact and link.designed.burst is None  # bursts may be more, or longer, or denser
    if tried and (lost_more is None or not on_time):
        without = {part for part, is_out in ((Part.DELAY, on_time), (Part.LOSS, lost_more is False)) if is_out}
        return _by_spread(each, as_designed, without)
    if lost_more is None:
        return replace(found, part=Part.RATE_DELAY_OR_LOSS)
    return replace(found, part=Part.RATE if on_time else Part.RATE_OR_DELAY)


def _explains(each: LosingLink, delay_ns: float, departs: npt.NDArray[np.bool_]) -> bool:
    """Whether so long a delay may be why messages ``departs`` take so much longer, on a real link.

    There a first byte comes with its whole segment, which a lower rate makes late, too. A delay makes messages late by
    itself, and round trips longer.
    """
    link, slowdown = each.link, each.judged.slowdown
    by_rate_ns = (slowdown - 1) * link.frame_ns
    usual_ns = max(1.0, float(np.median(each.designed_ns[departs])))
    most = 1 + delay_ns / max(1.0, link.round_trip_ns) + delay_ns / usual_ns
    return delay_ns - by_rate_ns > least_late_ns(link) and slowdown <= EXPLAINED * most


def _delayed(each: LosingLink, delay_ns: float) -> Kind:
    """That it is later by ``delay_ns``, and what takes longer by round trips that are longer."""
    departs = each.of.messages(each.judged.windows)
    took_ns = services_ns(each.link.rows, each.link.designed_delay_ns + round(delay_ns))[departs]
    rate = float(took_ns.sum()) / max(1.0, float(each.designed_ns[departs].sum()))
    return Kind(part=Part.DELAY, delay_ns=delay_ns, rate=max(1.0, rate))


def losing_evidence(each: LosingLink, kind: Kind, expected_bps: float, when: Stretches) -> str:
    """The sentence with the figures of ``each``, which departs as ``kind`` says, from ``expected_bps``."""
    link, departs = each.link, each.of.messages(each.judged.windows)
    lost, shown = f"{link.designed.mean_loss * 100:.2g} %", "messages" if link.sent_again is None else "sockets"
    took = f"{link.element} carried {int(departs.sum())} messages {when.described()}"
    slower = (
        f"{took} at {formatting.rate(expected_bps / each.judged.slowdown)}; as designed, with {lost} of its segments"
    )
    said = f"{slower} lost, it carries {formatting.rate(expected_bps)} in the mean, as simulated"
    match kind.part:
        case Part.DELAY:
            return f"{said}. First bytes come {formatting.seconds(kind.delay_ns / 1e9)} later than designed."
        case Part.SENDER | Part.RECEIVER:
            end, why = (link.src, "gives it too little") if kind.part is Part.SENDER else (link.dst, "reads too slowly")
            return f"{said}: the program of {end} {why}."
        case Part.LOSS:
            return f"{said}. More is sent again than that, as its {shown} show."
        case Part.RATE:
            return f"{said}. No more is sent again than that, as its {shown} show."
        case Part.RATE_OR_DELAY:
            return f"{said}. Its messages do not tell whether that is its rate or a delay."
    return f"{said}. Its messages do not tell whether that is its rate, a delay, or more that is lost."


def _lost_more(each: LosingLink, share: float) -> bool | None:
    """Whether its sockets sent far more again than designed in the ``share`` of its messages that departs.

    None: they do not tell.
    """
    link = each.link
    if link.traffic is None or link.sent_again is None:
        return None
    by_design = float(link.traffic.total["segments"][0]) * link.designed.mean_loss
    happens = by_design if link.designed.burst is None else by_design**2  # of bursts nothing more is known
    return link.most_lost - by_design > max(MORE * by_design * share, DEVIATIONS * float(np.sqrt(happens)))


def _by_spread(each: LosingLink, as_designed: AsDesigned, without: Collection[Part]) -> Kind:
    """That one of rate, delay and loss whose messages are spread as they are, if the others' clearly are not.

    ``without``: which are out, one at most.
    """
    link, during, slowdown = each.link, each.judged.during(), each.judged.slowdown
    untold = Kind(part=Part.RATE_OR_DELAY if Part.LOSS in without else Part.RATE_DELAY_OR_LOSS, rate=slowdown)
    lucks = range(1, 2 if link.segments > LARGE else 1 + LUCKS)
    departs = within_stretches(each)
    later_s = float((link.services_ns - each.designed_ns)[departs].max()) / 1e9

    def by_rate(times: float, luck: int) -> ObservedLink:
        return as_designed.by_luck(link, luck, rate=during.mapped(lambda values: np.where(values > 0, 1 / times, 1.0)))

    def by_delay(more_s: float, luck: int) -> ObservedLink:
        return as_designed.by_luck(link, luck, delay_s=during.mapped(lambda values: values * more_s))

    def by_loss(times: float, luck: int) -> ObservedLink:
        return as_designed.by_luck(link, luck, losses=during.mapped(lambda values: np.where(values > 0, times, 1.0)))

    ways: dict[Part, tuple[Tried, float, float]] = {
        Part.RATE: (by_rate, 1.0, SLOWEST * slowdown),
        Part.DELAY: (by_delay, LEAST_LATER_S, max(2 * LEAST_LATER_S, later_s)),
        Part.LOSS: (by_loss, LEAST_TIMES, MOST_LOST / link.designed.mean_loss),
    }
    took = _logs(link)[departs]
    tried = {part: _fitted(took, departs, lucks, *way) for part, way in ways.items() if part not in without}
    nearest, second = sorted(tried, key=lambda part: tried[part][0])[:2]
    off, amount = tried[nearest]
    if not off < NEARER * tried[second][0]:  # or no way lets them take as long
        return untold
    return _delayed(each, amount * 1e9) if nearest is Part.DELAY else replace(untold, part=nearest)


def _fitted(
    took: Doubles, departs: npt.NDArray[np.bool_], lucks: Sequence[int], tried: Tried, least: float, most: float
) -> tuple[float, float]:  # fmt: skip
    """(how far messages are spread from how ``took``, logarithms of shape (messages,), are; the amount) for one way.

    Of the amount, from ``least`` to ``most``, that lets them take as long in the mean; infinite: none does.
    """

    def logs(amount: float) -> Doubles:
        return np.concatenate([_logs(tried(amount, luck))[departs] for luck in lucks])

    if logs(most).mean() < took.mean():
        return np.inf, most
    low, high = np.log(least), np.log(most)
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if logs(float(np.exp(middle))).mean() < took.mean() else (low, middle)
    amount = float(np.exp(high))
    at = np.linspace(0.05, 0.95, 19)
    return float(np.abs(np.quantile(logs(amount), at) - np.quantile(took, at)).mean()), amount


def _logs(link: ObservedLink) -> Doubles:
    return np.asarray(np.log(link.services_ns + GRAIN_NS))
