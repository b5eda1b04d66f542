"""Kind of a link's departure: by its messages alone (:mod:`.kinds`), and by what simulated links make of them.

In a modelled world a link, simulated (:mod:`.tcp_simulated`, :mod:`.lower_rate`), brings messages when they came if it
is changed as it was: so a rate is told from a delay that comes and goes, and from losses. In any world one that drifts
or steps is told from losses by stretches of the link: within these it serves alike messages alike. One that recurs is
told from losses by all of its messages: on machines, a queue that overflows meanwhile included, and where no simulated
rate tells. Who of its two ends a link waits for sockets tell (:mod:`.ends`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import MAD_OF_NORMAL, Doubles
from e2c_dl.diagnosis.detection.links.ends import end_of
from e2c_dl.diagnosis.detection.links.first_bytes import (
    CERTAIN,
    even_delay_ns,
    first_bytes_late_ns,
    found_idle,
    late_first_bytes_ns,
    least_late_ns,
    waited_ns,
)
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import (
    GRAIN_NS,
    LARGE,
    LEAST_MESSAGES,
    LEAST_SCATTERED,
    MAY_SCATTER,
    SCATTER,
    UNEVEN,
    UNTOLD,
    Kind,
    kind_of,
)
from e2c_dl.diagnosis.detection.links.longer_delay import longer_delay_ns
from e2c_dl.diagnosis.detection.links.lower_rate import lower_rate, recurring_rate
from e2c_dl.diagnosis.detection.links.sending_again import NEAR, is_near, takes_sending_again
from e2c_dl.diagnosis.detection.links.series import IMPOSSIBLE
from e2c_dl.diagnosis.detection.links.tcp_simulated import BROUGHT, AsDesigned
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Part

CLEARLY = 0.8  # of what a delay leaves: a rate that leaves more is no better
NEITHER = 0.5  # of what a delay leaves: a rate that leaves as much is not why messages are late either
BY_NO_RATE = 0.15  # of what a message takes: so far from when they came at least is what no rate brought
FAR_LESS = 0.5  # of how far they are from each other
A_MESSAGE = 1.0  # of what one takes
HALF, LEAST_IN_LINE = 0.5, 5  # of a scatter, or of messages; messages
GIVEN_BACK = 0.5  # of what messages are late
FEW_TRIPS, MOST = 3, 0.5  # of a window that grows with each; of the messages


def kind_told(each: JudgedLink, as_designed: AsDesigned) -> Kind:
    """What of the link ``each`` departs, while it does."""
    if each.link.by_receiver:  # it does not tell a delay
        return Kind(part=Part.RATE, rate=each.judged.slowdown)
    windows, chosen = each.judged.windows, within_stretches(each)
    kind = _kind_of(each, chosen, as_designed)
    certain = False
    if as_designed.exact and each.link.designed.left is None and (kind.part in UNTOLD or kind.late_share):
        late_ns = late_first_bytes_ns(each.link, chosen, least=CERTAIN)
        certain = late_ns > 0
        if not certain and kind.part in UNTOLD:  # else a few are late by far: those that nothing held up, or that lost
            late_ns = late_first_bytes_ns(each.link, chosen)
            certain = late_ns > 0 and _late_alike(each, chosen, late_ns)
        kind = Kind(part=Part.DELAY, delay_ns=late_ns) if late_ns else kind
    comes_or_goes = kind.part is Part.DELAY and not each.judged.departs.all()
    if comes_or_goes and waited_ns(each.link, each.of.messages(windows)) < kind.delay_ns / 2:
        kind = Kind(part=Part.RATE, rate=each.judged.slowdown)
    elif comes_or_goes and as_designed.exact and not certain:
        later_s = each.judged.during().mapped(lambda values: values * kind.delay_ns / 1e9)
        misfits_ns = as_designed.misfits_ns(each.link, each.of.judged, later_s, each.judged.scale())
        if misfits_ns is not None and CLEARLY * misfits_ns[0] > misfits_ns[1]:
            lost = misfits_ns[1] > NEITHER * misfits_ns[0] and lost_a_round_trip(each.link, chosen, kind.delay_ns)
            kind = lost or Kind(part=Part.RATE, rate=each.judged.slowdown)
    if as_designed.exact and kind.part is not Part.DELAY:
        longer_ns = longer_delay_ns(each, as_designed)
        kind = kind if longer_ns is None else Kind(part=Part.DELAY, delay_ns=longer_ns)
    if each.of.warming:  # beside what TCP learns of it; of that the messages know nothing
        return replace(kind, rate=each.judged.slowdown)
    kind = _or_delay(each, _changing_rate(each, chosen, _rate_or_loss(each, chosen, kind, as_designed)))
    if kind.part is Part.LOSS:
        return kind
    end = end_of(each.link, each.of.messages(windows))
    if end is not None:
        return replace(kind, part=end, rate=each.judged.slowdown, delay_ns=0.0)
    return _late_as_well(each, chosen, kind) if as_designed.exact else kind


def _kind_of(each: JudgedLink, chosen: npt.NDArray[np.bool_], as_designed: AsDesigned) -> Kind:
    """The kind by its messages ``chosen``.

    On machines a delay, where all first bytes are late by one, and a rate, where one that recurs suits what seems lost.
    """
    kind = kind_of(each.link, chosen)
    if kind.part is Part.LOSS:  # unevenly late, as they are, too, where windows open
        others = chosen & ~as_designed.held_up(each.link)
        kind = kind_of(each.link, others) if others.sum() >= LEAST_MESSAGES else kind
    if as_designed.exact:
        return kind
    if kind.part not in UNTOLD:
        return (kind.part is Part.LOSS and recurring_rate(each, as_designed)) or kind
    even_ns = even_delay_ns(each.link, each.judged.slowdown)
    return Kind(part=Part.DELAY, delay_ns=even_ns) if even_ns else kind


def _late_alike(each: JudgedLink, chosen: npt.NDArray[np.bool_], late_ns: float) -> bool:
    """Whether first bytes, of two messages or more, are late by ``late_ns``, by neither rate nor loss."""
    link = each.link
    first_ns = first_bytes_late_ns(link)[chosen & found_idle(link)]
    grain_ns = GRAIN_NS + link.designed.jitter_s * 1e9 + UNEVEN * late_ns
    by_rate_ns = each.judged.slowdown * link.frame_ns  # a first segment is served, too
    alike = len(first_ns) > 1 and float(np.abs(first_ns - late_ns).max()) <= grain_ns
    by_delay = late_ns - by_rate_ns > least_late_ns(link) and not takes_sending_again(late_ns, link.round_trip_ns)
    return alike and by_delay


def _or_delay(each: JudgedLink, kind: Kind) -> Kind:
    """``kind``, or, where most of what messages are late is made up for by what follows, a rate or a delay.

    No message is served faster than its link is, whatever rate that had before. But when a delay is over, what follows
    comes sooner behind what was late, for it had left in time; so it does behind what was lost, once that is there. A
    delay that comes and goes within messages stretches those that it meets, by all of it or a part, as a rate does.
    Where nothing follows at once nothing is made up for: then most are late one by one, by one time, first bytes too.
    """
    link, departs = each.link, each.of.messages(each.judged.windows)
    if kind.part is not Part.RATE or kind.delay_ns or link.designed.left is not None:
        return kind
    late_ns, grain_ns = link.services_ns - link.expected_ns, GRAIN_NS + link.designed.jitter_s * 1e9
    grains_ns = grain_ns + UNEVEN * link.expected_ns
    short = ~departs & (late_ns < -grains_ns)
    is_given_back = -late_ns[short].sum() >= GIVEN_BACK * late_ns[departs].sum()
    one_by_one = _late_one_by_one(link, departs & (late_ns > grains_ns), late_ns)
    return replace(kind, part=Part.RATE_OR_DELAY) if is_given_back or one_by_one else kind


def _late_one_by_one(link: ObservedLink, late: npt.NDArray[np.bool_], late_ns: Doubles) -> bool:
    """Whether most of the messages ``late`` stand alone among others, are so by one time, and begin late already."""
    if late.sum() < CERTAIN:
        return False
    alone = late & ~np.append(False, late[:-1]) & ~np.append(late[1:], False)
    level_ns = float(np.median(late_ns[late]))
    alike = np.abs(late_ns - level_ns) <= GRAIN_NS + link.designed.jitter_s * 1e9 + UNEVEN * level_ns
    begun_late = first_bytes_late_ns(link) > least_late_ns(link)
    return all(float(each[late].mean()) >= HALF for each in (alone, alike, begun_late))


def _late_as_well(each: JudgedLink, chosen: npt.NDArray[np.bool_], kind: Kind) -> Kind:
    """``kind``, and where that is a lower rate all the time, the delay that messages waiting for each other hide."""
    link = each.link
    if kind.part is not Part.RATE or kind.delay_ns or link.designed.left is not None or not each.judged.departs.all():
        return kind
    late_ns = late_first_bytes_ns(link, chosen, least=CERTAIN)
    by_rate_ns = kind.rate * link.frame_ns  # at most: a first segment is served, too
    return replace(kind, delay_ns=late_ns) if late_ns - by_rate_ns > least_late_ns(link) else kind


def lost_a_round_trip(link: ObservedLink, departs: npt.NDArray[np.bool_], late_ns: float) -> Kind | None:
    """LOSS, where the ``departs`` that are late are so by ``late_ns``, and that is a round trip: what sends it again.

    None: it is not, or its socket has sent nothing again.
    """
    if link.sent_again == 0 or not is_near(late_ns, link.round_trip_ns):
        return None
    late = link.services_ns - link.expected_ns > late_ns / 2
    return Kind(part=Part.LOSS, late_share=float(late[departs].mean()), late_ns=late_ns)


def within_stretches(each: JudgedLink) -> npt.NDArray[np.bool_]:
    """Its messages that depart, without those at the edges of its stretches if enough are left: it began in between."""
    windows = each.judged.windows
    within = windows & np.append(windows[:1], windows[:-1]) & np.append(windows[1:], windows[-1:])
    inner = each.of.messages(within)
    enough = within.sum() * 2 > windows.sum() or inner.sum() >= LEAST_MESSAGES
    return inner if enough else each.of.messages(windows)


def _rate_or_loss(
    each: JudgedLink, chosen: npt.NDArray[np.bool_], kind: Kind, as_designed: AsDesigned
) -> Kind:  # fmt: skip
    """``kind``, or the other of the two: that a rate brings messages when they came tells more than unevenness.

    Large ones are hardly uneven, whatever is lost of them: a rate that is why they are leaves far less than that. Nor
    are those uneven that take a round trip or two each, by a window that losses keep narrow: it looks like a rate.
    One that alternates within messages brings each within a message of when its mean would; so may losses. Where none
    of the messages ``chosen`` is as those are that are sent again, they do not tell which.
    """
    uneven = kind.scatter >= MAY_SCATTER
    is_rate = kind.part is Part.RATE and not kind.delay_ns and (uneven or _by_round_trips(each.link, chosen))
    if not as_designed.exact or not (is_rate or kind.part is Part.LOSS) or (is_rate and each.link.sent_again == 0):
        return kind
    by_none = BY_NO_RATE if uneven else A_MESSAGE
    found = lower_rate(each, as_designed, enough=by_none if is_rate else 0.0)
    if found is None:
        seems_lost = not is_rate and as_designed.is_known_alone(each.link)
        return (seems_lost and recurring_rate(each, as_designed)) or kind
    if not is_rate and found.misfit <= min(BROUGHT, FAR_LESS * found.scatter):
        return Kind(part=Part.RATE, rate=found.rate, slow=found.slow)
    no_rate = is_rate and found.misfit >= by_none
    if not no_rate and (is_rate or not kind.scatter):
        return kind
    by_loss = found.misfit >= A_MESSAGE or _sent_some_again(each.link, chosen)
    return replace(kind, part=Part.LOSS if by_loss else Part.RATE_DELAY_OR_LOSS)


def _changing_rate(each: JudgedLink, chosen: npt.NDArray[np.bool_], kind: Kind) -> Kind:
    """``kind``, or a rate that drifts or steps, where messages ``chosen`` scatter about one level, but not several.

    Losses leave messages about as uneven within a stretch of one level, or beside their neighbours, as beside all; but
    for a window that grows again, by a segment each round trip, and makes them late by no more than that. Where levels
    change too often to have some messages each, neighbours alone do not tell which it is.
    """
    link = each.link
    if kind.part is not Part.LOSS or kind.late_share or link.sent_again is not None:
        return kind
    late_ns = float((link.services_ns - link.expected_ns)[chosen].sum())
    if late_ns <= link.round_trip_ns * max(1.0, link.round_trip_ns / max(1.0, link.frame_ns)):  # all that it holds
        return kind
    large = chosen & (link.expected_ns >= LARGE * link.expected_ns[chosen].max())
    took = np.log(np.maximum(1.0, link.services_ns[large]) / link.expected_ns[large])
    within = _off_lines(each, large, took)
    off = within if len(within) >= LEAST_SCATTERED else np.abs(np.diff(took, 2)) / np.sqrt(6.0)  # variances add up
    if len(off) < LEAST_SCATTERED - 2:
        return kind
    scatter = float(np.median(off)) / MAD_OF_NORMAL
    scatter -= (link.designed.jitter_s * 1e9 + GRAIN_NS) / float(np.median(link.services_ns[large]))
    if scatter >= min(SCATTER, HALF * kind.scatter or SCATTER):
        return kind
    is_rate = off is within and scatter < HALF * MAY_SCATTER
    return Kind(part=Part.RATE if is_rate else Part.RATE_DELAY_OR_LOSS, rate=each.judged.slowdown)


def _off_lines(each: JudgedLink, chosen: npt.NDArray[np.bool_], values: Doubles) -> Doubles:
    """How far ``values`` of the messages ``chosen`` are from the line of their stretch, where it has LEAST_IN_LINE."""
    windows, found = each.of.windows[chosen], [np.empty(0)]
    for start, stop in each.judged.levelled.found:
        own = values[(windows >= start) & (windows < stop)]
        if len(own) >= LEAST_IN_LINE:
            places = np.arange(len(own))
            line = np.polyval(np.polyfit(places, own, 1), places)
            found.append(np.abs(own - line) * np.sqrt(len(own) / (len(own) - 2)))  # a line is free in two of them
    return np.concatenate(found)


def _by_round_trips(link: ObservedLink, departs: npt.NDArray[np.bool_]) -> bool:
    """Whether most of the messages ``departs`` of ``link`` are late by one or a few whole round trips."""
    trips = (link.services_ns[departs] - link.expected_ns[departs]) / max(1.0, link.round_trip_ns)
    whole = np.clip(np.round(trips), 1, FEW_TRIPS)
    return bool((np.abs(trips - whole) <= NEAR).mean() > MOST)


def _sent_some_again(link: ObservedLink, departs: npt.NDArray[np.bool_]) -> bool:
    """Whether the messages ``departs`` of ``link`` show that segments were sent again, or its socket says so.

    One is late by a round trip, or took less than any link can: it was there before the one ahead of it was whole.
    """
    if link.sent_again is not None:
        return link.sent_again > 0
    took_ns, expected_ns = link.services_ns[departs], link.expected_ns[departs]
    late = took_ns - expected_ns >= (1 - NEAR) * link.round_trip_ns
    at_once = took_ns + link.designed.jitter_s * 1e9 + GRAIN_NS < IMPOSSIBLE * expected_ns
    return bool(late.any() or at_once.any())
