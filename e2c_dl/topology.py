"""Hosts in layers, the directed links between them with one quality each, and the bottlenecks that links share.

::

    edge-1 --Link(rate_bps, delay_s, loss)--> fog-1        delay_s is one way, loss a fraction of segments,
    edge-1 <--Link(...)---------------------- fog-1        rate_bps counts Ethernet frames, headers included

    edge-1 --.                                              every segment of these links also passes the bottleneck
    edge-2 ---+-- Bottleneck(rate_bps) --> cloud-1, cloud-2   (an access link that several flows share)

A pair without a link here is not shaped. Pure values; they do not know how a link is emulated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Annotated

import msgspec

from e2c_dl import formatting, units

Pair = tuple[str, str]
"""(source host, destination host): a directed link's name."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """One machine of the scenario. ``rank`` is its place in the training, None if it does not train."""

    name: str  # edge-1: unique, a valid host name
    layer: str  # edge
    service: str  # Trainer
    service_id: str  # 1_1_1: E2Clab's LayerID_ServiceID_MachineID, the key that services publish
    role: str  # edge.trainer.1.1: what network.yaml and workflow.yaml select by pattern
    rank: int | None


class Distribution(Enum):
    """Spread of the delays of a link with jitter, as netem has it: ``jitter_s`` scales each."""

    UNIFORM = "uniform"  # delay_s +- jitter_s
    NORMAL = "normal"  # standard deviation jitter_s
    PARETO = "pareto"  # shape 3 with netem's cut tail: deviation 0.71 jitter_s, mean delay_s - 0.03 jitter_s


class Discipline(Enum):
    """Which of the links that share a bottleneck is served next."""

    FIFO = "fifo"  # first come, first served: one queue for all
    FAIR = "fair"  # a queue for each, taking turns: RFC 8290


MOST_BPS = 1e15

QUEUE_FRAMES = 1000
"""Full frames that a queue takes at least, unless the link says otherwise (what pfifo and netem take by default)."""

IN_FLIGHT_BYTES = 64 * 1024 * 1024
"""What a link without a rate may hold in memory, unless it says otherwise: it has no queue, only a delay."""

Rate = Annotated[float, msgspec.Meta(gt=0, le=MOST_BPS)]
Delay = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True)
class BurstLoss:
    """Bursty loss: a chain of two states, asked anew for every segment.

    Source: Gilbert (1960), Elliott (1963); netem's ``gemodel p r 1-h 1-k``. All are probabilities, 0..1.
    """

    good_to_bad: Fraction  # p
    bad_to_good: Annotated[float, msgspec.Meta(gt=0, le=1)]  # r
    loss_in_bad: Fraction = 1.0  # 1 - h
    loss_in_good: Fraction = 0.0  # 1 - k

    def lossier(self, share: float) -> BurstLoss:
        """This chain, losing ``share`` (0..1) of what it leaves, too."""
        bad, good = (1 - (1 - loss) * (1 - share) for loss in (self.loss_in_bad, self.loss_in_good))
        return replace(self, loss_in_bad=bad, loss_in_good=good)

    @property
    def mean(self) -> float:
        """The fraction of segments that is lost in the long run."""
        bad = self.good_to_bad / (self.good_to_bad + self.bad_to_good)
        return bad * self.loss_in_bad + (1 - bad) * self.loss_in_good


@dataclass(frozen=True, kw_only=True)
class Link:
    """Quality of one directed link; None leaves that property alone.

    Segments of a link with jitter or reordering may overtake each other, as under netem.
    """

    rate_bps: Rate | None = None  # bits per second of Ethernet frames on the wire, headers included
    delay_s: Delay = 0.0  # one way
    loss: Fraction = 0.0  # of segments, each independently
    jitter_s: Delay = 0.0  # spread of the delay; what it means, ``distribution`` says; never below no delay at all
    distribution: Distribution = Distribution.UNIFORM
    burst: BurstLoss | None = None  # instead of ``loss``, which is 0 then
    reorder: Fraction = 0.0  # of segments that skip the delay, and so overtake; needs a delay
    queue_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] | None = (
        None  # what waits at most; None: :func:`default_queue_bytes`
    )
    down: bool = False  # cut: whatever enters it is lost

    @property
    def mean_loss(self) -> float:
        """The fraction of segments that is lost in the long run, on purpose."""
        return 1.0 if self.down else self.loss if self.burst is None else self.burst.mean

    def slowed(self, rate_factor: float) -> Link:
        """This link at ``rate_factor`` (0..1] times its rate; unlimited links stay unlimited."""
        return replace(self, rate_bps=None if self.rate_bps is None else self.rate_bps * rate_factor)

    def lossier(self, share: float) -> Link:
        """This link, losing ``share`` (0..1) of the segments that it leaves, too."""
        if self.burst is not None:
            return replace(self, burst=self.burst.lossier(share))
        return replace(self, loss=1 - (1 - self.loss) * (1 - share))

    def described(self) -> str:
        """This link in one line, spelled as a scenario spells it: ``10mbit, 10ms, jitter 2ms uniform, loss 1%``."""
        if self.down:
            return "cut"  # the rest of it comes back, and means nothing until then
        said = [formatting.UNLIMITED if self.rate_bps is None else units.format_rate(self.rate_bps)]
        if self.delay_s or self.jitter_s:
            said.append(units.format_delay(self.delay_s))
        if self.jitter_s:
            said.append(f"jitter {units.format_delay(self.jitter_s)} {self.distribution.value}")
        if self.burst is not None:
            said.append(f"bursts of loss {self.burst.mean * 100:.3g}% in the mean")
        elif self.loss:
            said.append(f"loss {units.format_loss(self.loss)}")
        if self.reorder:
            said.append(f"reorder {units.format_loss(self.reorder)}")
        if self.queue_bytes is not None:
            said.append(f"queue {units.format_size(self.queue_bytes)}")
        return ", ".join(said)


@dataclass(frozen=True, kw_only=True)
class Bottleneck:
    """One rate that several directed links share, each of them still held to its own quality."""

    name: str  # unique
    rate_bps: float  # as a Link's
    links: tuple[Pair, ...]  # sorted
    queue_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] | None = None  # as a Link's
    discipline: Discipline = Discipline.FIFO


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Hosts in rank order (hosts without rank last), the directed links that are shaped, and what some of them share.

    A link is in at most one bottleneck.
    """

    hosts: tuple[Host, ...]
    links: Mapping[Pair, Link] = field(default_factory=lambda: MappingProxyType({}))
    bottlenecks: tuple[Bottleneck, ...] = ()

    def host(self, name: str) -> Host:
        """The host called ``name``. Raises: KeyError."""
        for host in self.hosts:  # a few hundred at most, and asked rarely
            if host.name == name:
                return host
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(host.name for host in self.hosts)

    @property
    def ranks(self) -> tuple[Host, ...]:
        """The hosts that train, in rank order."""
        return tuple(sorted((h for h in self.hosts if h.rank is not None), key=lambda h: h.rank or 0))

    def link(self, src: str, dst: str) -> Link:
        """The quality of ``src`` -> ``dst``; an unshaped Link if the scenario says nothing of it."""
        return self.links.get((src, dst), Link())


def default_queue_bytes(rate_bps: float | None, delay_s: float) -> int:
    """The default limit of a queue: twice rate times round trip (``delay_s`` both ways), or QUEUE_FRAMES if more.

    >>> default_queue_bytes(1e9, 0.1)  # twice 1 Gbit/s times the round trip of 0.2 s
    50000000
    """
    if rate_bps is None:
        return IN_FLIGHT_BYTES
    return max(QUEUE_FRAMES * units.FULL_FRAME_BYTES, math.ceil(2 * rate_bps * 2 * delay_s / 8))
