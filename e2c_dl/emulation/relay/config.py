"""Configuration of a relay: hosts to connect, the quality of the links between them and what links share; as JSON, too.

The topology's links say what is requested.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from e2c_dl import typed
from e2c_dl.emulation.link_values import links_from_json, links_to_json
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Bottleneck, Link, Pair
from e2c_dl.units import FULL_FRAME_BYTES

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


@dataclass(frozen=True, kw_only=True)
class RelayHost:
    """One host and the interface that the relay makes in its network namespace."""

    name: str
    netns_pid: int  # a process in that namespace
    device: str  # eth1
    address: str  # 198.19.0.11/16
    mac: str  # 02:00:00:00:00:0b


@dataclass(frozen=True, kw_only=True)
class RelayConfig:
    """Everything that a relay process needs to know. A pair of hosts without a link is not shaped.

    >>> h1 = RelayHost(name="h1", netns_pid=71, device="eth1", address="198.19.0.1/16", mac="02:00:00:00:00:01")
    >>> h2 = RelayHost(name="h2", netns_pid=72, device="eth1", address="198.19.0.2/16", mac="02:00:00:00:00:02")
    >>> links = {("h1", "h2"): Link(rate_bps=10e6, delay_s=0.02)}
    >>> config = RelayConfig(hosts=(h1, h2), links=links, seed=7, report_path="relay.json", control_path="relay.sock")
    >>> RelayConfig.from_json(config.to_json()) == config
    True

    ``seed`` fixes which segments are lost, delayed and reordered. ``control_path``: where it takes changes, as a Unix
    datagram socket (``relay.control``); None: it takes none.
    """

    hosts: tuple[RelayHost, ...]
    links: Mapping[Pair, Link]
    bottlenecks: tuple[Bottleneck, ...] = ()
    seed: int
    report_path: str
    control_path: str | None = None

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise EmulationError(f"relay: {problem}")

    def to_json(self) -> str:
        return json.dumps(
            msgspec.to_builtins(dataclasses.replace(self, links={})) | links_to_json(self.links, self.bottlenecks)
        )

    @classmethod
    def from_json(cls, text: str) -> RelayConfig:
        """Raises: EmulationError when ``text`` is not what ``to_json`` writes."""
        try:
            raw = json.loads(text)
            links = links_from_json(raw.pop("links"))
            return dataclasses.replace(typed.convert(raw | {"links": {}}, cls), links=links)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise EmulationError(f"relay: its configuration is unreadable ({error!r}); pass to_json()") from error


def link_problems(pair: Pair, link: Link, names: set[str]) -> list[str]:
    """What is wrong with ``link`` between two of the hosts ``names``, each with its remedy."""
    found = [f"{name} is not a host; name one of the hosts" for name in pair if name not in names]
    if pair[0] == pair[1]:
        found.append("a host has no link to itself; remove it")
    if link.rate_bps is not None and not _number(link.rate_bps, least=sys.float_info.min):
        found.append(f"rate_bps is {link.rate_bps}; give a positive number, or null for unlimited")
    delays = (("delay_s", link.delay_s), ("jitter_s", link.jitter_s))
    found += [f"{name} is {value}; give 0 or more" for name, value in delays if not _number(value)]
    shares = (("loss", link.loss), ("reorder", link.reorder))
    found += [f"{name} is {value}; give a fraction, 0 to 1" for name, value in shares if not _number(value, most=1)]
    if link.burst is not None:
        for name, value in dataclasses.asdict(link.burst).items():
            if not _number(value, most=1) or (name == "bad_to_good" and not value):
                found.append(f"burst.{name} is {value}; give a fraction, 0 to 1, bad_to_good above 0")
        if link.loss:
            found.append(f"loss is {link.loss} beside burst; give one of the two")
    down: object = link.down  # from JSON it may be anything
    if not isinstance(down, bool):
        found.append(f"down is {down}; give true or false")
    return found + _queue_problems(link.queue_bytes)


def _problems(config: RelayConfig) -> Iterator[str]:
    """What is wrong with ``config``, each with its remedy."""
    for what in ("name", "mac", "address"):
        values = [getattr(host, what) for host in config.hosts]
        yield from (f"two hosts with the {what} {v}; give each its own" for v in set(values) if values.count(v) > 1)
    for host in config.hosts:
        if not _MAC.fullmatch(host.mac) or int(host.mac[:2], 16) & 1:
            yield f"{host.name}: {host.mac} is no unicast MAC address; write it as 02:00:00:00:00:0b"
    names = {host.name for host in config.hosts}
    for pair, link in config.links.items():
        yield from (f"{pair[0]} -> {pair[1]}: {problem}" for problem in link_problems(pair, link, names))
    shared: set[Pair] = set()
    for number, one in enumerate(config.bottlenecks):
        found = [
            f"{name} is not a host; name one of the hosts" for pair in one.links for name in pair if name not in names
        ]
        found += rate_problems(one.rate_bps) + _queue_problems(one.queue_bytes)
        if one.name in {other.name for other in config.bottlenecks[:number]}:
            found.append("there are two of this name; give each its own")
        for src, dst in one.links:
            if (src, dst) in shared:
                found.append(f"{src} -> {dst} is in it, and elsewhere; leave it in one")
            shared.add((src, dst))
        yield from (f"bottleneck {one.name}: {problem}" for problem in found)


def rate_problems(rate_bps: object) -> list[str]:
    """What is wrong with the rate of a bottleneck, with its remedy."""
    return [] if _number(rate_bps, least=sys.float_info.min) else [f"rate_bps is {rate_bps}; give a positive number"]


def _queue_problems(queue_bytes: object) -> list[str]:
    if queue_bytes is None or _number(queue_bytes, least=FULL_FRAME_BYTES):
        return []
    return [f"queue_bytes is {queue_bytes}; give at least one full frame, {FULL_FRAME_BYTES}"]


def _number(value: object, *, least: float = 0.0, most: float = sys.float_info.max) -> bool:
    """Whether it is a number (no NaN, no infinity) from ``least`` to ``most``."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
