"""Lines by what all of their links carry together, while at least two of them are busy: slow, whoever got how much.

::

    link a    |=====|   |======|         carried        the bits of each message, evenly while it occupies its link
    link b       |====|    |=====|       would carry    what the line leaves its links then, as designed
    judged       |==|      |===|         ratio          of both, in each window

TCP shares a line unevenly, so that of many links each is now faster and now slower than its share, and no one shows
what all of them together do. Where one link is slow by itself, the others take what it leaves, and together they are
as fast as designed; unless each of them is as fast as it can be alone, at which nothing of the line is told. What TCP
makes of the line as designed, simulated, is no departure either (:mod:`..tcp_simulated`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.links.judged import LEAST_LATE_NS, JudgedLink, lines
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS, TELLING
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.detection.links.tcp_windows import opens_window, waits_for_window
from e2c_dl.diagnosis.detection.series import FLOOR, Judged, Series
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Element
from e2c_dl.ethernet import wire_bits_of

LEAST_BUSY = 2  # links at once: of one alone its own departure tells


@dataclass(frozen=True, kw_only=True, eq=False)
class _Together:
    """What the links of a line carry, all of shape (moments - 1,) or (moments - 1, links)."""

    edges_s: Doubles  # (moments,)
    several: npt.NDArray[np.bool_]  # are busy, and nothing but the line and TCP holds any of them up
    carried: Doubles  # bits, of each
    alone: Doubles  # that it could have carried meanwhile, if it had the line for itself
    left: Doubles  # that it could have, as designed

    def windows(self, of: Doubles, begins_s: Doubles) -> Doubles:
        """The sum of ``of``, (moments - 1,), while several are busy, in the windows that begin then."""
        place = np.maximum(0, np.searchsorted(begins_s, self.edges_s[:-1], side="right") - 1)
        return np.bincount(place, of * self.several, minlength=len(begins_s)).astype(np.float64)


def slow_by_all(
    carried: Sequence[ObservedLink], judged: Sequence[JudgedLink], design: Design, as_designed: AsDesigned,
    common: float,
) -> dict[Element, tuple[list[JudgedLink], Judged]]:  # fmt: skip
    """Lines that depart by what all of their links carry -> those that are ``judged``, and the line itself.

    ``common``: times slower by the machine. Nothing is told of those of which a link loses segments by design.
    """
    by_pair = {each.link.pair: each for each in judged if each.is_held and each.link.judgeable}
    found = {}
    for line, pairs in lines(carried, design).items():
        own = [by_pair[pair] for pair in pairs if pair in by_pair]
        links = [each for each in carried if each.pair in pairs]
        if len(own) >= LEAST_BUSY and all(each.judgeable and not each.by_receiver for each in links):
            departs = _departs(links, own, common)
            if departs is not None and not _is_tcp(own, as_designed):
                found[line] = own, departs
    return found


def _departs(links: Sequence[ObservedLink], own: Sequence[JudgedLink], common: float) -> Judged | None:
    windows = own[0].of.training
    together = _together(links, windows)
    series = _series(together, windows, own[0].link.src)
    if series is None or _at_their_own(together):
        return None
    late_ns = max(LEAST_LATE_NS + each.uncertainty_ns + each.designed.jitter_s * 1e9 for each in links)
    usual_ns = float(np.mean([each.of.expected_ns for each in own]))
    judged = levelled([series])[0].judged(float(np.log(common)), float(np.log1p(late_ns / usual_ns)), FLOOR)
    return judged if judged.departs.any() and judged.excess_s > 0 else None


def _together(links: Sequence[ObservedLink], windows: Windows) -> _Together:
    edges_s = np.unique(np.concatenate([windows.begins_s, *(moments for each in links for moments in each.busy_s)]))
    middles_s, lasted_s = (edges_s[1:] + edges_s[:-1]) / 2, np.diff(edges_s)
    busy, held, carried, alone, left = [], np.zeros(len(middles_s), dtype=np.bool_), [], [], []
    for link in links:
        ends_s = link.left_ns / 1e9
        begins_s = ends_s - link.services_ns / 1e9
        bits = np.cumsum(wire_bits_of(link.rows["nbytes"]).astype(np.float64))
        place = np.maximum(0, np.searchsorted(begins_s, middles_s, side="right") - 1)
        own = (begins_s[place] <= middles_s) & (middles_s < ends_s[place])
        busy.append(own)
        held |= own & ~link.moving[place]
        times_s = np.ravel(np.column_stack([begins_s, ends_s]))
        sums = np.ravel(np.column_stack([bits - np.diff(bits, prepend=0.0), bits]))
        carried.append(np.diff(np.interp(edges_s, times_s, sums)))
        designed = link.designed
        can_bps = np.full(len(middles_s), np.inf) if designed.own is None else designed.own.at(middles_s)
        left_bps = can_bps if designed.left is None else np.minimum(can_bps, designed.left.at(middles_s))
        alone.append(np.where(own, can_bps * lasted_s, 0.0))
        left.append(np.where(own, left_bps * lasted_s, 0.0))
    several = (np.sum(busy, axis=0) >= LEAST_BUSY) & ~held & (middles_s >= windows.begins_s[windows.first])
    return _Together(
        edges_s=edges_s, several=several, carried=np.array(carried), alone=np.array(alone), left=np.array(left)
    )


def _series(together: _Together, windows: Windows, host: str) -> Series | None:
    """The line's, over those windows in which enough was carried; None: in none."""
    would, did, lasted_s = (
        together.windows(of, windows.begins_s)
        for of in (together.left.sum(axis=0), together.carried.sum(axis=0), np.diff(together.edges_s))
    )
    chosen = (would >= TELLING * would.max()) & (did > 0)
    if not would.max() > 0 or not chosen.any():
        return None
    ratio = would[chosen] / did[chosen]
    return Series(
        values=np.log(ratio), iterations=windows.iterations(host)[chosen], begins_s=windows.begins_s[chosen],
        until_s=windows.until_s, spent_s=lasted_s[chosen], plain=ratio,
    )  # fmt: skip


def _at_their_own(together: _Together) -> bool:
    """Whether a link that carried much was about as fast as it can be alone: no line holds it up."""
    did, could = ((of * together.several).sum(axis=1) for of in (together.carried, together.alone))
    return bool(((did >= TELLING * did.max()) & (did * np.exp(FLOOR) >= could)).any())


def _is_tcp(links: Sequence[JudgedLink], as_designed: AsDesigned) -> bool:
    """Whether what ``links`` take is hardly longer than what TCP makes of them as designed, or may be no more."""
    would = [(each, as_designed.would_ns(each.link)) for each in links]
    if any(would_ns is None for _, would_ns in would):
        judged = [(each.link, each.of.judged) for each in links]
        return any(waits_for_window(*each) or opens_window(*each) for each in judged)
    took_ns = sum(float((each.link.services_ns + GRAIN_NS)[each.of.judged].sum()) for each in links)
    most_ns = sum(
        float((would_ns + GRAIN_NS)[each.of.judged].sum()) for each, would_ns in would if would_ns is not None
    )
    return bool(took_ns < np.exp(FLOOR) * most_ns)
