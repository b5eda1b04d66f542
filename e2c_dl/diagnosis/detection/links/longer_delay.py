"""A longer delay that comes and goes, as first bytes show it: whether it brings messages when they came.

::

    sent     |            |            |            |            messages
    first    |-delay-|    |---longer---|            |-delay-|    their first bytes
    longer         |<---- from middle to middle --->|            what the link is simulated with

Nothing is before the first byte of a message that finds the link idle, no queue and no window: it is late by just what
the delay is longer. One that is not as late met no longer delay; of one that is later nothing is known. What follows
first bytes may be later than that, or come at once behind them, as TCP's windows were narrower for the delay: so
unevenly that it looks like losses, or so evenly that it looks like a rate. A link that is nothing but a model does as
its delay has it: if that brings most messages when they came, it was that.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.links.first_bytes import CERTAIN, first_bytes_late_ns, least_late_ns
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS, UNEVEN
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.detection.series import rows_of
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.columns import Longs

CHANGED = (0.1, 0.5, 0.9)  # of the time between two messages that are unlike
IN_A_ROW = 2.0  # messages that it meets, in the mean: one by one they are late where their first segments are lost
LIKE_ONE = 0.9  # of the first bytes that are late: they are so by one delay
BY_A_DELAY = (
    0.08  # of what a late message takes, the median: so far from when they came at most is what a delay brought
)


def longer_delay_ns(each: JudgedLink, as_designed: AsDesigned) -> float | None:
    """By how much the delay of ``each`` was longer at times, if that brings its late messages when they came."""
    link = each.link
    would_ns = as_designed.would_ns(link)
    if would_ns is None or link.designed.left is not None or not as_designed.is_known_alone(link):
        return None
    idle, late_ns = first_bytes_late_ns(link)
    is_late = late_ns > least_late_ns(link)
    as_designed_ns = np.fmax(would_ns, link.expected_ns)
    late = each.of.messages(each.judged.windows) & (link.services_ns > as_designed_ns * (1 + UNEVEN) + GRAIN_NS)
    if is_late.sum() < CERTAIN or not late.any():
        return None
    longer_ns = float(np.median(late_ns[is_late]))
    grain_ns = GRAIN_NS + link.designed.jitter_s * 1e9 + UNEVEN * longer_ns
    if (np.abs(late_ns[is_late] - longer_ns) <= grain_ns).mean() < LIKE_ONE:
        return None
    first_ns = link.rows["recv_start_ns"] - link.rows["send_start_ns"] - link.designed_delay_ns
    told = first_ns <= longer_ns + grain_ns  # others may have stood behind what was before them
    met = first_ns[told] >= longer_ns - grain_ns
    if IN_A_ROW * len(rows_of(met)) > met.sum():
        return None
    off_ns = min(
        float(
            np.median(
                as_designed.off_ns(link, delay_s=_in_force(link, known, first_ns, longer_ns, grain_ns, share))[late]
            )
        )
        for known in (idle, told)
        for share in CHANGED
    )
    return longer_ns if off_ns <= BY_A_DELAY * np.median(link.services_ns[late]) else None


def _in_force(
    link: ObservedLink, told: npt.NDArray[np.bool_], first_ns: Longs, longer_ns: float, grain_ns: float, share: float
) -> Piecewise:
    """Over seconds of training how much longer the delay is: as first bytes of the messages ``told`` have it.

    ``share``: of the time between two of them, when it changed.
    """
    sent_s = (link.rows["send_start_ns"][told] - link.began_ns) / 1e9
    delays_s = np.where(first_ns[told] >= longer_ns - grain_ns, longer_ns / 1e9, 0.0)
    return Piecewise(starts_s=np.append(0.0, sent_s[:-1] + share * np.diff(sent_s)), values=delays_s)
