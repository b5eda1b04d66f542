"""Forwarding of frames: to whom each goes, and when; the relay without its sockets.

::

    host i --frame--> Switch.forward --> LinkShaper i->j: its LinkQueue --> [queue of its bottleneck] --> write j
                                                   \\____ Switch.deliver, by a heap of (when due, queue) ______________/

Unicast IP takes the link's shaping and is counted there. What is broadcast, multicast or not IP (ARP) goes at once to
whom it is for, unshaped and counted apart, as under tc, whose filters match IP destinations: a full queue or a cut must
not make neighbours forget each other, and no first packet waits for a lost ARP reply. Unicast to an unknown address is
dropped and counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypedDict, cast

from e2c_dl.emulation.relay.config import RelayConfig
from e2c_dl.emulation.relay.fair_shared_queue import FairSharedQueue
from e2c_dl.emulation.relay.frames import ETHERNET_BYTES, VNET_BYTES
from e2c_dl.emulation.relay.link_queue import LinkQueue, SharedQueue
from e2c_dl.emulation.relay.link_shaper import LinkShaper
from e2c_dl.topology import Bottleneck, Discipline, Link, Pair, default_queue_bytes

Write = Callable[[int, bytes], bool]
"""Hands a buffer to the host of that index; False if the host did not take it."""

_DST = slice(VNET_BYTES, VNET_BYTES + 6)
_ETHERTYPE = slice(VNET_BYTES + 12, VNET_BYTES + ETHERNET_BYTES)
_IP = frozenset((b"\x08\x00", b"\x86\xdd"))  # EtherTypes of IPv4 and IPv6


class LinkReport(TypedDict):
    """The counters of one directed link, as in LinkShaper. Lateness is over the ``timed`` pieces."""

    src: str
    dst: str
    frames: int
    segments: int
    bytes: int  # on the wire: Ethernet frames, headers of every segment included
    dropped_queue: int  # segments
    dropped_loss: int  # segments
    dropped_down: int  # segments
    dropped_bottleneck: int  # segments
    dropped_host: int  # segments
    timed: int
    late: int  # handed over more than 1 ms after their due time
    lateness_mean_s: float
    lateness_max_s: float


class BottleneckReport(TypedDict):
    """The counters of one bottleneck, as in SharedQueue."""

    name: str
    segments: int
    bytes: int  # on the wire, as a link's
    dropped_queue: int  # segments: those that its links have as dropped_bottleneck


class SwitchReport(TypedDict):
    """Everything counted: links that are shaped or carried something, what they share, and what belongs to no link."""

    links: list[LinkReport]
    bottlenecks: list[BottleneckReport]
    other_frames: int  # ARP, broadcast, multicast
    unknown_frames: int  # unicast to nobody: dropped
    malformed_frames: int  # dropped


class Switch:
    """Connects the hosts of a configuration. Times are seconds of ``clock``; ``write`` does the handing over.

    ``links`` and ``bottlenecks`` are what is in force: ask, do not change.
    """

    def __init__(self, config: RelayConfig, clock: Callable[[], float], write: Write) -> None:
        self._clock, self._write = clock, write
        self.names = [host.name for host in config.hosts]
        self.links: dict[Pair, Link] = dict(config.links)
        self.bottlenecks: dict[str, Bottleneck] = {one.name: one for one in config.bottlenecks}
        self._shared = {one.name: self._queue(one) for one in config.bottlenecks}
        self._shared_by = {pair: self._shared[one.name] for one in config.bottlenecks for pair in one.links}
        self._shapers: dict[Pair, LinkShaper] = {}
        macs = [bytes.fromhex(host.mac.replace(":", "")) for host in config.hosts]
        self._routes: list[dict[bytes, tuple[int, LinkShaper]]] = []  # by source: one look-up per frame
        for src, src_name in enumerate(self.names):
            others = [dst for dst in range(len(macs)) if dst != src]
            self._routes.append({macs[dst]: (dst, self._shaper((src_name, self.names[dst]), config)) for dst in others})
        self._events: list[tuple[float, int, LinkQueue]] = []
        self._other_frames = self._unknown_frames = self._malformed_frames = 0

    def forward(self, src: int, buffer: bytes) -> None:
        """Takes one frame (with its vnet header) that the host of index ``src`` sent just now."""
        route = self._routes[src].get(buffer[_DST])
        if route is None or buffer[_ETHERTYPE] not in _IP:
            self._forward_other(src, buffer, route)
            return
        dst, link = route
        try:
            if link.immediate:
                segments = link.pass_on(buffer)
                link.dropped_host += 0 if self._write(dst, buffer) else segments
            else:
                link.admit(self._clock(), buffer, dst)
                self._expect(link.queue)
        except ValueError:
            self._malformed_frames += 1  # a host can send anything: it must not stop the others

    def deliver(self) -> None:
        """Hands over everything that is due by now."""
        events = self._events
        while events and events[0][0] <= (now_s := self._clock()):
            event_s, _, queue = heapq.heappop(events)
            if event_s != queue.event_s:
                continue  # what it was for is due at another time now
            queue.event_s = float("inf")  # so that _expect notes the next one
            due_s, entry, piece = heapq.heappop(queue.flight)
            if entry != piece.entry:  # it was planned anew, or had to make room
                self._expect(queue)
                continue
            queue.handed_on(due_s)
            self._expect(queue)
            if queue.shared is None:
                taken = self._write(piece.dst, piece.buffer)
                piece.link.handed_over(piece, now_s - due_s, taken=taken)
            else:
                queue.shared.admit(due_s, piece)
                self._expect(queue.shared)

    def next_due_s(self) -> float:
        """When there is something to deliver, or to look whether there is; infinity if nothing is on its way."""
        return self._events[0][0] if self._events else float("inf")

    def change(self, links: Mapping[Pair, Link], bottlenecks: Mapping[str, float]) -> int:
        """The clock in ns at which ``links`` and these rates of bottlenecks are in force. All names must be known."""
        now_s = self._clock()
        self.links.update(links)
        for name, rate_bps in bottlenecks.items():
            self.bottlenecks[name] = replace(self.bottlenecks[name], rate_bps=rate_bps)
        # The shared rates first: links cut what waits for the least rate on its way. Their delays count after that.
        changed = {pair: link for pair, link in links.items() if self._shapers[pair].link != link}
        again = [name for name, one in self.bottlenecks.items() if changed.keys() & {*one.links}]
        self._change_shared(now_s, bottlenecks)
        for pair, link in changed.items():
            self._shapers[pair].change(now_s, link)
            self._expect(self._shapers[pair].queue)
        self._change_shared(now_s, again)
        return round(self._clock() * 1e9)  # only now is all of it in force

    def report(self) -> SwitchReport:
        return SwitchReport(
            links=[
                _link_report(pair, link)
                for pair, link in sorted(self._shapers.items())
                if link.frames or pair in self.links
            ],
            bottlenecks=[
                BottleneckReport(
                    name=name, segments=one.segments, bytes=one.wire_bytes, dropped_queue=one.dropped_queue
                )
                for name, one in sorted(self._shared.items())
            ],
            other_frames=self._other_frames,
            unknown_frames=self._unknown_frames,
            malformed_frames=self._malformed_frames,
        )

    def _change_shared(self, now_s: float, names: Iterable[str]) -> None:
        for name in names:
            one = self.bottlenecks[name]
            self._shared[name].change(now_s, one.rate_bps, self._limit_bytes(one))
            self._expect(self._shared[name])

    def _expect(self, queue: LinkQueue) -> None:
        """Makes sure that ``deliver`` looks at ``queue`` when what comes first in it is due."""
        if queue.flight and queue.flight[0][0] != queue.event_s:
            queue.event_s = queue.flight[0][0]
            heapq.heappush(self._events, (queue.event_s, queue.number, queue))

    def _forward_other(self, src: int, buffer: bytes, route: tuple[int, LinkShaper] | None) -> None:
        if len(buffer) < VNET_BYTES + ETHERNET_BYTES:
            self._malformed_frames += 1
        elif route is not None:
            self._other_frames += 1
            self._write(route[0], buffer)
        elif buffer[VNET_BYTES] & 1:  # the group bit: broadcast or multicast
            self._other_frames += 1
            for dst in range(len(self.names)):
                if dst != src:
                    self._write(dst, buffer)
        else:
            self._unknown_frames += 1

    def _shaper(self, pair: Pair, config: RelayConfig) -> LinkShaper:
        """The shaper of one directed link, with a random seed of its own: its losses depend on no other link."""
        seed = f"{config.seed} {pair[0]} {pair[1]}"
        shaper = LinkShaper(self.links.get(pair, Link()), seed=seed, shared=self._shared_by.get(pair))
        self._shapers[pair] = shaper
        return shaper

    def _queue(self, bottleneck: Bottleneck) -> SharedQueue | FairSharedQueue:
        kind = SharedQueue if bottleneck.discipline is Discipline.FIFO else FairSharedQueue
        return kind(bottleneck.rate_bps, self._limit_bytes(bottleneck))

    def _limit_bytes(self, bottleneck: Bottleneck) -> int:
        """By default sized for the longest of its links."""
        longest_s = max((self.links.get(pair, Link()).delay_s for pair in bottleneck.links), default=0.0)
        if bottleneck.queue_bytes is not None:
            return bottleneck.queue_bytes
        return default_queue_bytes(bottleneck.rate_bps, longest_s)


def _link_report(pair: Pair, link: LinkShaper) -> LinkReport:
    mean_s = link.lateness_sum_s / link.timed if link.timed else 0.0
    other = {"src": pair[0], "dst": pair[1], "bytes": link.wire_bytes, "lateness_mean_s": mean_s}
    return cast(
        LinkReport, {name: other[name] if name in other else getattr(link, name) for name in LinkReport.__annotations__}
    )
