"""What TCP counted on every directed link of a run: the sockets' side of a trace.

::

    rank 2's socket to rank 1   --bytes_sent, retransmissions, busy-->   LinkTraffic(src=2, dst=1)
    rank 1's socket to rank 2   ------------------------------------->   LinkTraffic(src=1, dst=2)

A socket carries both directions; each end reports what it sends. Several sockets of a pair are one link: their bytes
are summed, their busy times united. Times are nanoseconds of the reference clock. What a kernel does not tell is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

LINK_ITERATION: np.dtype[Any] = np.dtype(
    [
        ("iteration", "<i4"),  # -1: before the first, between two or after the last
        ("start_ns", "<i8"),  # of the iteration at the sending rank
        ("end_ns", "<i8"),
        ("samples", "<i4"),  # how often the sockets were looked at, and had changed
        ("acked_bytes", "<f8"),  # payload that the receiver acknowledged
        ("sent_bytes", "<f8"),  # payload that left, retransmissions included
        ("segments", "<f8"),  # that left: data, acknowledgements of the other direction, retransmissions
        ("wire_bytes", "<f8"),  # of Ethernet frames that left: sent_bytes + segments x headers
        ("retransmitted_bytes", "<f8"),
        ("retransmissions", "<f8"),  # segments
        ("busy_ns", "<f8"),  # data was on its way, or waited to be sent: length of the FLOW spans
        ("rwnd_limited_ns", "<f8"),  # of it: the receiver's window was full: its program reads too slowly
        ("sndbuf_limited_ns", "<f8"),  # of it: the send buffer was too small for the path
        ("delivery_rate_bps", "<f8"),  # median over samples with unacknowledged data; else the last one told
        ("app_limited", "<f8"),  # share of the samples behind it that the sending program limited, 0 to 1
        ("srtt_s", "<f8"),  # median over samples
        ("min_rtt_s", "<f8"),  # least that the kernel told
        ("window_bytes", "<f8"),  # largest congestion window of any sample: so much one socket may have on its way
    ]
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkTraffic:
    """What rank ``src``'s sockets to rank ``dst`` sent. ``per_iteration``: rows of LINK_ITERATION, in order of time.

    ``total``: one more such row, from the first sample of the run to the last, set-up and what follows included.
    """

    src: int
    dst: int
    connections: int
    per_iteration: npt.NDArray[Any]
    total: npt.NDArray[Any]  # of shape (1,)
    is_data: bool
    """Whether it carries at least 2 % of what the link with the most bytes does: not a rendezvous, nor replies."""
    since_birth: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """acked_bytes, sent_bytes, segments, wire_bytes, retransmissions since its sockets were opened, as last seen."""
    within_machine: bool = False
    """Whether both ends have one address: what they send each other crosses no network."""

    @property
    def bytes_per_busy_s(self) -> npt.NDArray[np.float64]:
        """Per iteration: acknowledged bytes per second of busy time; NaN where there was none."""
        busy_s = np.asarray(self.per_iteration["busy_ns"] / 1e9, dtype=np.float64)
        none = np.full(len(busy_s), np.nan)
        rate = np.divide(self.per_iteration["acked_bytes"], busy_s, out=none, where=busy_s > 0)
        return np.asarray(rate, dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Connections:
    """All directed links on which a rank's sockets were seen, in order of (src, dst).

    >>> worst = min(trace.connections.data, key=lambda link: np.nanmedian(link.bytes_per_busy_s))
    >>> worst.src, worst.dst
    (2, 1)
    """

    links: tuple[LinkTraffic, ...]
    limitations: tuple[str, ...] = ()
    wire_bytes: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    """Rank -> of Ethernet frames that left by all its connections to other addresses, whoever is at the other end,
    since each was opened."""

    @property
    def data(self) -> tuple[LinkTraffic, ...]:
        """The links that carry gradients: FLOW spans are of these alone."""
        return tuple(link for link in self.links if link.is_data)

    def between(self, src: int, dst: int) -> LinkTraffic | None:
        """The link from rank ``src`` to rank ``dst``, if a socket of it was seen."""
        return next((link for link in self.links if (link.src, link.dst) == (src, dst)), None)


NONE = Connections(links=())
