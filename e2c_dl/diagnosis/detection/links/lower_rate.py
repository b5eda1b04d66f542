"""A lower rate, tried: a link simulated at the rate that its messages show, beside when they came.

::

    served     |=|===|=======|=========|===|=|      of a run of late ones the first was on its way when the rate fell,
    rate       1.0  |_____1 / f_______|  1.0        the last when it rose: when that was, f tells
    simulated  |=|===|=======|========|====|=|      *misfit*: the median distance, as part of what a late one takes

A link that is nothing but a model does as its rate has it, TCP's windows and queues that overflow included: if some
rate brings messages when they came, it was that, however unevenly they came. Of one that loses segments by chance no
rate does; but any brings one or two messages, whose beginning and end are free: runs that long tell nothing, unless one
rate that recurs suits hardly less than all messages (:mod:`.recurring_rate`): by chance it suits half of a few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS, LATEST, UNEVEN, Kind, telling_of
from e2c_dl.diagnosis.detection.links.recurring_rate import FREE as FREE_OF_ALL
from e2c_dl.diagnosis.detection.links.recurring_rate import Recurrence, recurrence
from e2c_dl.diagnosis.detection.links.series import delivered
from e2c_dl.diagnosis.detection.links.tcp_simulated import BROUGHT, HELD_UP, AsDesigned, at_least_ns, later_than
from e2c_dl.diagnosis.detection.series import rows_of
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.piecewise import Piecewise

LEAST_SLOWER = 1.05
SHOWN = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of the messages: what the slowest of them take may be it
TRIED, BEYOND, NEAR = 8, 1.4, 0.05  # rates, up to BEYOND what is shown, then as many around the best of them
CLEAR, LEFT, LESS = 0.25, 1 / 6, 0.4  # of the latest; of what these are late; of what one rate all the time leaves
LEFT_EXACT = 1 / 12  # as LEFT, of a modelled world's links: jitter alone makes them uneven
MOST_OF_TIME = 0.6  # that it is slow: of more, it would hardly be by turns
LEAST_TURNS = 4  # that it was slow: of fewer, late by chance, three may be as far apart as two
FREE, LEAST_TOLD = 2, 4  # of each run of messages; of all of them, beyond what is free
_SHORTEST_S = 1e-6

Interval = tuple[float, float]
"""(begin, end), seconds of training."""
Run = tuple[int, int]
"""(first, last) of messages that follow each other."""


@dataclass(frozen=True, kw_only=True)
class LowerRate:
    """The rate that suits a link's late messages best, or one that recurs and suits hardly less than all of it."""

    rate: float  # times lower than designed
    misfit: float  # as part of what one takes: the median of the late ones; of a rate that recurs, of nearly all
    slow: tuple[Interval, ...] = ()  # of one that recurs: when it is that low
    scatter: float  # of what they take, beside what their bits would: median from their median, as part of that


def lower_rate(each: JudgedLink, as_designed: AsDesigned, enough: float = 0.0) -> LowerRate | None:
    """The lower rate that suits ``each``, while it departs, best; or the first whose misfit is less than ``enough``.

    None: too few messages to tell, or nobody knows what TCP makes of any rate.
    """
    link = each.link
    would_ns = as_designed.would_ns(link)
    if would_ns is None or not as_designed.is_known_alone(link):
        return None
    as_designed_ns = at_least_ns(link, would_ns)
    every, runs = _late(link, as_designed_ns)
    late = every & each.of.messages(each.judged.windows)
    by_themselves = late.sum() - FREE * sum(bool(late[first : last + 1].any()) for first, last in runs) >= LEAST_TOLD
    many = late.sum() - FREE_OF_ALL >= LEAST_TOLD
    if not by_themselves and not many:
        return None
    ratios = link.services_ns[late] / np.maximum(1.0, link.expected_ns[late])
    shown = np.maximum(LEAST_SLOWER, np.quantile(ratios, SHOWN))
    scatter = float(np.median(np.abs(ratios - np.median(ratios))) / np.median(ratios))
    usual_ns = float(np.median(link.services_ns[late]))

    def brings(slow: Sequence[Interval], rate: float, share: float, *told: npt.NDArray[np.bool_]) -> LowerRate:
        off_ns = as_designed.off_ns(link, rate=_in_force(slow, rate))
        misfit = max(float(np.quantile(off_ns[each], share)) for each in told) / usual_ns
        return LowerRate(rate=rate, misfit=misfit, scatter=scatter)

    def best(rates: Iterable[float]) -> LowerRate:
        tried = []
        for rate in rates:
            tried.append(brings(_slow(link, runs, rate), rate, 0.5, late))
            if tried[-1].misfit < enough:
                break
        return min(tried, key=lambda one: one.misfit)

    found = None
    if by_themselves:
        found = best(dict.fromkeys([*shown.tolist(), *np.geomspace(shown[0], BEYOND * shown[-1], TRIED).tolist()]))
        if found.misfit >= enough:
            around = np.maximum(LEAST_SLOWER, found.rate * np.linspace(1 - NEAR, 1 + NEAR, TRIED))
            found = best(dict.fromkeys([found.rate, *around.tolist()]))
        if found.misfit < enough:
            return found
    together = _recurrence(link, as_designed_ns) if many and (found is None or found.misfit > BROUGHT) else None
    if together is not None:
        slow = together.slow(float(link.left_ns.max()) / 1e9)
        recurs = brings(slow, together.rate, LATEST, late, telling_of(link))
        if recurs.misfit <= BROUGHT:
            return replace(recurs, slow=tuple(slow))
    return found


def _recurrence(link: ObservedLink, as_designed_ns: Doubles) -> Recurrence | None:
    """The recurrence that suits those messages of ``link`` best which tell a rate, and which no window holds up."""
    telling = _not_held_up(link, as_designed_ns)
    if telling.sum() - FREE_OF_ALL < LEAST_TOLD:
        return None
    return recurrence(*_served_s(link, telling, link.services_ns[telling].astype(np.float64)))


def recurring_rate(each: JudgedLink, as_designed: AsDesigned) -> Kind | None:
    """The lower rate that recurs and suits late messages of ``each`` far better than one all the time; None: none does.

    By the messages alone, as on machines they come: where a queue overflows what is sent again is delivered with what
    follows, and looks like losses. Those by chance, or by turns, are late by no part of what is sent meanwhile. Links
    that are nothing but a model must be suited as much better as they are more even.
    """
    link = each.link
    would_ns = as_designed.would_ns(link)
    if would_ns is None:
        return None
    telling = _not_held_up(link, at_least_ns(link, would_ns))
    expected_ns = link.expected_ns[telling]
    took_ns = delivered(link.services_ns[telling].astype(np.float64), expected_ns)
    late = took_ns > (1 + UNEVEN) * expected_ns + GRAIN_NS
    if late.sum() - FREE_OF_ALL < LEAST_TOLD:
        return None
    begins_s, ends_s, late_s = _served_s(link, telling, took_ns)
    found = recurrence(begins_s, ends_s, late_s)
    if found is None or len(slow := found.slow(float(ends_s[-1]))) < LEAST_TURNS:
        return None
    would_s, always_s = found.late_s(begins_s, ends_s), (np.median(took_ns / expected_ns) - 1) * expected_ns / 1e9
    off_s, off_always_s = (np.abs(each_s - late_s) for each_s in (would_s, always_s))
    clear = np.maximum(late_s, would_s) >= CLEAR * late_s.max()
    left = LEFT_EXACT if as_designed.exact else LEFT
    suits = off_s[clear].sum() <= left * late_s[clear].sum() and off_s.sum() <= LESS * off_always_s.sum()
    shortest_s = min(found.share, 1 - found.share) * found.period_s
    if not suits or found.share > MOST_OF_TIME or shortest_s < float(np.median(expected_ns)) / 1e9:
        return None
    return Kind(part=Part.RATE, rate=found.rate, slow=tuple(slow))


def _served_s(
    link: ObservedLink, telling: npt.NDArray[np.bool_], took_ns: Doubles
) -> tuple[Doubles, Doubles, Doubles]:  # fmt: skip
    """When messages ``telling`` of ``link`` began to be served, and were, if they ``took_ns``, and how late."""
    ends_s = (link.left_ns[telling] + np.cumsum(took_ns - link.services_ns[telling])) / 1e9
    return ends_s - took_ns / 1e9, ends_s, (took_ns - link.expected_ns[telling]) / 1e9


def _not_held_up(link: ObservedLink, as_designed_ns: Doubles) -> npt.NDArray[np.bool_]:
    """Those messages of ``link`` that tell a rate, and that take ``as_designed_ns`` not for a window's sake."""
    return np.asarray(telling_of(link) & (as_designed_ns <= HELD_UP * link.expected_ns + GRAIN_NS))


def _late(link: ObservedLink, as_designed_ns: Doubles) -> tuple[npt.NDArray[np.bool_], list[Run]]:
    """The messages of ``link`` that take longer than ``as_designed_ns``, shape (messages,), and the runs of them.

    Also while it does not depart, as far as anybody sees: TCP's window remembers. One that came at once, since it had
    waited for the one before, is of its run.
    """
    grain_ns = UNEVEN * as_designed_ns + GRAIN_NS
    late = later_than(link, as_designed_ns)
    sooner = link.services_ns < link.expected_ns - grain_ns
    runs = []
    for begin, end in rows_of(late | sooner):
        within = begin + np.flatnonzero(late[begin:end])
        if len(within):
            runs.append((int(within[0]), int(within[-1])))
    return late, runs


def _slow(link: ObservedLink, runs: Sequence[Run], rate: float) -> list[Interval]:
    """When ``link`` was slow, for each of ``runs``, if its rate was ``rate`` times lower then."""
    took_s, expected_s = link.services_ns / 1e9, link.expected_ns / 1e9
    ends_s = link.left_ns / 1e9
    begins_s = ends_s - took_s
    fast_s = np.clip((rate * expected_s - took_s) / (rate - 1), 0.0, took_s)  # of each message, as designed
    found = []
    for first, last in runs:
        share = 0.5 if first == last else 1.0  # of one alone: it began, and ended, within it
        found.append((float(begins_s[first] + share * fast_s[first]), float(ends_s[last] - share * fast_s[last])))
    return found


def _in_force(slow: Sequence[Interval], rate: float) -> Piecewise:
    """Over seconds of training the part of its rate that there is: ``rate`` times less while the link is ``slow``."""
    starts_s, parts = [0.0], [1.0]
    for begin_s, end_s in slow:
        begun_s = max(begin_s, starts_s[-1] + _SHORTEST_S)
        starts_s += [begun_s, max(end_s, begun_s + _SHORTEST_S)]
        parts += [1 / rate, 1.0]
    return Piecewise(starts_s=np.array(starts_s), values=np.array(parts))
