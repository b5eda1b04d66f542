"""Whom a slow link waits for, as its sender's kernel counted: its receiver, its sender, or nobody but itself.

::

    message   |------------------------------|     from its first byte's arrival to its last one's
    busy      |##########|    |####|  |######|     the kernel had bytes that were not acknowledged
    rwnd            |#####|    |###|               of that, the receiver's window was full

*Receiver*: half of the busy time and more its window was full, or less than half of the time that messages took was the
kernel busy, though they were written long since: they lay in the receiver's buffer, and its program reads too slowly.
*Sender*: the kernel was as idle, and messages were being written meanwhile, so that its program writes too slowly; or
for half of the busy time and more the send buffer was full of what was on its way, too small for the path. A link slow
by itself keeps its kernel busy. Busy times are told in jiffies: what is shorter than JIFFIES tells nothing.

Source: Linux, tcp_info: tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited (Lawrence Brakmo's and Francis Yan's
sender chronographs, 2016).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Part
from e2c_dl.trace.propagation.tcp_info import JIFFY_NS

MOST = 0.5  # of the time
JIFFIES = 10


def end_of(link: ObservedLink, departs: npt.NDArray[np.bool_]) -> Part | None:
    """RECEIVER or SENDER, if ``link`` waited for one of them with its messages ``departs``; None as :func:`waited_for`.

    Sockets are asked of the iterations of their rank in which messages were under way, whichever these are of: what is
    sent at the end of one may travel in the next. Of messages that were under way at other times nothing is known: a
    server goes on when its own iterations are over.
    """
    if link.traffic is None or not len(link.traffic.per_iteration):
        return None
    rows, table = link.rows[departs], link.traffic.per_iteration
    first = np.searchsorted(table["end_ns"], rows["send_start_ns"], side="right")
    behind = np.maximum(first, np.searchsorted(table["start_ns"], rows["recv_end_ns"], side="left"))
    known = (first < behind) & (rows["recv_end_ns"] <= table["end_ns"][-1])
    known &= rows["send_start_ns"] >= table["start_ns"][np.minimum(first, len(table) - 1)]
    steps = np.bincount(first[known], minlength=len(table) + 1) - np.bincount(behind[known], minlength=len(table) + 1)
    chosen = np.cumsum(steps)[:-1] > 0
    took_ns = link.services_ns[departs][known]
    wrote_ns = np.minimum(rows["send_end_ns"] - rows["send_start_ns"], link.services_ns[departs])[known]
    return waited_for(table[chosen], float(took_ns.sum()), float(wrote_ns.sum()))


def waited_for(rows: npt.NDArray[Any], took_ns: float = 0.0, wrote_ns: float = 0.0) -> Part | None:
    """RECEIVER or SENDER, if the link waited for one of them in ``rows`` of LINK_ITERATION; None: neither is told.

    ``took_ns``: how long its messages took in them, all together, of which they were being written for ``wrote_ns``;
    0: not known.
    """
    busy_ns, rwnd_ns, sndbuf_ns = (
        float(rows[name].sum()) for name in ("busy_ns", "rwnd_limited_ns", "sndbuf_limited_ns")  # NaN: not told
    )  # fmt: skip
    least_ns = JIFFIES * JIFFY_NS
    if busy_ns >= least_ns and rwnd_ns >= MOST * busy_ns:
        return Part.RECEIVER
    if busy_ns >= least_ns and sndbuf_ns >= MOST * busy_ns:
        return Part.SENDER
    if took_ns >= least_ns and busy_ns < MOST * took_ns:
        return Part.SENDER if wrote_ns >= MOST * took_ns else Part.RECEIVER
    return None
