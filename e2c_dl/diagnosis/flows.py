"""Links of a library that hides its messages, as the sending kernels counted what they carried in every iteration.

::

    sockets' counters (trace.connections)    bytes acknowledged, time busy, delivery rate, round trip, retransmissions
    else FLOW spans                          bytes and time busy alone

*Busy* is a link while bytes of it are not acknowledged. In a ring all links carry the same, and each waits for the one
before it: the slow one is busy throughout, the others in part. What a link *needs* for an iteration is the time in
which it would have carried its bytes had nobody kept it waiting: by the rate at which the kernel saw them delivered,
where it tells one, else the time that it was busy, which is more where single chunks wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.topology import Pair
from e2c_dl.trace.collectives import flow_spans
from e2c_dl.trace.model import Phase, Spans, Trace
from e2c_dl.trace.propagation.connections import LinkTraffic
from e2c_dl.trace.warm_up import warm_up

Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

DATA_SHARE = 0.02  # of an iteration's bytes of the link that carries most: what is less, is no gradients


@dataclass(frozen=True, kw_only=True, eq=False)
class ObservedFlow:
    """One directed link. All arrays are of shape (iterations,): 0 or NaN in an iteration of which nothing is known."""

    ranks: tuple[int, int]
    pair: Pair  # of hosts
    acked_bytes: Doubles
    busy_s: Doubles
    delivery_bps: Doubles  # NaN: not told
    min_rtt_s: Doubles  # NaN: not told
    retransmissions: Doubles
    segments: Doubles  # that left; 0: not told
    least_bytes: float = 0.0  # in an iteration: so few are replies, or a set-up
    spans: int = 0  # FLOW spans of it
    busy_span_s: float = 0.0  # their median
    traffic: LinkTraffic | None = None  # None: of spans alone

    @property
    def element(self) -> Element:
        return Element(kind=ElementKind.LINK, src=self.pair[0], dst=self.pair[1])

    @property
    def within_machine(self) -> bool:
        """Whether it crosses no network."""
        return self.traffic is not None and self.traffic.within_machine

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """In which iterations it was busy with more than replies."""
        return (self.busy_s > 0) & (self.acked_bytes > self.least_bytes)

    @property
    def is_usual(self) -> bool:
        """Whether it carried something in most iterations after warm-up."""
        after = self.known[warm_up(len(self.known)) :]
        return 2 * int(after.sum()) > len(after)

    @property
    def need_s(self) -> Doubles:
        """What each iteration's bytes took, shape (iterations,); their median where that is not known but usual."""
        told = self.known & (self.delivery_bps > 0)  # False of NaN
        by_rate = 2 * told.sum() > self.known.sum()
        known = told if by_rate else self.known
        took_s = self.busy_s
        if by_rate:
            took_s = np.divide(8 * self.acked_bytes, self.delivery_bps, out=np.zeros(len(known)), where=told)
        usual_s = float(np.median(took_s[known])) if self.is_usual else 0.0  # a broadcast before all else is not
        return np.where(known, took_s, usual_s)

    @property
    def carrying_bps(self) -> float:
        """Median over iterations of which it is known: bits of Ethernet frames per second needed; above 0."""
        need_s = self.need_s
        known = self.known & (need_s > 0)
        return float(np.median(self._wire_bits(known) / need_s[known]))

    @property
    def delay_s(self) -> float:
        """Half the least round trip that was told, median over iterations; 0.0 where none was."""
        told = self.min_rtt_s[np.isfinite(self.min_rtt_s)]
        return float(np.median(told)) / 2 if len(told) else 0.0

    @property
    def total_bytes(self) -> int:
        return round(float(np.nansum(self.acked_bytes)))

    @property
    def rate_bps(self) -> float:
        """Median over iterations: bits of Ethernet frames per second of busy time; NaN if it never was."""
        known = self.known
        return float(np.median(self._wire_bits(known) / self.busy_s[known])) if known.any() else np.nan

    def delivered_bps(self, iterations: npt.NDArray[np.int64]) -> float:
        """Median over ``iterations``, in each of which it is known: bits of Ethernet frames per second needed."""
        return float(np.median(self._wire_bits(iterations) / self.need_s[iterations]))

    def _wire_bits(self, chosen: npt.NDArray[Any]) -> Doubles:
        """Bits of Ethernet frames that its data filled in each of the ``chosen`` iterations."""
        return wire_bits_of(np.rint(self.acked_bytes[chosen]).astype(np.int64))


def observed_flows(trace: Trace, iterations: int) -> tuple[ObservedFlow, ...]:
    """The links of ``trace`` that carried data, by (src rank, dst rank)."""
    hosts = {rank.rank: rank.host for rank in trace.ranks}
    if trace.connections.links:
        found = [
            _of_traffic(link, (hosts[link.src], hosts[link.dst]), _own_flows(trace, link.src, link.dst), iterations)
            for link in trace.connections.data
            if link.src in hosts and link.dst in hosts
        ]
    else:
        found = [*_of_spans(trace, hosts, iterations)]
    most = max((float(np.median(each.acked_bytes)) for each in found), default=0.0)
    found = [replace(each, least_bytes=DATA_SHARE * most) for each in found]
    return tuple(sorted((each for each in found if each.known.any()), key=lambda each: each.ranks))


def _own_flows(trace: Trace, src: int, dst: int) -> Spans:
    (rank,) = (each for each in trace.ranks if each.rank == src)
    spans = rank.spans[rank.spans["phase"] == Phase.FLOW]
    found: Spans = spans[(spans["src"] == src) & (spans["dst"] == dst)]
    return found


def _of_traffic(link: LinkTraffic, pair: Pair, flows: Spans, iterations: int) -> ObservedFlow:
    rows = link.per_iteration
    rows = rows[(rows["iteration"] >= 0) & (rows["iteration"] < iterations)]
    number = rows["iteration"]

    def summed(name: str) -> Doubles:
        return np.bincount(number, weights=np.nan_to_num(rows[name]), minlength=iterations).astype(np.float64)

    def told(name: str) -> Doubles:
        values = np.full(iterations, np.nan)
        values[number] = rows[name]
        return values

    return ObservedFlow(
        ranks=(link.src, link.dst), pair=pair, acked_bytes=summed("acked_bytes"), busy_s=summed("busy_ns") / 1e9,
        delivery_bps=told("delivery_rate_bps"), min_rtt_s=told("min_rtt_s"),
        retransmissions=summed("retransmissions"), segments=summed("segments"),
        spans=len(flows), busy_span_s=_median_s(flows), traffic=link,
    )  # fmt: skip


def _of_spans(trace: Trace, hosts: dict[int, str], iterations: int) -> Iterator[ObservedFlow]:
    spans = flow_spans(trace)
    for src, dst in np.unique(np.stack([spans["src"], spans["dst"]], axis=1), axis=0).tolist():
        if src not in hosts or dst not in hosts:
            continue
        own = spans[(spans["src"] == src) & (spans["dst"] == dst)]
        inside = own[(own["iteration"] >= 0) & (own["iteration"] < iterations)]
        lasted_s = (inside["end_ns"] - inside["start_ns"]) / 1e9
        unknown = np.full(iterations, np.nan)
        yield ObservedFlow(
            ranks=(src, dst), pair=(hosts[src], hosts[dst]),
            acked_bytes=np.bincount(inside["iteration"], inside["nbytes"], iterations).astype(np.float64),
            busy_s=np.bincount(inside["iteration"], lasted_s, iterations).astype(np.float64),
            delivery_bps=unknown, min_rtt_s=unknown, retransmissions=np.zeros(iterations),
            segments=np.zeros(iterations), spans=len(own), busy_span_s=_median_s(own),
        )  # fmt: skip


def _median_s(flows: Spans) -> float:
    return float(np.median(flows["end_ns"] - flows["start_ns"])) / 1e9 if len(flows) else float("nan")
