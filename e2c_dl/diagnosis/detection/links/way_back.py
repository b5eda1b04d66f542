"""What a link that is later by a delay takes longer by round trips, and what the other way does.

::

    a -> b    its window opens, or it loses segments    |===    |=====    |===      a round trip between each
    b -> a    40 ms later                                   '---'     '----'        of which this is a part

Where b -> a is late, its own messages show little of what that costs the other way, whose acknowledgements come by it.
So do they where b -> a is slower than designed: they wait behind its data, a queue of up to a second. What a -> b takes
longer by that is uneven, as its window lets it, and over with what b -> a carries; a lower rate serves alike messages
alike, most of them at least, or recurs. And where b -> a is late by a delay, a -> b is late until its window is open,
and no longer. Where b -> a is as designed, too, a -> b is late when its window is shorter than what it sends, and than
what b -> a has queued by its own (:mod:`.tcp_windows`).

Source: Mathis, Semke, Mahdavi and Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm", CCR 1997,
Eq. (3): where losses limit a link, its rate is as one over its round trip; as it is where its window opens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.departures import Departure
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import UNTOLD, Kind, telling_of
from e2c_dl.diagnosis.detection.links.sending_again import LONG, iterations_since_losses, shrinks
from e2c_dl.diagnosis.detection.links.series import delivered
from e2c_dl.diagnosis.detection.links.tcp_windows import acknowledged_late_ns
from e2c_dl.diagnosis.links import ObservedLink, services_ns
from e2c_dl.diagnosis.model import Limitation, Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf
from e2c_dl.topology import Pair
from e2c_dl.trace.messages import MessageArray

UNEVENLY, EVENLY = 1.1, 1.05  # the upper quartile of what messages take, beside the lower; beside another one
FALLS = 0.75  # of what the first third of the messages is late: a window that opens
LATE, MEANWHILE = 1.1, 0.7  # times as long as designed; of what messages are late, beside the other way
CLEARLY_LESS = 0.75  # of what the other way is slower: of few messages no other evidence is to be had
EARLY = 0.75  # of what messages are late, in the first half of the run
LATEST, HALF = 0.9, 0.5  # of the messages; of these, or of what they are late
MOST_HELD, HELD, ON_TIME = 1.25, 2 / 3, 1 / 3  # times as late as windows make it; left of that; of those that wait
LESS = 0.25  # of what a link departs: by so little the other way hardly does
A_WHILE = 3  # windows on time: one that was opened stays open
LEAST_MESSAGES, LEAST_EVEN = 8, 5  # that depart; clearly


def behind_data(
    departing: Sequence[JudgedLink], carried: Mapping[Pair, ObservedLink], kinds: Mapping[Pair, Kind]
) -> tuple[list[Pair], list[Pair], list[Pair]]:  # fmt: skip
    """Those of ``departing`` that wait behind the other way's data; open their windows beside it; are held up by both.

    The first are of a link that departs more, or open their windows by acknowledgements that come late, for the other
    way is so by a delay. The last are late as the windows of both ways, which sockets told, have them wait, beside one
    that departs by next to nothing. ``kinds``: of what departs, as far as they are known.
    """
    by_pair = {each.link.pair: each for each in departing}
    later = {pair for pair, kind in kinds.items() if kind.delay_ns}
    recurring = {pair for pair, kind in kinds.items() if kind.slow}

    def waits(pair: Pair, back: Pair) -> bool:
        recurs = back in recurring and pair not in recurring
        if back in by_pair and _waits_for_acknowledgements(by_pair[pair], by_pair[back], recurs=recurs):
            return True
        return back in later and pair not in later and _is_late_at_first(by_pair[pair])

    def departs_less(back: Pair, pair: Pair) -> bool:
        return back not in by_pair or by_pair[back].judged.excess_s <= LESS * by_pair[pair].judged.excess_s

    waiting = [pair for pair in by_pair if waits(pair, pair[::-1])]
    others = [pair for pair in by_pair if pair not in waiting and pair[::-1] in carried]
    opening = [pair for pair in others if _opens_behind(by_pair[pair], carried[pair[::-1]])]
    held_up = [
        pair for pair in others
        if pair not in opening and departs_less(pair[::-1], pair) and _may_be_a_window(kinds.get(pair))
        and _is_held_up(by_pair[pair], carried[pair[::-1]])
    ]  # fmt: skip
    return waiting, opening, held_up


def _waits_for_acknowledgements(each: JudgedLink, back: JudgedLink, *, recurs: bool) -> bool:
    """Whether ``each`` is later than designed by what ``back``, the other way, is slower, evenly or as ``recurs``."""
    own, other = _times_longer(each), _times_longer(back)
    if each.judged.excess_s > back.judged.excess_s or not len(own) or not len(other):
        return False
    by_back = _is_late_beside(each, back.link.rows[_late(back)])
    if min(len(own), len(other)) < LEAST_MESSAGES:
        less = own.max() <= CLEARLY_LESS * other.max() and each.judged.excess_s <= CLEARLY_LESS * back.judged.excess_s
        return bool(by_back and less and _begins_behind(each, back))
    if recurs:
        return by_back
    clearly = other[other - 1 >= (np.quantile(other, LATEST) - 1) / 2]  # some it carried as designed, or nearly
    if len(clearly) < LEAST_EVEN or (clearly - 1).sum() < HALF * (other - 1).sum():
        return False
    usual, most = np.quantile(clearly, (0.5, 0.75))
    return bool(most <= EVENLY * usual and _is_uneven(own) and by_back)


def _begins_behind(each: JudgedLink, back: JudgedLink) -> bool:
    """Whether all of ``each`` that is late was sent after ``back`` had begun to carry something that is late there."""
    late, late_there = _late(each), _late(back)
    begun_ns = (back.link.left_ns - back.link.services_ns)[late_there].min(initial=back.link.left_ns.max())
    return bool((each.link.rows["send_start_ns"][late] - each.link.began_ns >= begun_ns).all())


def _opens_behind(each: JudgedLink, back: ObservedLink) -> bool:
    """Whether ``each`` is late in the first half of the run, from its beginning on, beside data of ``back``.

    Two links that are full both ways open their windows by acknowledgements that wait: for seconds, as designed.
    """
    own = _times_longer(each)
    return (
        len(own) >= LEAST_MESSAGES
        and _is_late_at_first(each)
        and (_spread(own) > EVENLY or shrinks(own - 1, FALLS))
        and _is_late_beside(each, back.rows)
    )


def _may_be_a_window(kind: Kind | None) -> bool:
    """Whether what a window holds up may look so: as neither losses, a rate that recurs, nor an end that is waited for.

    Nor as a delay, for no window holds up a first byte.
    """
    return kind is None or (kind.part in {Part.RATE, *UNTOLD} and not kind.delay_ns and not kind.slow)


def _is_held_up(each: JudgedLink, back: ObservedLink) -> bool:
    """Whether messages of ``each`` are late as acknowledgements wait for what ``back`` has in its queue, and only then.

    They are late in proportion to how late they may be for that, by both windows, but for HELD of it, and those that
    need not wait are on time. For long after it lost segments its window is short for these.
    """
    link = each.link
    if any(one.by_receiver or one.designed.loses for one in (link, back)):
        return False
    may_ns, since = acknowledged_late_ns(link, back), iterations_since_losses(link)
    if may_ns is None or since is None:
        return False
    chosen = each.of.judged & telling_of(link)
    may_ns = np.where(since < LONG, 0.0, may_ns)[chosen]
    took_ns = delivered(link.services_ns.astype(np.float64), link.expected_ns)
    late_ns = np.maximum(0.0, took_ns - link.expected_ns)[chosen]
    waits = may_ns > 0
    if min(waits.sum(), (~waits).sum()) < LEAST_EVEN or not late_ns[waits].any():
        return False
    part = float(late_ns @ may_ns / (may_ns @ may_ns))
    off_ns = np.abs(late_ns - part * may_ns)
    only_then = late_ns[~waits].mean() <= ON_TIME * late_ns[waits].mean()
    return bool(part <= MOST_HELD and only_then and off_ns.sum() <= HELD * late_ns.sum())


def _spread(times: npt.NDArray[np.float64]) -> float:
    """The upper quartile of ``times``, at least one, beside the lower."""
    low, high = np.quantile(times, (0.25, 0.75))
    return float(high / low)


def _is_uneven(times: npt.NDArray[np.float64]) -> bool:
    """Whether messages that take so many ``times`` as long as designed are late unevenly, as by no lower rate."""
    usual = float(np.median(times))
    alike = np.abs(times - usual) <= (EVENLY - 1) * usual
    return bool(_spread(times) >= UNEVENLY and alike.sum() <= HALF * len(times))


def _is_late_at_first(each: JudgedLink) -> bool:
    """Whether ``each`` is late in the first half of the run, from its beginning on, and hardly later, nor by more."""
    windows = each.judged.windows
    if not windows[:2].any():
        return False
    late = _late(each)
    half_s = each.of.series.until_s / 2
    early = (each.link.rows["send_start_ns"] - each.link.began_ns) / 1e9 < half_s
    late_ns = (each.link.services_ns - each.link.expected_ns)[late]
    return bool(late_ns[early[late]].sum() >= EARLY * late_ns.sum() and not _is_later_again(each, late, late_ns))


def _is_later_again(each: JudgedLink, late: npt.NDArray[np.bool_], late_ns: npt.NDArray[np.float64]) -> bool:
    """Whether those of its messages that are ``late``, by ``late_ns``, are mostly so by more, and after a while."""
    windows = each.judged.windows
    places = np.flatnonzero(windows)
    follows = np.flatnonzero(np.diff(places) > A_WHILE)
    if not len(follows):
        return False
    again = each.of.messages(windows & (np.arange(len(windows)) > places[follows[0]]))[late]
    several = min(again.sum(), (~again).sum()) > 0 and again.sum() >= LEAST_EVEN
    return bool(
        several and late_ns[again].sum() >= HALF * late_ns.sum() and late_ns[again].mean() > late_ns[~again].mean()
    )


def _is_late_beside(each: JudgedLink, beside: MessageArray) -> bool:
    """Whether nearly all that ``each`` is late it is while messages ``beside`` were under way."""
    late = _late(each)
    if each.link.by_receiver or each.link.designed.loses or not late.any():
        return False
    order = np.argsort(beside["send_start_ns"])
    until_ns = np.append(0, np.maximum.accumulate(beside["recv_end_ns"][order]))  # of those that were sent by then
    sent_before = np.searchsorted(beside["send_start_ns"][order], each.link.rows["recv_end_ns"][late], side="right")
    meanwhile = until_ns[sent_before] >= each.link.rows["send_start_ns"][late]
    late_ns = (each.link.services_ns - each.link.expected_ns)[late]
    return bool(late_ns[meanwhile].sum() >= MEANWHILE * late_ns.sum())


def with_what_waits(departure: Departure, waiting: Departure | None) -> Departure:
    """``departure``, which restores what is ``waiting`` behind its data, too."""
    if waiting is None:
        return departure
    together = WhatIf(changes=(*departure.restored.changes, *waiting.restored.changes))
    return replace(departure, restored=together, excess_s=departure.excess_s + waiting.excess_s)


def not_blamed(waiting: Sequence[Pair], opening: Sequence[Pair], held_up: Sequence[Pair]) -> list[Limitation]:
    """What is said of those that are ``waiting`` for acknowledgements, ``opening`` their windows, or ``held_up``."""
    late = "Not blamed for being late: {}. Acknowledgements of that come late, for the other way is slow, or late."
    early = "Not blamed for being late at first: {}. TCP opens windows while acknowledgements wait behind data."
    held = "Not blamed for being late: {}. Windows were shorter than messages, and than the other way's queue of data."
    return [
        Limitation.of(said, "link", [f"{src} -> {dst}" for src, dst in pairs])
        for said, pairs in ((late, waiting), (early, opening), (held, held_up)) if pairs
    ]  # fmt: skip


def _times_longer(each: JudgedLink) -> npt.NDArray[np.float64]:
    """How many times as long as designed each message took that departs, of those that show a rate."""
    chosen = each.of.messages(each.judged.windows) & telling_of(each.link)
    return np.asarray(each.link.services_ns[chosen] / np.maximum(1.0, each.link.expected_ns[chosen]))


def _late(each: JudgedLink) -> npt.NDArray[np.bool_]:
    """Which of its messages depart, and are late."""
    return each.of.messages(each.judged.windows) & (each.link.services_ns > LATE * each.link.expected_ns)


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
