"""Series of links: how long each was occupied in every window, beside how long its design would have taken.

All messages of a window are one train: a late read of one and the early start of the next cancel in the sum, and many
messages that are too small to tell a rate each by itself tell it together. GRAIN is added to each on both sides, for
what reading it costs is no rate. Windows of nothing but small messages, such as a barrier's, tell of a delay alone,
and only in a modelled world, where nobody reads late: by how much longer a usual window would have been with it.
Messages that stalled for seconds, or that a stop of either end held up, are left out: :mod:`..stalls` judges them.

A link that carried next to nothing after warm-up (its strategy measured it, and left it alone) is judged by what it
carried before, and must be plainly slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS, TELLING, telling_of
from e2c_dl.diagnosis.detection.series import Series
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.trace.warm_up import WARM_UP_ITERATIONS

SLOW_START = 4.0  # round trips at full rate: doubling from ten segments sends two, and a first overshoot as many
IMPOSSIBLE, MOST_DELIVERED = 0.5, 4  # of what its design takes; windows before it that were held up by the same


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkSeries:
    """One link's series, and of which of its windows each message is."""

    link: ObservedLink
    series: Series
    windows: npt.NDArray[np.int64]  # (messages,) place in the series of its window, or of one beside it
    judged: npt.NDArray[np.bool_]  # (messages,) after warm-up, and did not stall
    expected_ns: float  # of a message, mean, GRAIN included
    served_s: Doubles  # (windows,) when the link took the first message of each, which may have waited for others
    training: Windows  # of the run
    warming: bool = False  # judged by messages of the warm-up

    @property
    def arrived_s(self) -> Doubles:
        """When each message was there, in seconds of training."""
        return np.asarray((self.link.rows["recv_end_ns"] - self.link.began_ns) / 1e9)

    def messages(self, departs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """The judged messages of the windows that ``departs``, shape (windows,), says."""
        return self.judged & departs[self.windows]


def link_series(
    link: ObservedLink, windows: Windows, *, small: bool = False, exact: bool = False, would_ns: Doubles | None = None
) -> LinkSeries | None:
    """The series of ``link``, which has a rate to be held to; ``small``: with windows of nothing but small messages.

    ``exact``: in a modelled world, where nothing is faster than its model. ``would_ns``, shape (messages,): what each
    takes as designed, windows included; with it, all are judged, from the first on, and are as even as jitter lets
    them. None if all that it carried stalled.
    """
    index, chosen = windows.of_messages(link.rows, link.began_ns), link.moving
    warming = would_ns is None and carried_in_warm_up(link, windows)
    if would_ns is None and not warming:
        chosen &= (index >= windows.first) & ~_fresh(link, index)
    counts = sums(index[chosen], np.ones(int(chosen.sum())), len(windows))
    if not counts.any():
        return None
    each_ns = link.expected_ns if would_ns is None else np.fmax(would_ns, link.expected_ns)
    services_ns, designed_ns = (sums(index[chosen], ns[chosen], len(windows)) for ns in (link.services_ns, each_ns))
    if warming:  # TCP learns by them how much it may send, whoever slows the link
        designed_ns[np.flatnonzero(counts)[0]] += SLOW_START * link.round_trip_ns
    if exact:
        services_ns = delivered(services_ns, designed_ns)
    observed_ns, expected_ns = services_ns + counts * GRAIN_NS, designed_ns + counts * GRAIN_NS
    telling = (counts > 0) & (expected_ns >= TELLING * expected_ns.max())  # of the busiest window
    there = (counts > 0) if small else telling
    usual_ns = np.where(telling, 0.0, np.median(expected_ns[telling]))
    values = np.log((observed_ns + usual_ns) / (expected_ns + usual_ns))
    place = np.maximum(0, np.cumsum(there) - 1)
    sent_s, served_s = (link.rows["send_start_ns"] - link.began_ns) / 1e9, (link.left_ns - link.services_ns) / 1e9
    served_s = _first_s(served_s, index, windows)
    series = Series(
        values=values[there], iterations=windows.iterations(link.src)[there],
        begins_s=_first_s(sent_s, index, windows)[there], until_s=windows.until_s,
        spent_s=np.maximum(1.0, services_ns[there]) / 1e9,
        plain=np.maximum(1.0, services_ns[there]) / np.maximum(1.0, designed_ns[there]),
        known_noise=None if would_ns is None else link.designed.jitter_s * 1e9 / float(np.median(expected_ns[telling])),
        telling=telling[there],
    )  # fmt: skip
    return LinkSeries(
        link=link, series=series, windows=place[index], judged=chosen,
        expected_ns=float(expected_ns.sum() / counts.sum()),
        served_s=served_s[there], training=windows, warming=warming,
    )  # fmt: skip


def delivered(services_ns: Doubles, designed_ns: Doubles) -> Doubles:
    """Services by window, of which those that took less than any link can are of one delivery with what came before.

    TCP delivers in order: behind a segment that is late, or lost, come messages that had arrived long ago, all at once.
    What they took, together, is theirs by their design.
    """
    found: Doubles = services_ns.copy()
    for place in np.flatnonzero((designed_ns > 0) & (services_ns < IMPOSSIBLE * designed_ns)).tolist():
        for first in range(place - 1, max(-1, place - 1 - MOST_DELIVERED), -1):
            pooled = float(found[first : place + 1].sum() / designed_ns[first : place + 1].sum())
            if pooled >= IMPOSSIBLE:
                found[first : place + 1] = pooled * designed_ns[first : place + 1]
                break
    return found


def carried_in_warm_up(link: ObservedLink, windows: Windows) -> bool:
    """Whether ``link`` carried nothing afterwards, or next to nothing."""
    later = windows.of_messages(link.rows, link.began_ns) >= windows.first
    return not telling_of(link)[later].any()


def _first_s(times_s: Doubles, index: npt.NDArray[np.int64], windows: Windows) -> Doubles:
    """When each window began for a link: with its first message there, for its sender may be ahead or behind.

    ``times_s``, shape (messages,): of each message; ``index``: its window.
    """
    begins_s = np.full(len(windows), np.inf)
    np.minimum.at(begins_s, index, times_s)
    return np.maximum.accumulate(np.where(np.isfinite(begins_s), begins_s, windows.begins_s))


def _fresh(link: ObservedLink, index: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which messages TCP was still learning with how much it may send: SLOW_START round trips' worth of the link.

    At most those of its first WARM_UP_ITERATIONS + 1 windows: small messages never teach it.
    """
    bits = wire_bits_of(link.rows["nbytes"])
    worth = 2 * link.designed_delay_ns * bits / np.maximum(1.0, link.expected_ns)
    own = np.unique(index)
    early = index <= own[min(WARM_UP_ITERATIONS, len(own) - 1)]
    return np.asarray(early & (np.cumsum(bits) - bits < SLOW_START * worth) & (len(own) > 2 * WARM_UP_ITERATIONS))


def sums(place: npt.NDArray[np.int64], of: npt.NDArray[Any], count: int) -> Doubles:
    """Of what lies in each of ``count`` places."""
    return np.bincount(place, weights=of, minlength=count).astype(np.float64)
