"""Links that lose segments by design, beside themselves by other luck: simulated as designed, LUCKS times, or more.

::

    observed      |==|=====|==|====|          of each window the logarithm of what it took,
    by luck 1     |===|==|==|==|              beside its mean by all lucks; how far luck alone takes
    by luck 2     |==|==|======|==|           a window, or a whole run, is the noise of the link
    by bad luck   |===|=====|==|=====|        as many losses as never happen by chance: what departs is later still

What TCP makes of losses is not known beforehand, but by how much that differs is: a link departs that is further off
than luck takes it. What is sent again late is rare and costs much, and so does what is lost while TCP learns how much
it may send, for it remembers that. A few lucks need not have met it: so it must be later than by any of them and by bad
luck, too, there are more lucks of links that carried little, and of few messages little is told, as
:attr:`Judged.resolution` says. What recurs is not looked for. Of many links those are judged that carried longest, as
many as MOST_SEGMENTS let be simulated LEAST_LUCKS times; of those that share a line none is: what one takes hangs on
the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.levels import levelled_at
from e2c_dl.diagnosis.detection.links.judged import BLIND, JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS
from e2c_dl.diagnosis.detection.links.series import LinkSeries, delivered, link_series, sums
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned, at_least_ns
from e2c_dl.diagnosis.detection.noise import LEAST_NOISE
from e2c_dl.diagnosis.detection.series import FLOOR_MODELLED, Judged
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.worlds.virtual.kernel import FOREVER

LUCKS, LEAST_LUCKS = 12, 4
MOST_LUCKS, CHEAP = 60, 30_000  # of a link that carries little; segments, of one by all of them: half a second
OF_FEW, A_CALL = 1 / 4, 50  # of MOST_SEGMENTS, for such links together; segments that a luck costs at least
BAD_LUCKS, DEVIATIONS = 3, 4.0  # with so many losses more, of how many happen, as good as never happen by chance
MOST_LOST = 0.9  # of the segments
FLOOR_REAL = float(np.log(1.3))  # TCP's model may be off from real links by half of that, and reads are late
MOST_SEGMENTS = 1_200_000  # of all links by all lucks: some twenty seconds
LEAST_WINDOWS = 3  # of a stretch: fewer are late by one segment that was sent again when TCP's time was out
MOSTLY = 0.25  # of the windows of a stretch: no more are nearer to the design than to its level
BLOCK = 8  # windows: luck that holds longer takes all of them the same way

Lucks = Sequence[ObservedLink]
"""One link as it would have been, by one luck each."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LosingLink(JudgedLink):
    """One link that loses segments by design; ``would_ns``, shape (messages,): what each takes as designed, mean."""

    would_ns: Doubles

    @property
    def is_held(self) -> bool:
        """Not, where luck alone may make it BLIND times slower."""
        return self.resolution <= BLIND

    @property
    def designed_ns(self) -> Doubles:
        return at_least_ns(self.link, self.would_ns)


def losing_links(carried: Sequence[ObservedLink], windows: Windows, as_designed: AsDesigned) -> list[LosingLink]:
    """Those of ``carried`` that lose segments by design and can be judged."""
    asked = [each for each in carried if each.designed.rate is not None and each.designed.loses]
    known = [each for each in asked if not each.by_receiver and as_designed.is_known_alone(each)]
    most = MOST_SEGMENTS // max(1, sum(each.segments for each in known)) - BAD_LUCKS
    lucks, found, left = min(LUCKS, max(LEAST_LUCKS, most)), [], MOST_SEGMENTS
    cheap = min(CHEAP, OF_FEW * MOST_SEGMENTS / max(1, len(known)))
    for link in sorted(known, key=lambda each: -int(each.services_ns.sum())):
        costs = (lucks + BAD_LUCKS) * link.segments
        if costs > left:
            continue
        left -= costs
        own = int(np.clip(cheap // max(link.segments, A_CALL), lucks, MOST_LUCKS))
        by_luck = [as_designed.by_luck(link, luck) for luck in range(1, own + 1)]
        by_bad_luck = [_by_bad_luck(link, own + luck, as_designed) for luck in range(1, BAD_LUCKS + 1)]
        if all(_all_came(each) for each in (*by_luck, *by_bad_luck)):
            found.append(losing_link(link, by_luck, by_bad_luck, windows, exact=as_designed.exact))
    return [each for each in found if each is not None]


def _by_bad_luck(link: ObservedLink, luck: int, as_designed: AsDesigned) -> ObservedLink:
    """``link`` as it would have been with as many losses, or bursts of them, as never happen by chance."""
    designed = link.designed
    bursts = designed.burst.good_to_bad if designed.burst is not None else 0.0
    happen = link.segments * (bursts or designed.mean_loss)
    times = min(1 + (DEVIATIONS * np.sqrt(happen) + DEVIATIONS) / happen, MOST_LOST / designed.mean_loss)
    return as_designed.by_luck(link, luck, losses=Piecewise.constant(times))


def _all_came(link: ObservedLink) -> bool:
    """Whether all its messages came: no connection was given up for good."""
    return bool((link.rows["recv_end_ns"] < FOREVER // 2).all())


def losing_link(
    link: ObservedLink, by_luck: Lucks, by_bad_luck: Lucks, windows: Windows, *, exact: bool
) -> LosingLink | None:
    """``link`` beside itself ``by_luck``; None, if it carried nothing but stalls. ``exact``: in a modelled world."""
    would_ns = np.mean([each.services_ns for each in by_luck], axis=0)
    made = link_series(link, windows, exact=exact, would_ns=would_ns)
    if made is None:
        return None
    chance = np.array([_values(made, each, would_ns) for each in by_luck])
    usual = chance.mean(axis=0)
    besides = len(chance) / (len(chance) - 1)  # each is part of its mean
    noise = _noise((chance - usual) * np.sqrt(besides))
    series = replace(made.series, values=_values(made, link, would_ns) - usual, known_noise=None)
    levels = levelled_at(series, noise * float(np.sqrt(1 + 1 / len(chance))))  # the mean of the lucks has its own
    bad = [*((chance - usual) * besides), *(_values(made, each, would_ns) - usual for each in by_bad_luck)]
    judged = levels.judged(0.0, _worst(bad, len(series)), FLOOR_MODELLED if exact else FLOOR_REAL)
    worst = np.array([_worst(bad, stop - start) for start, stop in levels.found])
    judged = _mostly(judged.only(judged.departs & (levels.levels > worst)))
    return LosingLink(of=replace(made, series=series), judged=judged, would_ns=would_ns)


def _values(made: LinkSeries, link: ObservedLink, would_ns: Doubles) -> Doubles:
    """Logarithms of what windows of ``made`` took of ``link``, beside ``would_ns``; shape (windows,)."""
    place, count = made.windows[made.judged], len(made.series)
    each_ns = (link.services_ns, at_least_ns(link, would_ns))
    took_ns, designed_ns = (sums(place, ns[made.judged], count) for ns in each_ns)
    grains_ns = GRAIN_NS * sums(place, np.ones(len(place)), count)
    return np.asarray(np.log((delivered(took_ns, designed_ns) + grains_ns) / (designed_ns + grains_ns)))


def _worst(off: Sequence[Doubles], length: int) -> float:
    """The latest mean of ``length`` windows that follow each other, in any of ``off``, each of shape (windows,)."""
    return max(float(np.convolve(each, np.full(length, 1 / length), "valid").max()) for each in off)


def _noise(off: Doubles) -> float:
    """Of a window, by how far the lucks are ``off``, shape (lucks, windows): each by itself, BLOCK of them, and all."""
    found = [LEAST_NOISE]
    windows = off.shape[1]
    for length in {1, min(BLOCK, windows), windows}:
        blocks = off[:, : windows // length * length].reshape(len(off), -1, length).mean(axis=2)
        found.append(float(np.sqrt(np.mean(blocks**2) * length)))
    return max(found)


def _mostly(judged: Judged) -> Judged:
    """``judged``, of which those stretches depart that are long, and late for the most part of them."""
    levelled, values = judged.levelled, judged.levelled.series.values
    late = [
        stop - start >= min(LEAST_WINDOWS, len(values)) and np.quantile(values[start:stop], MOSTLY) > level / 2
        for level, (start, stop) in zip(levelled.levels, levelled.found, strict=True)
    ]
    return judged.only(judged.departs & np.array(late))
