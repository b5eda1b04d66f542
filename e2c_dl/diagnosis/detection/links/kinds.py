"""Kind of a link's departure: lower rate, added delay, loss, or one of the first two where its messages do not tell.

A link that takes ``rate`` times as long per bit, and delivers ``delay`` later, serves message m, of which it was asked
to carry the bits in e(m), like this; a message that found the link busy begins where the one before it ended, and then
the delay is not in it::

    service(m) = end(m) - max(sent(m) + designed delay + delay, end(m - 1)) = rate x e(m) + (a late read, at least 0)

For each delay that may be, the rate follows (the median of service / e, weighted by e, which leaves the least sum of
distances), and how far messages disagree with both. *Rate*: no delay leaves about as little disagreement as the best
one does; or a rate of its own does, below what others leave it of a line. *Delay*: so does a rate as designed. Messages
of several sizes, or some close together and some apart, tell the two; where both do as well, or there are fewer than
LEAST_MESSAGES, the messages do not tell. Where those that are late are nothing beside others that the link carries, a
rate would have had to be as many times lower: a delay. So few messages do not tell loss from either, too, unless the
sender's socket does; nor do more that scatter by MAY_SCATTER: of a message in which much was lost, losses even out.

Messages that are late by one and the same time or not at all, of one size, are so by a delay that comes and goes within
windows, unless that is what sending again takes: a round trip, or TCP's time-out. A rate makes all large ones late.

*Loss*: TCP halves its window and sends again, so that messages of one size scatter, by SCATTER of what they take or
more, beyond what jitter was designed for; or a few are late by far more than the others, LATE_SHARE or more, yet less
than half, and they are why the link is slow: LATE_PART of all the time that is missing is theirs. A link of a lower
rate serves alike messages alike: a read that is a little late now and then is the receiver's. One whose lower rate
comes and goes serves ALIKE of them as slowly as the slowest, and others as designed, or in between where it changed
meanwhile; where it is there for OFTEN of them, others need not be as designed. An added delay keeps no message at its
sender: where they wait there, unevenly long, for the one before to leave, they are not late by a delay. And each may
be late by less than the one before, clearly and for long: a window that was halved grows again. Where the sender's
socket was looked at and sent nothing again, nothing was lost, however the messages scatter; nor is loss why, where it
sent fewer segments again than RESENT of the messages that would have lost some, unless those soon after are the later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import MAD_OF_NORMAL, Doubles
from e2c_dl.diagnosis.detection.links.sending_again import later_after_losses, shrinks, takes_sending_again
from e2c_dl.diagnosis.links import ObservedLink, after_delay_ns, services_ns
from e2c_dl.diagnosis.model import Part
from e2c_dl.ethernet import wire_bits_of

UNTOLD = frozenset({Part.RATE_OR_DELAY, Part.RATE_DELAY_OR_LOSS})
AS_GOOD = 1.25  # times the least disagreement: noise moves it by as much
GRAIN_NS = 100_000.0  # of a message: no kernel reads more evenly
UNEVEN = 0.02  # of what a message takes: TCP fills a link no more evenly
LATEST = 0.9  # of the messages: those beyond may have been read late, or sent again
LEAST_MESSAGES = 8  # fewer agree with anything
TELLING = 0.01  # of what the largest takes: smaller ones, such as a barrier's, show no rate
LATE_SHARE, LEAST_LATE = 0.01, 3  # of the messages; messages
LATE_PART = 0.25
SCATTER, LEAST_SCATTERED = 0.12, 10  # messages
MAY_SCATTER, MOSTLY = 0.06, 0.8  # of messages that tell neither rate nor delay: losses would do that, too
LARGE = 0.25  # of what the largest takes
ALIKE, SLOWEST = 0.25, 0.95  # of the messages; what of them is not as slow as the slowest
OTHERS_UNEVEN, MOST_UNEVEN = 0.06, 0.12  # of what a message takes: what others on its line make of it; at most
OFTEN = 0.3  # of the messages: where segments are lost, so many are not alike to UNEVEN
SPREADS = 5.0  # of the others: so much later is a late one
RESENT = 0.25  # of the messages that lost segments: fewer segments sent again are not why
STEPS = 24


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What of a link departs. ``rate``: times slower; ``delay_ns``: added; both as far as they are needed."""

    part: Part
    rate: float = 1.0
    delay_ns: float = 0.0
    late_share: float = 0.0  # of LOSS: of the messages
    late_ns: float = 0.0  # of LOSS: by how much, median
    scatter: float = 0.0  # of RATE, and of LOSS where no few messages are why: of what one takes
    slow: tuple[tuple[float, float], ...] = ()  # of RATE that recurs: (begin, end) of each time, seconds of training
    recovers: bool = False  # of LOSS, where each is late by less than the one before


def telling_of(link: ObservedLink) -> npt.NDArray[np.bool_]:
    """Which messages of ``link`` show a rate, shape (messages,)."""
    return np.asarray(link.expected_ns >= TELLING * link.expected_ns.max())


def kind_of(link: ObservedLink, departs: npt.NDArray[np.bool_]) -> Kind:
    """What of ``link`` departs in its messages ``departs``, at least one."""
    fit = _Fit(link, _from_first_to_last_late(link, departs))
    if fit.telling.sum() < LEAST_MESSAGES:
        untold = Part.RATE_OR_DELAY if link.sent_again == 0 else Part.RATE_DELAY_OR_LOSS
        return Kind(part=untold, rate=fit.rate(0.0))
    most_ns = max(GRAIN_NS, float(np.median(fit.late_ns)))
    best_ns, free_ns = _least(lambda delay_ns: fit.disagreement_ns(delay_ns, fit.rate(delay_ns)), 1.1 * most_ns)
    fixed_at_ns, fixed_ns = _least(lambda delay_ns: fit.disagreement_ns(delay_ns, 1.0), 1.1 * most_ns)
    enough_ns = AS_GOOD * min(free_ns, fixed_ns) + GRAIN_NS / 2 + UNEVEN * fit.rate(0.0) * float(fit.expected_ns.mean())
    is_rate, is_delay = fit.disagreement_ns(0.0, fit.rate(0.0)) <= enough_ns, fixed_ns <= enough_ns
    found = fit.by_itself(fixed_ns) or _at_times(link, fit, is_rate=is_rate, is_delay=is_delay)
    if found is not None:
        return found
    if link.sent_again != 0 and len(fit.late_ns) >= LEAST_SCATTERED and shrinks(fit.late_ns):
        return Kind(part=Part.LOSS, rate=fit.rate(0.0), recovers=True)
    lost = _lost(fit, 0.0 if is_rate else best_ns)
    if lost is not None:
        return lost
    if is_delay and (fit.small or not is_rate):
        return _held_up(fit) or fit.by_itself(fixed_ns, MOST_UNEVEN) or Kind(part=Part.DELAY, delay_ns=fixed_at_ns)
    if is_rate and is_delay:
        uneven = link.sent_again != 0 and fit.scatter(0.0, fit.rate(0.0), within=MOSTLY) >= MAY_SCATTER
        return Kind(part=Part.RATE_DELAY_OR_LOSS if uneven else Part.RATE_OR_DELAY, rate=fit.rate(0.0))
    if is_rate:
        return Kind(part=Part.RATE, rate=fit.rate(0.0), scatter=fit.scatter(0.0, fit.rate(0.0)))
    rate = fit.rate(best_ns)
    part = Part.DELAY if best_ns > (rate - 1) * fit.usual_ns else Part.RATE
    return Kind(part=part, rate=rate, delay_ns=best_ns)


def _at_times(link: ObservedLink, fit: _Fit, *, is_rate: bool, is_delay: bool) -> Kind | None:
    """What comes and goes within windows, a rate or a delay; None if hardly all messages are as it has them."""
    slowest = None if is_delay and not is_rate else fit.comes_and_goes(often=not is_delay)
    if slowest is not None:
        return Kind(part=Part.RATE, rate=slowest, scatter=fit.scatter(0.0, fit.rate(0.0)))
    later_ns = fit.later_at_times_ns()
    if later_ns is None or (link.sent_again != 0 and takes_sending_again(later_ns, link.round_trip_ns)):
        return None
    return Kind(part=Part.DELAY, delay_ns=later_ns)


def _from_first_to_last_late(link: ObservedLink, departs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """``departs``, each row of messages without those at its ends that are on time: a window is not all of one kind."""
    late = np.flatnonzero(departs & (link.services_ns > (1 + UNEVEN) * link.expected_ns + GRAIN_NS))
    row = np.cumsum(~departs)  # a number for each row
    first, last = np.full(len(departs) + 1, len(departs)), np.full(len(departs) + 1, -1)
    np.minimum.at(first, row[late], late)
    np.maximum.at(last, row[late], late)
    places = np.arange(len(departs))
    kept = departs & (places >= first[row]) & (places <= last[row])
    return kept if kept.any() else departs


def _least(function: Callable[[float], float], most: float) -> tuple[float, float]:
    """(where ``function`` is least from 0 to ``most``, its value there), by a search that is refined twice."""
    low, high = 0.0, most
    for _ in range(3):
        places = np.linspace(low, high, STEPS)
        values = [function(float(place)) for place in places]
        best = int(np.argmin(values))
        low, high = places[max(0, best - 1)], places[min(STEPS - 1, best + 1)]
    return float(places[best]), values[best]


def _lost(fit: _Fit, delay_ns: float) -> Kind | None:
    rate = fit.rate(delay_ns)
    left_ns = fit.left_ns(delay_ns, rate)[fit.telling]  # of a barrier's messages nothing scatters
    usual_ns = float(np.median(left_ns))
    spread_ns = float(np.median(np.abs(left_ns - usual_ns))) / MAD_OF_NORMAL + GRAIN_NS
    late = left_ns - usual_ns > max(fit.one_way_ns + delay_ns, SPREADS * spread_ns)  # to send it again takes that
    share = float(late.mean())
    missing_ns = float(np.sum(fit.left_ns(0.0, 1.0)[fit.telling]))
    are_few = late.sum() >= LEAST_LATE and LATE_SHARE <= share < 0.5 and fit.may_be_lost(int(late.sum()))
    if are_few and left_ns[late].sum() >= LATE_PART * missing_ns:
        return Kind(part=Part.LOSS, rate=rate, late_share=share, late_ns=float(np.median(left_ns[late] - usual_ns)))
    scatter = fit.scatter(delay_ns, rate)
    is_slow = len(left_ns) >= LEAST_SCATTERED and (rate > 1 or delay_ns > 0)
    if is_slow and scatter >= SCATTER and fit.may_be_lost(len(left_ns)):
        return Kind(part=Part.LOSS, rate=rate, scatter=scatter)
    return None


def _held_up(fit: _Fit) -> Kind | None:
    """Of messages that seem late, whatever their size: whether they left unevenly late, the next one waiting there."""
    paces = fit.paces()
    if len(paces) < LEAST_SCATTERED or not fit.may_be_lost(len(paces)):
        return None
    pace = max(1.0, float(np.median(paces)))
    scatter = float(np.median(np.abs(paces - pace))) / MAD_OF_NORMAL / pace
    slower = pace - fit.one_way_ns / fit.usual_ns > 1  # by more than a window that is closed
    return Kind(part=Part.LOSS, rate=pace, scatter=scatter) if slower and scatter >= SCATTER else None


def _mean_off_ns(left_ns: Doubles) -> float:
    return float(np.sort(np.abs(left_ns))[: max(1, int(LATEST * len(left_ns)))].mean())


class _Fit:
    """The messages of one link that depart, beside the link's own delays and rates."""

    def __init__(self, link: ObservedLink, departs: npt.NDArray[np.bool_]) -> None:
        self._link, self._departs = link, departs
        self.expected_ns = np.maximum(1.0, link.expected_ns[departs])
        self.telling = self.expected_ns >= TELLING * self.expected_ns.max()
        self.usual_ns = float(np.median(self.expected_ns[self.telling]))
        self.small = bool(self.expected_ns.max() < TELLING * link.expected_ns.max())  # all of them
        late_ns = link.rows["recv_end_ns"] - link.rows["send_start_ns"] - link.designed_delay_ns - link.expected_ns
        self.late_ns: Doubles = np.maximum(0.0, late_ns[departs])  # if all of it were delay
        self.jitter_ns = link.designed.jitter_s * 1e9
        self.one_way_ns = max(float(np.median(link.designed_delay_ns[departs])), 2e6)

    def may_be_lost(self, messages: int) -> bool:
        """Whether so many of its messages may be as they are because of what was sent again."""
        its = np.flatnonzero(self._departs)[self.telling]
        return self._link.most_lost >= RESENT * messages or later_after_losses(self._link, its)

    def rate(self, delay_ns: float) -> float:
        """The rate that suits the messages best, with that delay."""
        ratios = self._services_ns(delay_ns) / self.expected_ns
        order = np.argsort(ratios)
        weights = np.cumsum(self.expected_ns[order])
        return max(1.0, float(ratios[order][np.searchsorted(weights, weights[-1] / 2)]))

    def left_ns(self, delay_ns: float, rate: float) -> Doubles:
        """Of each message, what is left of its service; of one that is sooner than that delay, what it lacks."""
        all_ns = after_delay_ns(self._link.rows, self._link.designed_delay_ns + round(delay_ns))
        return np.asarray(all_ns[self._departs] - rate * self.expected_ns)

    def scatter(self, delay_ns: float, rate: float, within: float = 0.5) -> float:
        """Of what large messages take: their standard deviation, by the part ``within`` of them, beyond jitter."""
        large = self.expected_ns >= LARGE * self.expected_ns.max()
        if large.sum() < LEAST_SCATTERED:
            large = self.telling
        left_ns, usual_ns = self.left_ns(delay_ns, rate)[large], float(np.median(self.expected_ns[large]))
        off_ns = float(np.quantile(np.abs(left_ns - np.median(left_ns)), within))
        spread_ns = off_ns / NormalDist().inv_cdf((1 + within) / 2)
        return max(0.0, spread_ns - self.jitter_ns - GRAIN_NS) / (rate * usual_ns + delay_ns)

    def disagreement_ns(self, delay_ns: float, rate: float) -> float:
        """Mean distance of what is left from nothing, the latest messages left out."""
        return _mean_off_ns(self.left_ns(delay_ns, rate))

    def by_itself(self, delayed_ns: float, uneven: float = OTHERS_UNEVEN) -> Kind | None:
        """A rate of its own, lower than what others leave it of a line, or that or a delay; None if it is no such rate.

        ``delayed_ns``: how far messages disagree with the best delay. Others come in between those of a pair: pairs are
        as even as to ``uneven``. None, too, where it passes no line.
        """
        if self._link.designed.left is None:
            return None
        bits = wire_bits_of(self._link.rows["nbytes"][self._departs]).astype(np.float64)
        took_ns, carried = self._of_pairs(np.ones(len(bits), dtype=np.bool_), self._services_ns(0.0), bits)
        off_ns = _mean_off_ns(took_ns - float(np.median(took_ns / carried)) * carried) * len(carried) / len(bits)
        if off_ns > min(self.disagreement_ns(0.0, self.rate(0.0)), uneven * float(took_ns.sum()) / len(bits)):
            return None
        clear = AS_GOOD * off_ns + GRAIN_NS / 2 < delayed_ns
        return Kind(part=Part.RATE if clear else Part.RATE_OR_DELAY, rate=self.rate(0.0))

    def paces(self) -> Doubles:
        """Of each message that departs, and keeps another waiting: how many times slower it left than designed."""
        rows, follows = self._link.rows, np.flatnonzero(self._departs[:-1]) + 1
        starts_ns, expected_ns = rows["send_start_ns"], self._link.expected_ns
        waits = rows["posted_ns"][follows] <= starts_ns[follows - 1]
        telling = expected_ns[follows - 1] >= TELLING * self.expected_ns.max()
        chosen = follows[waits & telling]
        return np.asarray((starts_ns[chosen] - starts_ns[chosen - 1]) / np.maximum(1.0, expected_ns[chosen - 1]))

    def later_at_times_ns(self) -> float | None:
        """By how much messages are late, if hardly any is by anything but that or nothing, be they large or small."""
        most_ns = float(np.quantile(self.late_ns, LATEST))
        level_ns = float(np.median(self.late_ns[self.late_ns >= most_ns / 2]))
        grain_ns = UNEVEN * level_ns + GRAIN_NS + self.jitter_ns
        at, in_time = np.abs(self.late_ns - level_ns) <= grain_ns, self.late_ns <= grain_ns
        two = level_ns > 2 * grain_ns and (at | in_time).mean() >= LATEST
        sizes = [each for each in (self.telling, ~self.telling) if each.any()]
        both = any(min(at[each].mean(), in_time[each].mean()) >= ALIKE for each in sizes)
        return level_ns if two and both else None

    def comes_and_goes(self, *, often: bool) -> float | None:
        """How many times slower the link is at times, if it is as designed at others, or that slow ``often``."""
        found = self._two_levels(self._ratios_of_pairs(), ALIKE, ALIKE)
        if found is None and often:
            found = self._two_levels(self._services_ns(0.0)[self.telling] / self.expected_ns[self.telling], OFTEN, 0.0)
        return found

    def _two_levels(self, ratios: Doubles, least_slow: float, least_designed: float) -> float | None:
        """The slowest of ``ratios``, if so large parts of them are it, and as designed, and hardly any is beyond."""
        slowest = float(np.quantile(ratios, SLOWEST))
        grain = UNEVEN * slowest + GRAIN_NS / self.usual_ns
        slow, designed = ratios >= slowest - grain, ratios <= 1 + grain
        within = (ratios >= 1 - grain) & (ratios <= slowest + grain)
        two = slowest > 1 + 2 * grain and within.mean() >= LATEST
        return slowest if two and slow.mean() >= least_slow and designed.mean() >= least_designed else None

    def _ratios_of_pairs(self) -> Doubles:
        """Times longer than designed, of telling messages."""
        took_ns, expected_ns = self._of_pairs(self.telling, self._services_ns(0.0), self.expected_ns)
        return took_ns / expected_ns

    def _of_pairs(self, chosen: npt.NDArray[np.bool_], *each: Doubles) -> tuple[Doubles, ...]:
        """``each`` of the messages ``chosen``; of two of which one waits for the other, of both together:

        which of them is there first, and takes less for it, says nothing of the link.
        """
        rows = self._link.rows[self._departs][chosen]
        waits = np.append(False, rows["send_start_ns"][1:] < rows["recv_end_ns"][:-1])
        places = np.arange(len(rows))
        in_train = places - np.maximum.accumulate(np.where(waits, 0, places))
        pair = np.cumsum(in_train % 2 == 0) - 1
        return tuple(np.bincount(pair, values[chosen]).astype(np.float64) for values in each)

    def _services_ns(self, delay_ns: float) -> Doubles:
        delays_ns = self._link.designed_delay_ns + round(delay_ns)
        return np.asarray(services_ns(self._link.rows, delays_ns)[self._departs], dtype=np.float64)
