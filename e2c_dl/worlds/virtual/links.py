"""Models of the network, as values: the quality of each directed link, and what several of them share.

::

    rank 0 --LinkModel--> rank 1        rate_bps, delay_s, jitter_s, loss, down; conditions over time
    SharedRate(rate_bps, links)         one access that several links go through, each getting its fair share

These are what a scenario's links and faults come down to. A pair without a LinkModel is not shaped: no rate, no delay.

An *ideal* link (``tcp`` is None) is filled whenever there is something to send, and loses nothing: a message takes its
wire bits / rate; links that share a rate get max-min fair shares of it. Where a link has a ``tcp``, one connection is
modelled segment by segment (:mod:`e2c_dl.worlds.virtual.tcp`) as live hosts are set up: Linux' cubic or reno,
an MTU of 1500 with time stamps, buffers that are no limit. It begins slowly, loses segments on purpose, in queues that
are full and while the link is down, and waits at a bottleneck with others.

Not modelled: competition of ACKs for the way back, ACKs that are lost, receive buffers that are full, reordering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from e2c_dl.errors import InputError
from e2c_dl.scenario.model import Tcp
from e2c_dl.topology import Bottleneck, BurstLoss, Discipline, Distribution, Link, Topology, default_queue_bytes

RankPair = tuple[int, int]
"""(source rank, destination rank)."""

MESSAGE_HEADER_BYTES = 54
"""Bytes that the live world puts before every payload (its frames.HEADER_BYTES; a test compares them)."""

CONGESTION_CONTROLS = ("cubic", "reno")
LEAST_ROUND_TRIP_S = 1e-4  # what two hosts' kernels need even without delay
SEND_BUFFER_BYTES = 128 * 1024
AS_AN_EVENT = 25  # ideal links of a line that send: so many take as long to look at as an event takes without any

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
    """Spread of each segment's delay, which is at least 0; TCP hands them over in order."""
    distribution: Distribution = Distribution.UNIFORM
    loss: float = 0.0
    """Fraction of segments, 0 <= loss < 1; above 0 only with a ``tcp``."""
    burst: BurstLoss | None = None
    """Instead of ``loss``."""
    queue_bytes: int | None = None
    """What waits before the link at most, if it has a ``tcp``; None: :func:`e2c_dl.topology.default_queue_bytes`."""
    down: bool = False
    """Nothing is carried: what is on its way arrives; what is not yet, waits, or is lost and sent again by a tcp."""
    conditions: Conditions | None = None
    """What it is like over time, if that changes: then rate, delay, jitter, loss, queue and down are those, and the
    ones here say nothing, but for the delay, which is the round trip's. The models that it gives have no conditions."""
    tcp: Tcp | None = None
    """What sends over it; None: an ideal link."""
    send_buffer_bytes: int = SEND_BUFFER_BYTES
    """What the sender's kernel takes before it is on the wire: a send resolves once all but this much has left."""

    def __post_init__(self) -> None:
        wrong = None
        if self.rate_bps is not None and self.rate_bps <= 0:
            wrong = "a rate is not above 0"
        elif min(self.delay_s, self.jitter_s, self.send_buffer_bytes) < 0 or not 0 <= self.loss < 1:
            wrong = "delay, jitter and buffer are at least 0, loss is from 0 to below 1"
        elif self.tcp is None and self.mean_loss:
            wrong = "an ideal link loses nothing; give it a tcp"
        elif self.tcp is not None and self.tcp.congestion_control not in CONGESTION_CONTROLS:
            used = self.tcp.congestion_control
            wrong = f"congestion control {used!r} has no model; write one of {CONGESTION_CONTROLS}"
        if wrong:
            raise InputError(f"link model: {wrong}; correct {self}")

    @property
    def mean_loss(self) -> float:
        """The fraction of segments that is lost in the long run, on purpose, while it is up."""
        return self.loss if self.burst is None else self.burst.mean

    @property
    def queue_limit_bytes(self) -> int:
        return default_queue_bytes(self.rate_bps, self.delay_s) if self.queue_bytes is None else self.queue_bytes

    def over_time(self) -> Iterator[tuple[float, LinkModel]]:
        """(from when in s, what it is like from then on), the first from 0 on."""
        return iter([(0.0, self)]) if self.conditions is None else self.conditions()


@dataclass(frozen=True, kw_only=True)
class SharedRate:
    """One rate that ``links`` share, all ideal or all with a ``tcp``.

    Those with a ``tcp`` wait in a queue of ``queue_bytes`` and are served by ``discipline``.
    """

    rate_bps: float
    links: tuple[RankPair, ...]
    rates: Callable[[], Iterator[tuple[float, float]]] | None = None
    """(from when in s, bits per second), from 0 on, rising, maybe for ever: instead of ``rate_bps``."""
    queue_bytes: int = default_queue_bytes(1.0, 0.0)
    discipline: Discipline = Discipline.FIFO

    def __post_init__(self) -> None:
        if self.rate_bps <= 0:
            raise InputError(f"bottleneck: a rate of {self.rate_bps} bit/s; write one above 0")


def event_cost(bottlenecks: Iterable[SharedRate]) -> float:
    """How many times as long as without any an event takes to simulate, where ideal links share ``bottlenecks``."""
    return 1 + max((len(each.links) for each in bottlenecks), default=0) / AS_AN_EVENT


def link_model(link: Link, tcp: Tcp | None) -> LinkModel:
    """``link`` as a model; None: an ideal one, which has no loss."""
    return LinkModel(
        rate_bps=link.rate_bps, delay_s=link.delay_s, jitter_s=link.jitter_s, distribution=link.distribution,
        loss=link.loss if tcp else 0.0, burst=link.burst if tcp else None, queue_bytes=link.queue_bytes,
        down=link.down, tcp=tcp,
    )  # fmt: skip


def link_models(topology: Topology, tcp: Tcp | None) -> Mapping[RankPair, LinkModel]:
    """``topology``'s links between ranks, and those that share a rate, as models."""
    ranks = {host.name: host.rank for host in topology.ranks}
    models: dict[RankPair, LinkModel] = {}
    shared = [pair for each in topology.bottlenecks for pair in each.links]
    for src, dst in {**topology.links, **dict.fromkeys(shared)}:
        src_rank, dst_rank = ranks.get(src), ranks.get(dst)
        if src_rank is not None and dst_rank is not None:
            models[src_rank, dst_rank] = link_model(topology.link(src, dst), tcp)
    return models


def bottlenecks(topology: Topology) -> tuple[SharedRate, ...]:
    """What ``topology``'s links between ranks share, in its order; those without such a link are left out."""
    found = (shared_rate(each, topology) for each in topology.bottlenecks)
    return tuple(each for each in found if each.links)  # what only hosts that do not train go through limits nobody


def shared_rate(bottleneck: Bottleneck, topology: Topology) -> SharedRate:
    """``bottleneck`` of ``topology`` as a model, of its links between ranks."""
    ranks = {host.name: host.rank for host in topology.ranks}
    pairs = [(ranks.get(src), ranks.get(dst)) for src, dst in bottleneck.links]
    between = tuple((src, dst) for src, dst in pairs if src is not None and dst is not None)
    longest_s = max(topology.link(*pair).delay_s for pair in bottleneck.links)
    designed_bytes = default_queue_bytes(bottleneck.rate_bps, longest_s)
    waiting = designed_bytes if bottleneck.queue_bytes is None else bottleneck.queue_bytes
    return SharedRate(
        rate_bps=bottleneck.rate_bps, links=between, queue_bytes=waiting, discipline=bottleneck.discipline
    )
