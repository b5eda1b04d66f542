"""Directed links beside what was designed of them: the measure of which carry their messages slower.

What a link did with a message is told by arrivals, not by when the sender's kernel took the bytes. A message *occupies*
its link from its first byte's arrival, or the previous message's end, to its own end; waiting for a slow neighbour,
which posts late, is not in it::

    send_start |~~~ designed delay ~~~|====== service ======| recv_end
    wire bits = of Ethernet frames, headers included (e2c_dl.ethernet)
    expected  = how long wire bits take at the rate designed, which may change over time, from when service began
    slowdown  = service / expected

*Rate* departs if all of these hold, over messages of at least 8 KiB (smaller ones measure latency) after warm-up:

* sum of service / sum expected, per iteration, median over iterations: at least 1.5. Summing makes a late read of one
  message and the early start of the next cancel.
* the lower quartile over messages: at least 1.5. A link that is slow is slow for all; a receiver short of processor
  time, or one lost segment, is late for some.
* the mean excess per message: at least 2 ms beyond clock uncertainty. Less is what a busy receiver's read costs.
* both ratios are still 1.5 when divided by the links' median ratio (of three or more links, if above 1): what most
  links share is the machine's doing.

*Delay*: neither transfer nor the time between two arrivals can be shorter than a message takes at the link's true rate,
so the lower fifths of both bound that rate; what is left of the transfer of a message that did not queue, not even at
four fifths of that rate, is delay. The least of an iteration, median over iterations, less the designed delay, is the
added delay. It departs if it exceeds max(10 ms, the designed delay) beyond clock uncertainty. On a link that is never
idle, or whose messages are all of one size and never close together, added delay shows as rate, if at all.

Links that are asked to lose segments have no expected rate: no verdict. What a shared bottleneck leaves a link depends
on the others that are busy at the time: see :mod:`e2c_dl.diagnosis.sharing`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.piecewise import Piecewise, least
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.topology import Pair
from e2c_dl.trace.messages import MessageArray

MIN_RATE_BYTES = 8192  # smaller messages measure latency
QUANTILE = 0.25  # of the fast: a late read makes a few slow, a slow link all
DELAY_QUANTILE = 0.2  # lower fifth: nothing arrives sooner than its link allows
MIN_IDLE_ITERATIONS = 3  # a median of fewer is one message's luck
IDLE_MARGIN = 1.25  # a rate taken for too high would show queueing as delay
_NS_PER_S = 1e9


def in_service_order(rows: MessageArray) -> MessageArray:
    """One link's messages in the order in which they were sent: a copy."""
    return rows[np.argsort(rows["send_start_ns"], kind="stable")]  # stable: ties keep the trace's order


def services_ns(rows: MessageArray, delay_ns: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How long each of one link's messages, in service order, occupied it; at least 0, shape (messages,).

    ``delay_ns``: one for all, or one for each.
    """
    previous_ns = np.concatenate([rows["send_start_ns"][:1], rows["recv_end_ns"][:-1]])
    begin_ns = np.maximum(rows["send_start_ns"] + delay_ns, previous_ns)
    return np.asarray(np.maximum(0, rows["recv_end_ns"] - begin_ns))


def _found_idle(start_ns: npt.NDArray[np.int64], occupied_ns: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which messages, sent at ``start_ns`` one after another, would not queue on a link each occupies that long."""
    done = np.cumsum(occupied_ns)
    left_ns = done + np.maximum.accumulate(start_ns - (done - occupied_ns))  # when each has left a queue without delay
    return np.concatenate([[True], left_ns[:-1] <= start_ns[1:]])


@dataclass(frozen=True, kw_only=True)
class Designed:
    """What the scenario designs of one directed link over the seconds of training."""

    own: Piecewise | None = None  # bits per second, of the link itself; None: no limit
    left: Piecewise | None = None  # by the others on its shared bottleneck, if it passes one
    delay_s: Piecewise = field(default_factory=lambda: Piecewise.constant(0.0))
    loses: bool = False

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
    added_delay_ns: int = 0  # found, beyond the designed delay

    @property
    def pair(self) -> Pair:
        return self.src, self.dst

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
    def delay_ns(self) -> npt.NDArray[np.int64]:
        """One-way delay of each message, designed plus added."""
        return self.designed_delay_ns + self.added_delay_ns

    @cached_property
    def busy_s(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Beginnings and ends, in seconds of training, of the times in which a message was leaving for this link."""
        end_ns = self.rows["recv_end_ns"] - self.delay_ns - self.began_ns
        return np.sort(end_ns - self.services_ns) / _NS_PER_S, np.sort(end_ns) / _NS_PER_S

    @cached_property
    def expected_ns(self) -> npt.NDArray[np.float64]:
        """Service of each message at the designed rate; 0 where no rate is designed."""
        rate = self.designed.rate
        return np.zeros(len(self.rows)) if rate is None else self.expected_at_ns(rate)

    def expected_at_ns(self, rate: Piecewise) -> npt.NDArray[np.float64]:
        """Service of each message at ``rate``, from when its service began."""
        begin_ns = self.rows["recv_end_ns"] - self.services_ns - self.delay_ns - self.began_ns
        begin_s = begin_ns / _NS_PER_S
        return (rate.when(rate.total(begin_s) + wire_bits_of(self.rows["nbytes"])) - begin_s) * _NS_PER_S

    @property
    def designed_bps(self) -> float:
        """Median over the judged messages of wire bits / expected service."""
        bits = wire_bits_of(self.rows["nbytes"][self.judged])
        return float(np.median(bits / self.expected_ns[self.judged])) * _NS_PER_S

    @cached_property
    def services_ns(self) -> npt.NDArray[np.int64]:
        return services_ns(self.rows, self.delay_ns)

    @cached_property
    def judged(self) -> npt.NDArray[np.bool_]:
        """Which messages say something of the rate: large, and after warm-up."""
        return (self.rows["nbytes"] >= MIN_RATE_BYTES) & (self.rows["iteration"] >= self.first_iteration)

    @property
    def rate_bps(self) -> float:
        """Median over messages of wire bits / service; over the large ones after warm-up if there are any."""
        chosen = self.judged if self.judged.any() else np.ones(len(self.rows), dtype=bool)
        return float(np.median(wire_bits_of(self.rows["nbytes"][chosen]) / np.maximum(1, self.services_ns[chosen]))) * (
            _NS_PER_S
        )

    @property
    def transfer_s(self) -> float:
        """Median over messages, first byte's departure to last byte's arrival."""
        return float(np.median(self.rows["recv_end_ns"] - self.rows["send_start_ns"])) / _NS_PER_S

    def slowdown(self) -> float:
        """Service observed / expected: sums per iteration, median over iterations."""
        _, index = np.unique(self.rows["iteration"][self.judged], return_inverse=True)
        observed = np.bincount(index, weights=self.services_ns[self.judged])
        return float(np.median(observed / np.bincount(index, weights=self.expected_ns[self.judged])))

    def slowdown_of_fast(self) -> float:
        """Service observed / expected: the lower quartile over messages."""
        return float(np.quantile(self.services_ns[self.judged] / self.expected_ns[self.judged], QUANTILE))

    def excess_ns(self) -> float:
        """Mean over messages of service observed - expected, beyond clock uncertainty."""
        excess = self.services_ns[self.judged] - self.expected_ns[self.judged]
        return float(np.mean(excess)) - self.uncertainty_ns

    def late_ns(self) -> float:
        """Estimated one-way delay beyond what was designed, at least 0.0: see the module on *Delay*."""
        if not self.judged.any():
            return 0.0
        late = self.rows["recv_end_ns"] - self.rows["send_start_ns"] - self.designed_delay_ns
        apart = np.diff(self.rows["recv_end_ns"], prepend=self.rows["send_start_ns"][:1])
        ratios = [(time / self.expected_ns)[self.judged] for time in (late, apart)]
        slowness = max(1.0, min(float(np.quantile(ratio, DELAY_QUANTILE)) for ratio in ratios))
        idle = _found_idle(self.rows["send_start_ns"], IDLE_MARGIN * slowness * self.expected_ns)
        idle &= self.rows["iteration"] >= self.first_iteration
        iterations, index = np.unique(self.rows["iteration"][idle], return_inverse=True)
        if len(iterations) < MIN_IDLE_ITERATIONS:
            return 0.0
        shortest = np.full(len(iterations), np.inf)  # the least of each: any other may have queued
        np.minimum.at(shortest, index, (late - slowness * self.expected_ns)[idle])
        return max(0.0, float(np.median(shortest)))
