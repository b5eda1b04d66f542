"""Changes on top of a whole scenario, injected departures included: what a what-if asks, and what its re-run emulates.

::

    host edge-1    designed x injected x slow windows   / speed                      speed=2x: in half the time
    link a -> b    designed, schedule, injected, faults -> x rate_factor, or rate    rate=50mbit: whatever it was
    without        these hosts stay where they are, and do not train: the ranks behind them move up

Pure values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from e2c_dl import units
from e2c_dl.topology import Link, Pair


@dataclass(frozen=True, kw_only=True)
class LinkChange:
    """What becomes of one directed link: an absolute value, if there is one, else a factor."""

    rate_bps: float | None = None
    rate_factor: float = 1.0
    delay_s: float | None = None
    delay_factor: float = 1.0

    def of(self, link: Link) -> Link:
        """``link``, changed. One without a rate gets one only by an absolute value."""
        rate_bps = None if link.rate_bps is None else link.rate_bps * self.rate_factor
        return replace(
            link,
            rate_bps=rate_bps if self.rate_bps is None else self.rate_bps,
            delay_s=link.delay_s * self.delay_factor if self.delay_s is None else self.delay_s,
        )

    def then(self, other: LinkChange) -> LinkChange:
        """This, then ``other``: its absolute values hold, its factors multiply."""
        rate_bps = self.rate_bps if other.rate_bps is None else other.rate_bps
        delay_s = self.delay_s if other.delay_s is None else other.delay_s
        if self.rate_bps is not None and other.rate_bps is None:
            rate_bps = self.rate_bps * other.rate_factor
        if self.delay_s is not None and other.delay_s is None:
            delay_s = self.delay_s * other.delay_factor
        return LinkChange(
            rate_bps=rate_bps, rate_factor=self.rate_factor * other.rate_factor,
            delay_s=delay_s, delay_factor=self.delay_factor * other.delay_factor,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Changed:
    """All that is changed at once. ``speeds``: host -> times as fast."""

    speeds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    links: Mapping[Pair, LinkChange] = field(default_factory=lambda: MappingProxyType({}))
    without: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.speeds or self.links or self.without)

    def link(self, pair: Pair, link: Link) -> Link:
        """``link``, which is between ``pair``, changed."""
        change = self.links.get(pair)
        return link if change is None else change.of(link)

    def then(self, other: Changed) -> Changed:
        """This, then ``other`` on top of it."""
        speeds, links = dict(self.speeds), dict(self.links)
        for host, speed in other.speeds.items():
            speeds[host] = speeds.get(host, 1.0) * speed
        for pair, change in other.links.items():
            links[pair] = links.get(pair, LinkChange()).then(change)
        without = dict.fromkeys([*self.without, *other.without])
        return Changed(speeds=MappingProxyType(speeds), links=MappingProxyType(links), without=tuple(without))

    @property
    def of_those_left(self) -> Changed:
        """What is asked of hosts that train, and of links between them."""
        gone = {*self.without}
        return Changed(
            speeds={host: speed for host, speed in self.speeds.items() if host not in gone},
            links={pair: change for pair, change in self.links.items() if not {*pair} & gone},
        )

    def to_yaml(self) -> dict[str, Any]:
        """The section ``what_if:`` of ``emulation.yaml`` that says this."""
        hosts = [{"host": host, "speed": speed} for host, speed in self.speeds.items()]
        links = [{"src": src, "dst": dst, **_said(change)} for (src, dst), change in self.links.items()]
        said = {"hosts": hosts, "links": links, "without": [*self.without]}
        return {key: value for key, value in said.items() if value}


NOTHING_CHANGED = Changed()


def together(several: Iterable[Changed]) -> Changed:
    """All of ``several``, one after another."""
    changed = NOTHING_CHANGED
    for each in several:
        changed = changed.then(each)
    return changed


def _said(change: LinkChange) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if change.rate_bps is not None:
        said["rate"] = units.format_rate(change.rate_bps)
    elif change.rate_factor != 1:
        said["rate_factor"] = change.rate_factor
    if change.delay_s is not None:
        said["delay"] = units.format_delay(change.delay_s)
    elif change.delay_factor != 1:
        said["delay_factor"] = change.delay_factor
    return said
