"""Who there is and what connects them: hosts in layers, and one quality per directed link.

::

    edge-1 --Link(rate_bps, delay_s, loss)--> fog-1        delay_s is one way, loss a fraction of segments,
    edge-1 <--Link(...)---------------------- fog-1        rate_bps counts Ethernet frames, headers included

A pair without a link here is not shaped. Pure values; they do not know how a link is emulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

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


@dataclass(frozen=True, kw_only=True)
class Link:
    """Quality of one directed link; None leaves that property alone."""

    rate_bps: float | None = None  # bits per second of Ethernet frames on the wire, headers included
    delay_s: float = 0.0  # one way
    loss: float = 0.0  # fraction of segments, 0..1

    def slowed(self, rate_factor: float) -> Link:
        """This link at ``rate_factor`` (0..1] times its rate; unlimited links stay unlimited."""
        rate = None if self.rate_bps is None else self.rate_bps * rate_factor
        return Link(rate_bps=rate, delay_s=self.delay_s, loss=self.loss)


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Hosts in rank order (hosts without rank last) and the directed links that are shaped."""

    hosts: tuple[Host, ...]
    links: Mapping[Pair, Link] = field(default_factory=lambda: MappingProxyType({}))

    def host(self, name: str) -> Host:
        """The host called ``name``. Raises: KeyError."""
        for host in self.hosts:
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
