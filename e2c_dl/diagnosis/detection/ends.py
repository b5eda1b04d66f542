"""Whom a slow link waits for, as its sender's kernel counted: its receiver, its sender, or nobody but itself.

::

    message   |------------------------------|     from its first byte's arrival to its last one's
    busy      |##########|    |####|  |######|     the kernel had bytes that were not acknowledged
    rwnd            |#####|    |###|               of that, the receiver's window was full

*Receiver*: half of the busy time and more its window was full, so that its program reads too slowly. *Sender*: less
than half of the time that messages took was the kernel busy, so that its program writes too slowly; or for half of the
busy time and more the send buffer was full of what was on its way, too small for the path. A link slow by itself
keeps its kernel busy. Times in which a kernel is busy are told in jiffies: what is shorter than JIFFIES tells nothing.

Source: Linux, tcp_info: tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited (Lawrence Brakmo's and Francis Yan's
sender chronographs, 2016).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.model import Part
from e2c_dl.trace.propagation.connections import LinkTraffic
from e2c_dl.trace.propagation.tcp_info import JIFFY_NS

MOST = 0.5  # of the time
JIFFIES = 10


def waited_for(traffic: LinkTraffic | None, iterations: npt.NDArray[np.int64], took_ns: float = 0.0) -> Part | None:
    """RECEIVER or SENDER, if the link waited for one of them in ``iterations``; None: for neither, or nobody tells.

    ``took_ns``: how long its messages took in them, all together; 0: not known.
    """
    if traffic is None:
        return None
    rows = traffic.per_iteration[np.isin(traffic.per_iteration["iteration"], iterations)]
    busy_ns, rwnd_ns, sndbuf_ns = (
        float(rows[name].sum()) for name in ("busy_ns", "rwnd_limited_ns", "sndbuf_limited_ns")  # NaN: not told
    )  # fmt: skip
    least_ns = JIFFIES * JIFFY_NS
    if busy_ns >= least_ns and rwnd_ns >= MOST * busy_ns:
        return Part.RECEIVER
    if (busy_ns >= least_ns and sndbuf_ns >= MOST * busy_ns) or (took_ns >= least_ns and busy_ns < MOST * took_ns):
        return Part.SENDER
    return None
