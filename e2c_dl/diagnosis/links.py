"""Directed links beside what was designed of them: the measure of how long each occupied its link.

What a link did with a message is told by arrivals, not by when the sender's kernel took the bytes. A message *occupies*
its link from its first byte's arrival, or the previous message's end, to its own end; waiting for a slow neighbour,
which posts late, is not in it::

    send_start |~~~ designed delay ~~~|====== service ======| recv_end
    wire bits = of Ethernet frames, headers included (e2c_dl.ethernet)
    expected  = how long wire bits take at the rate designed, which may change over time, from when service began

Whether that departs, since when and of which kind, :mod:`e2c_dl.diagnosis.detection` tells.

Links that are asked to lose segments have no expected rate: :mod:`e2c_dl.diagnosis.detection.links.losing` judges them.
What a shared bottleneck leaves a link depends on the others that are busy at the time: see
:mod:`e2c_dl.diagnosis.shown.sharing`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.piecewise import Piecewise, least
from e2c_dl.ethernet import FULL_FRAME_BITS, segments_of, wire_bits_of
from e2c_dl.topology import BurstLoss, Pair
from e2c_dl.trace.messages import MessageArray
from e2c_dl.trace.propagation.connections import LinkTraffic

MIN_RATE_BYTES = 8192  # smaller messages measure latency
LEAST_SERVICE_NS = 1000  # what is shorter, reading a clock takes as long
MIN_STALL_NS = 2_000_000_000
FEW_LOST = 0.02  # of the segments: that TCP sends one again so often that it takes seconds, happens to nobody
MIN_RATIO = 10.0  # a long message on a slow link takes seconds by design
BY_NEITHER, BY_SOURCE, BY_DESTINATION = range(3)  # of a link's ends
MOST_STALLED = 0.1  # of an element's messages or segments: it is slow, where so many take so long
_NS_PER_S = 1e9


def in_service_order(rows: MessageArray) -> MessageArray:
    """One link's messages in the order in which they were sent: a copy."""
    return np.take(rows, np.argsort(rows["send_start_ns"], kind="stable"))  # stable: ties keep the trace's order


def services_ns(rows: MessageArray, delay_ns: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How long each of one link's messages, in service order, occupied it; at least 0, shape (messages,).

    ``delay_ns``: one for all, or one for each.
    """
    return np.asarray(np.maximum(0, after_delay_ns(rows, delay_ns)))


def after_delay_ns(rows: MessageArray, delay_ns: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The same, below 0 of a message that arrived sooner than ``delay_ns`` lets it."""
    previous_ns = np.concatenate([rows["send_start_ns"][:1], rows["recv_end_ns"][:-1]])
    begin_ns = np.maximum(rows["send_start_ns"] + delay_ns, previous_ns)
    return np.asarray(rows["recv_end_ns"] - begin_ns)


def few(stalled: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """``stalled``, or nowhere if they are too many: what takes long as a rule does not stand still."""
    return stalled & bool(stalled.sum() <= max(1, MOST_STALLED * len(stalled)))


@dataclass(frozen=True, kw_only=True)
class Designed:
    """What the scenario designs of one directed link over the seconds of training."""

    own: Piecewise | None = None  # bits per second, of the link itself; None: no limit
    left: Piecewise | None = None  # by the others on its shared bottleneck, if it passes one
    delay_s: Piecewise = field(default_factory=lambda: Piecewise.constant(0.0))
    jitter_s: float = 0.0
    loss: Piecewise = field(default_factory=lambda: Piecewise.constant(0.0))  # fraction of segments
    burst: BurstLoss | None = None  # instead of ``loss``

    @property
    def loses(self) -> bool:
        return self.mean_loss > 0

    @property
    def mean_loss(self) -> float:
        """Fraction of segments, the mean of all that it is from time to time."""
        return float(self.loss.values.mean()) if self.burst is None else self.burst.mean

    @property
    def may_stall(self) -> bool:
        """Whether a message that is late by seconds has met more than this: losses are few by design."""
        few_lost = self.burst is None and float(self.loss.values.max()) <= FEW_LOST
        return self.rate is not None and (few_lost or not self.loses)

    @cached_property
    def rate(self) -> Piecewise | None:
        """Bits per second, whoever limits it; None: nobody does."""
        limits = [limit for limit in (self.own, self.left) if limit is not None]
        return least(*limits) if limits else None


@dataclass(frozen=True, kw_only=True)
class ObservedLink:
    """What one directed link carried after warm-up, in service order, beside what was designed of it."""

    src: str  # host
    dst: str
    rows: MessageArray
    designed: Designed
    began_ns: int  # training: the second 0 of what was designed
    uncertainty_ns: int  # of both ends' clocks together
    first_iteration: int  # that counts for judgements
    may_stall: bool = True  # False: of a model whose hosts nobody watched, as none stops: late by seconds is slow
    by_receiver: bool = False  # its clock alone is believed: a message begins where its header arrives
    traffic: LinkTraffic | None = None  # what its sender's sockets counted; None: nobody looked
    stopped: npt.NDArray[np.int8] | int = BY_NEITHER  # whose stop held each message up
    added_delay_ns: int | npt.NDArray[np.int64] = 0  # found, beyond the designed delay: of all, or of each message

    @property
    def pair(self) -> Pair:
        return self.src, self.dst

    @property
    def segments(self) -> int:
        """That carry its messages, each of which has at least one."""
        return int(segments_of(self.rows["nbytes"]).sum())

    @property
    def frame_ns(self) -> float:
        """What a full frame takes at the rate that is designed for it."""
        return FULL_FRAME_BITS * float(np.median(self.expected_ns / wire_bits_of(self.rows["nbytes"])))

    @property
    def sent_again(self) -> float | None:
        """What share of its segments was sent again; None: its sender's sockets do not tell."""
        if self.traffic is None or not self.traffic.total["segments"][0] > 0:
            return None
        share = float(self.traffic.total["retransmissions"][0] / self.traffic.total["segments"][0])
        return None if np.isnan(share) else share

    @property
    def most_lost(self) -> float:
        """How many of its segments may have been lost at most: those sent again; infinite, if that is not told."""
        if self.traffic is None or self.sent_again is None:
            return math.inf
        return float(self.traffic.total["retransmissions"][0])

    @property
    def judgeable(self) -> bool:
        """Whether it has a rate that it can be held to."""
        return self.designed.rate is not None and not self.designed.loses

    @property
    def element(self) -> Element:
        return Element(kind=ElementKind.LINK, src=self.src, dst=self.dst)

    @cached_property
    def designed_delay_ns(self) -> npt.NDArray[np.int64]:
        """One-way delay designed when each message was sent."""
        sent_s = (self.rows["send_start_ns"] - self.began_ns) / _NS_PER_S
        return np.rint(self.designed.delay_s.at(sent_s) * _NS_PER_S).astype(np.int64)

    @cached_property
    def round_trip_ns(self) -> float:
        """Twice the median of the one-way delay that was designed: the way back is as long, if it is as designed."""
        return 2 * float(np.median(self.designed_delay_ns))

    @cached_property
    def delay_ns(self) -> npt.NDArray[np.int64]:
        """One-way delay of each message, designed plus added."""
        return self.designed_delay_ns + self.added_delay_ns

    @cached_property
    def busy_s(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Beginnings and ends, in seconds of training, of the times in which a message was leaving for this link."""
        return np.sort(self.left_ns - self.services_ns) / _NS_PER_S, np.sort(self.left_ns) / _NS_PER_S

    @cached_property
    def left_ns(self) -> npt.NDArray[np.int64]:
        """When each message had left for this link, in service order, ns of training."""
        return np.asarray(self.rows["recv_end_ns"] - self.delay_ns - self.began_ns)

    @cached_property
    def expected_ns(self) -> npt.NDArray[np.float64]:
        """Service of each message at the designed rate; 0 where no rate is designed."""
        rate = self.designed.rate
        return np.zeros(len(self.rows)) if rate is None else self.expected_at_ns(rate)

    @cached_property
    def first_of_row(self) -> npt.NDArray[np.bool_]:
        """Which messages would find the link idle as designed, shape (messages,); the others follow them in a row."""
        before_ns = np.cumsum(self.expected_ns) - self.expected_ns
        slack_ns = self.rows["send_start_ns"] + self.delay_ns - self.began_ns - before_ns
        return np.asarray(slack_ns >= np.maximum.accumulate(slack_ns))

    def expected_at_ns(self, rate: Piecewise) -> npt.NDArray[np.float64]:
        """Service of each message at ``rate``, from when its service began."""
        begin_s = (self.left_ns - self.services_ns) / _NS_PER_S
        return (rate.when(rate.total(begin_s) + wire_bits_of(self.rows["nbytes"])) - begin_s) * _NS_PER_S

    @property
    def designed_bps(self) -> float:
        """Median over the judged messages of wire bits / expected service; over all of them if none is judged."""
        chosen = self.judged if self.judged.any() else np.ones(len(self.rows), dtype=bool)
        return float(np.median(wire_bits_of(self.rows["nbytes"][chosen]) / self.expected_ns[chosen])) * _NS_PER_S

    @cached_property
    def services_ns(self) -> npt.NDArray[np.int64]:
        if self.by_receiver:
            previous_ns = np.concatenate([self.rows["recv_start_ns"][:1], self.rows["recv_end_ns"][:-1]])
            begin_ns = np.maximum(self.rows["recv_start_ns"], previous_ns)
            return np.asarray(np.maximum(0, self.rows["recv_end_ns"] - begin_ns))
        return services_ns(self.rows, self.delay_ns)

    @cached_property
    def judged(self) -> npt.NDArray[np.bool_]:
        """Which messages say something of the rate: large, and after warm-up."""
        return (self.rows["nbytes"] >= MIN_RATE_BYTES) & (self.rows["iteration"] >= self.first_iteration)

    @cached_property
    def stalled_long(self) -> npt.NDArray[np.bool_]:
        """Which messages were late by seconds, as those are that nothing was carried of for a while."""
        excess_ns = self.services_ns - self.expected_ns - self.uncertainty_ns
        return self.may_stall & few(
            (excess_ns >= MIN_STALL_NS) & (self.services_ns >= MIN_RATIO * self.expected_ns) & ~self.held_up
        )

    @cached_property
    def held_up(self) -> npt.NDArray[np.bool_]:
        """Which messages a stop of either end held up, shape (messages,)."""
        return np.broadcast_to(np.asarray(self.stopped) != BY_NEITHER, self.rows.shape)

    @property
    def moving(self) -> npt.NDArray[np.bool_]:
        """Which messages tell of the link: neither that nor a stall of seconds is in them; shape (messages,)."""
        return ~(self.stalled_long | self.held_up)

    @property
    def rate_bps(self) -> float:
        """Median over large messages of wire bits / service; over those after warm-up if there are any.

        NaN, where messages support no rate: all are small, or their services are shorter than both clocks are certain,
        as those of messages are that arrived sooner than the link's delay lets them.
        """
        chosen = self.judged if self.judged.any() else self.rows["nbytes"] >= MIN_RATE_BYTES
        if not chosen.any():
            return math.nan
        taken_ns = self.services_ns[chosen]
        if np.median(taken_ns) <= max(self.uncertainty_ns, LEAST_SERVICE_NS):
            return math.nan
        return float(np.median(wire_bits_of(self.rows["nbytes"][chosen]) / np.maximum(1, taken_ns))) * _NS_PER_S

    @property
    def transfer_s(self) -> float:
        """Median over messages, first byte's departure to last byte's arrival."""
        return float(np.median(self.rows["recv_end_ns"] - self.rows["send_start_ns"])) / _NS_PER_S
