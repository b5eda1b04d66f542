"""Models of the network, as values: the quality of each directed link, and what several of them share.

::

    rank 0 --LinkModel--> rank 1        rate_bps, delay_s, jitter_s, loss, down; conditions over time
    SharedRate(rate_bps, links)         one access that several links go through, each getting its fair share

These are what a scenario's links and faults come down to. A pair without a LinkModel is not shaped: no rate, no delay.

TCP is modelled as a connection in steady state, as live runs are set up: Linux' cubic (or reno), an MTU of 1500 with
time stamps, buffers of at least twice the bandwidth-delay product, no slow start after idle. Such a connection fills
its link while it has something to send, so a message takes its wire bits / rate. Departures from that:

* *Loss* p of segments bounds the window W, in segments, on average (round trip R, no queue):
  reno    W = sqrt(3 / (2 p))                    Source: Mathis et al., CCR 27(3), 1997, Eq. (3), one ack per segment
  cubic   W = 1.054 (R / p)^(3/4), at least reno's    Source: RFC 8312, 5.1, Eq. (6) (C = 0.4), and 4.2
  so the rate is at most W segments per R. Lost segments are sent again: wire bits / (1 - p). A message whose last
  window lost a segment arrives one R later, and so does what follows it: TCP delivers in order.

Not modelled: the slow start of a fresh connection, the retransmission timer (after a link was down, sending goes on at
once), competition of ACKs for the way back, queues that overflow, receive buffers that are full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from e2c_dl.errors import InputError
from e2c_dl.ethernet import FULL_FRAME_BITS
from e2c_dl.topology import Link, Topology

RankPair = tuple[int, int]
"""(source rank, destination rank)."""

MESSAGE_HEADER_BYTES = 54
"""Bytes that the live world puts before every payload (its frames.HEADER_BYTES; a test compares them)."""

CONGESTION_CONTROLS = ("cubic", "reno")
_CUBIC = 1.054  # [C (3 + b) / (4 (1 - b))]^(1/4), C = 0.4, b = 0.7
_MIN_ROUND_TRIP_S = 1e-4  # what two hosts' kernels need even without delay
SEND_BUFFER_BYTES = 128 * 1024

Conditions = Callable[[], "Iterator[tuple[float, LinkModel]]"]
"""Gives (from when in s, what the link is like from then on), from 0 on, rising, as often as asked, maybe for ever."""


@dataclass(frozen=True, kw_only=True)
class LinkModel:
    """One directed link. Raises: InputError for values out of range."""

    rate_bps: float | None = None
    """Bits per second of Ethernet frames, headers included; None: not limited."""
    delay_s: float = 0.0
    """One way."""
    jitter_s: float = 0.0
    """A message's delay is uniform in delay_s +- jitter_s, at least 0; messages stay in order."""
    loss: float = 0.0
    """Fraction of segments, 0 <= loss < 1."""
    down: bool = False
    """Nothing is carried: what is on its way arrives, what is not yet, waits."""
    conditions: Conditions | None = None
    """What it is like over time, if that changes: then rate, delay, jitter, loss and down are those, and the ones here
    say nothing, but for the delay, which is that of the round trip. The models that it gives have no conditions."""
    congestion_control: str = "cubic"
    send_buffer_bytes: int = SEND_BUFFER_BYTES
    """What the sender's kernel takes before it is on the wire: a send resolves once all but this much has left."""

    def __post_init__(self) -> None:
        wrong = None
        if self.rate_bps is not None and self.rate_bps <= 0:
            wrong = "a rate is not above 0"
        elif min(self.delay_s, self.jitter_s, self.send_buffer_bytes) < 0 or not 0 <= self.loss < 1:
            wrong = "delay, jitter and buffer are at least 0, loss is from 0 to below 1"
        elif self.congestion_control not in CONGESTION_CONTROLS:
            wrong = f"congestion control {self.congestion_control!r} has no model; write one of {CONGESTION_CONTROLS}"
        if wrong:
            raise InputError(f"link model: {wrong}; correct {self}")

    def over_time(self) -> Iterator[tuple[float, LinkModel]]:
        """(from when in s, what it is like from then on), the first from 0 on."""
        return iter([(0.0, self)]) if self.conditions is None else self.conditions()


@dataclass(frozen=True, kw_only=True)
class SharedRate:
    """One rate that ``links`` share: max-min fair shares, as TCP connections through one access get on average."""

    rate_bps: float
    links: tuple[RankPair, ...]
    rates: Callable[[], Iterator[tuple[float, float]]] | None = None
    """(from when in s, bits per second), from 0 on, rising, maybe for ever: instead of ``rate_bps``."""

    def __post_init__(self) -> None:
        if self.rate_bps <= 0:
            raise InputError(f"bottleneck: a rate of {self.rate_bps} bit/s; write one above 0")


def link_model(link: Link, congestion_control: str = "cubic") -> LinkModel:
    """``link`` as a model: bursty loss counts with its mean, spread of the delay as if it were uniform."""
    return LinkModel(
        rate_bps=link.rate_bps, delay_s=link.delay_s, jitter_s=link.jitter_s,
        loss=0.0 if link.down else link.mean_loss, down=link.down, congestion_control=congestion_control,
    )  # fmt: skip


def link_models(topology: Topology, congestion_control: str = "cubic") -> Mapping[RankPair, LinkModel]:
    """``topology``'s links between ranks, as models."""
    ranks = {host.name: host.rank for host in topology.ranks}
    models: dict[RankPair, LinkModel] = {}
    for (src, dst), link in topology.links.items():
        src_rank, dst_rank = ranks.get(src), ranks.get(dst)
        if src_rank is not None and dst_rank is not None:
            models[src_rank, dst_rank] = link_model(link, congestion_control)
    return models


def bottlenecks(topology: Topology) -> tuple[SharedRate, ...]:
    """What ``topology``'s links between ranks share, in its order; those without such a link are left out."""
    ranks = {host.name: host.rank for host in topology.ranks}
    found = []
    for each in topology.bottlenecks:
        pairs = [(ranks.get(src), ranks.get(dst)) for src, dst in each.links]
        between = tuple((src, dst) for src, dst in pairs if src is not None and dst is not None)
        if between:  # what only hosts that do not train go through limits nobody here
            found.append(SharedRate(rate_bps=each.rate_bps, links=between))
    return tuple(found)


def window_segments(congestion_control: str, loss: float, round_trip_s: float) -> float:
    """Average window that ``loss`` (above 0) leaves, in segments; at least 1."""
    reno = math.sqrt(1.5 / loss)
    cubic = _CUBIC * (round_trip_s / loss) ** 0.75 if congestion_control == "cubic" else 0.0
    return max(1.0, reno, cubic)  # cubic is never below reno: its TCP-friendly region


def lossy_rate_bps(congestion_control: str, loss: float, round_trip_s: float) -> float:
    """The highest rate, in bits of Ethernet frames per second, at which TCP sends with ``loss`` (above 0)."""
    round_trip_s = max(round_trip_s, _MIN_ROUND_TRIP_S)  # without delay the rate would be infinite
    return window_segments(congestion_control, loss, round_trip_s) * FULL_FRAME_BITS / round_trip_s
