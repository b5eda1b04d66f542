"""Which frame goes where and when: the relay without its sockets.

::

    host i --frame--> Switch.forward --> LinkShaper i->j --> heap of (due time, number) --> Switch.deliver --> write j

Unicast IP takes the link's shaping and is counted there. What is broadcast, multicast or not IP (ARP) goes at once to
whom it is for, unshaped and counted apart, as under tc, whose filters match IP destinations: a full queue must not make
neighbours forget each other. Unicast to an unknown address is dropped and counted.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import TypedDict

from e2c_dl.emulation.frames import ETHERNET_BYTES, VNET_BYTES
from e2c_dl.emulation.relay_config import RelayConfig, RelayLink
from e2c_dl.emulation.shaping import LinkShaper
from e2c_dl.topology import Pair

Write = Callable[[int, bytes], bool]
"""Hands a buffer to the host of that index; False if the host did not take it."""

_DST = slice(VNET_BYTES, VNET_BYTES + 6)
_ETHERTYPE = slice(VNET_BYTES + 12, VNET_BYTES + ETHERNET_BYTES)
_IP = frozenset((b"\x08\x00", b"\x86\xdd"))


class LinkReport(TypedDict):
    """The counters of one directed link, as in LinkShaper. Lateness is over the ``timed`` pieces."""

    src: str
    dst: str
    frames: int
    segments: int
    bytes: int  # on the wire: Ethernet frames, headers of every segment included
    dropped_queue: int  # segments
    dropped_loss: int  # segments
    dropped_host: int  # segments
    timed: int
    late: int  # handed over more than 1 ms after their due time
    lateness_mean_s: float
    lateness_max_s: float


class SwitchReport(TypedDict):
    """Everything counted: links that are shaped or carried something, and what belongs to no link."""

    links: list[LinkReport]
    other_frames: int  # ARP, broadcast, multicast
    unknown_frames: int  # unicast to nobody: dropped
    malformed_frames: int  # dropped


class Switch:
    """Connects the hosts of a configuration. Times are seconds of ``clock``; ``write`` does the handing over."""

    def __init__(self, config: RelayConfig, clock: Callable[[], float], write: Write) -> None:
        self._clock, self._write = clock, write
        self._names = [host.name for host in config.hosts]
        self._asked = {(link.src, link.dst): link for link in config.links}
        self._links: dict[Pair, LinkShaper] = {}
        macs = [bytes.fromhex(host.mac.replace(":", "")) for host in config.hosts]
        self._routes: list[dict[bytes, tuple[int, LinkShaper]]] = []
        for src, src_name in enumerate(self._names):
            others = [dst for dst in range(len(macs)) if dst != src]
            self._routes.append({macs[dst]: (dst, self._shaper(src_name, self._names[dst], config)) for dst in others})
        self._heap: list[tuple[float, int, int, int, bytes, LinkShaper]] = []
        self._number = 0
        self._other_frames = self._unknown_frames = self._malformed_frames = 0

    def forward(self, src: int, buffer: bytes) -> None:
        """Takes one frame (with its vnet header) that the host of index ``src`` sent just now."""
        route = self._routes[src].get(buffer[_DST])
        if route is None or buffer[_ETHERTYPE] not in _IP:
            self._forward_other(src, buffer, route)
            return
        dst, link = route
        try:
            arrivals = link.admit(self._clock(), buffer)
        except ValueError:
            self._malformed_frames += 1  # a host can send anything: it must not stop the others
            return
        for due_s, segments, piece in arrivals:
            if link.immediate:
                link.dropped_host += 0 if self._write(dst, piece) else segments
            else:
                self._number += 1
                heapq.heappush(self._heap, (due_s, self._number, dst, segments, piece, link))

    def deliver(self) -> None:
        """Hands over everything that is due by now."""
        heap = self._heap
        while heap and heap[0][0] <= (now_s := self._clock()):
            due_s, _, dst, segments, piece, link = heapq.heappop(heap)
            taken = self._write(dst, piece)
            link.handed_over(piece, segments, now_s - due_s, taken=taken)

    def next_due_s(self) -> float:
        """When there is something to deliver; infinity if nothing is on its way."""
        return self._heap[0][0] if self._heap else float("inf")

    def report(self) -> SwitchReport:
        return SwitchReport(
            links=[
                _link_report(pair, link)
                for pair, link in sorted(self._links.items())
                if link.frames or pair in self._asked
            ],
            other_frames=self._other_frames,
            unknown_frames=self._unknown_frames,
            malformed_frames=self._malformed_frames,
        )

    def _forward_other(self, src: int, buffer: bytes, route: tuple[int, LinkShaper] | None) -> None:
        if len(buffer) < VNET_BYTES + ETHERNET_BYTES:
            self._malformed_frames += 1
        elif route is not None:
            self._other_frames += 1
            self._write(route[0], buffer)
        elif buffer[VNET_BYTES] & 1:
            self._other_frames += 1
            for dst in range(len(self._names)):
                if dst != src:
                    self._write(dst, buffer)
        else:
            self._unknown_frames += 1

    def _shaper(self, src: str, dst: str, config: RelayConfig) -> LinkShaper:
        """The shaper of one directed link, with a generator of its own: losses on a link depend on nothing else."""
        asked = self._asked.get((src, dst), RelayLink(src=src, dst=dst, rate_bps=None, delay_s=0.0, loss=0.0))
        self._links[src, dst] = LinkShaper(
            rate_bps=asked.rate_bps,
            delay_s=asked.delay_s,
            loss=asked.loss,
            limit_bytes=asked.limit_bytes,
            rng=random.Random(f"{config.seed} {src} {dst}"),
        )
        return self._links[src, dst]


def _link_report(pair: Pair, link: LinkShaper) -> LinkReport:
    return LinkReport(
        src=pair[0],
        dst=pair[1],
        frames=link.frames,
        segments=link.segments,
        bytes=link.wire_bytes,
        dropped_queue=link.dropped_queue,
        dropped_loss=link.dropped_loss,
        dropped_host=link.dropped_host,
        timed=link.timed,
        late=link.late,
        lateness_mean_s=link.lateness_sum_s / link.timed if link.timed else 0.0,
        lateness_max_s=link.lateness_max_s,
    )
