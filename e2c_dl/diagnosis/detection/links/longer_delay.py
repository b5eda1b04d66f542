"""A longer delay that comes and goes, or is always there, as first bytes show it: whether it brings messages when they
came.

::

    sent     |            |            |            |            messages
    first    |-delay-|    |---longer---|            |-delay-|    their first bytes
    longer         |<---- from middle to middle --->|            what the link is simulated with

Nothing is before the first byte of a message that finds the link idle, no queue and no window: it is late by just what
the delay is longer. So is one that is sent while what was before it is on its way, and whole before it comes: of a
delay longer than messages are apart none finds the link idle. One that is not as late met no longer delay; of one that
is later nothing is known. What follows first bytes may be later than that, or come at once behind them, as TCP's
windows were narrower for the delay: so unevenly that it looks like losses, or so evenly that it looks like a rate. A
link that is nothing but a model does as its delay has it: if that brings most messages when they came, it was that;
small ones that follow each other closely to within a part of that delay, as they take next to nothing by themselves.
Of one that is always there, no first byte is late by less; one alone, of the first message, may tell it, where all that
follow wait for a window that is narrow for the delay.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.links.first_bytes import (
    CERTAIN,
    first_bytes_late_ns,
    found_idle,
    least_late_ns,
    waits_ns,
)
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS, UNEVEN
from e2c_dl.diagnosis.detection.links.sending_again import takes_sending_again
from e2c_dl.diagnosis.detection.links.tcp_simulated import BROUGHT, AsDesigned, later_than
from e2c_dl.diagnosis.detection.series import rows_of
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.piecewise import Piecewise

CHANGED = (0.1, 0.5, 0.9)  # of the time between two messages that are unlike
IN_A_ROW = 2.0  # messages that it meets, in the mean: one by one they are late, too, where first segments are lost
LIKELY = (0.25, 0.5)  # quantiles of how late first bytes are: one is the delay, as others stood behind what was late
BY_ONE_DELAY = 0.4  # of the first bytes that are late


def longer_delay_ns(each: JudgedLink, as_designed: AsDesigned) -> float | None:
    """By how much the delay of ``each`` was longer, if that brings its late messages when they came."""
    link = each.link
    would_ns = as_designed.would_ns(link)
    if would_ns is None or link.designed.left is not None or not as_designed.is_known_alone(link):
        return None
    first_ns, awaited = first_bytes_late_ns(link), waits_ns(link) > least_late_ns(link)
    tells, later_ns = found_idle(link) | awaited, first_ns[awaited]
    late = each.of.messages(each.judged.windows) & later_than(link, would_ns)
    always_ns = float(first_ns.min())
    if each.judged.departs.all() and always_ns > least_late_ns(link) and late.any():
        always_s = Piecewise.constant(always_ns / 1e9)
        if _brings(link, late, as_designed.off_ns(link, delay_s=always_s), always_ns):
            return always_ns
    if len(later_ns) < CERTAIN or not late.any():
        return None
    for longer_ns in np.unique(np.quantile(later_ns, LIKELY, method="lower")).tolist():
        grain_ns = GRAIN_NS + link.designed.jitter_s * 1e9 + UNEVEN * longer_ns
        if (np.abs(later_ns - longer_ns) <= grain_ns).mean() < BY_ONE_DELAY:
            continue
        told, met = first_ns <= longer_ns + grain_ns, first_ns >= longer_ns - grain_ns  # others stood behind others
        one_by_one = IN_A_ROW * len(rows_of(met[told])) > met[told].sum()
        if one_by_one and takes_sending_again(longer_ns, link.round_trip_ns):
            continue
        tried = [_in_force(link, known, met, longer_ns, share) for known in (tells, told) for share in CHANGED]
        if any(_brings(link, late, as_designed.off_ns(link, delay_s=delay_s), longer_ns) for delay_s in tried):
            return float(longer_ns)
    return None


def _brings(link: ObservedLink, late: npt.NDArray[np.bool_], off_ns: Doubles, longer_ns: float) -> bool:
    """Whether a delay that is ``longer_ns`` longer brings most ``late`` messages when they came, to ``off_ns``."""
    enough_ns = max(BROUGHT * float(np.median(link.services_ns[late])), UNEVEN * longer_ns)
    return float(np.median(off_ns[late])) <= enough_ns


def _in_force(
    link: ObservedLink, known: npt.NDArray[np.bool_], met: npt.NDArray[np.bool_], longer_ns: float, share: float
) -> Piecewise:
    """Over seconds of training how much longer the delay is: that of those messages ``known`` that ``met`` it.

    ``share``: of the time between two of them, when it changed.
    """
    sent_s = (link.rows["send_start_ns"][known] - link.began_ns) / 1e9
    delays_s = np.where(met[known], longer_ns / 1e9, 0.0)
    return Piecewise(starts_s=np.append(0.0, sent_s[:-1] + share * np.diff(sent_s)), values=delays_s)
