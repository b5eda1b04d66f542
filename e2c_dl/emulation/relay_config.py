"""What a relay is told: hosts to connect and the quality of the links between them, to and from JSON.

The topology's links say what is asked; ``RelayConfig.of`` puts them together with where the hosts are.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from e2c_dl.emulation.frames import FULL_FRAME_BYTES
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Topology

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class RelayHost:
    """One host and the interface that the relay makes in its network namespace."""

    name: str
    netns_pid: int  # a process in that namespace
    device: str  # eth1
    address: str  # 198.19.0.11/16
    mac: str  # 02:00:00:00:00:0b


@dataclass(frozen=True, kw_only=True)
class RelayLink:
    """One directed link. A pair of hosts without one is not shaped."""

    src: str
    dst: str
    rate_bps: float | None  # of Ethernet frames, headers included; None: unlimited
    delay_s: float  # one way
    loss: float  # fraction of segments
    limit_bytes: int | None = None  # of the queue; None: shaping.queue_bytes


@dataclass(frozen=True, kw_only=True)
class RelayConfig:
    """Everything that a relay process needs to know. ``seed`` fixes which segments are lost."""

    hosts: tuple[RelayHost, ...]
    links: tuple[RelayLink, ...]
    seed: int
    report_path: str

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise EmulationError(f"relay: {problem}")

    @classmethod
    def of(cls, topology: Topology, hosts: Sequence[RelayHost], *, seed: int, report_path: str) -> RelayConfig:
        """The configuration that gives ``hosts`` the links of ``topology``."""
        links = tuple(
            RelayLink(src=src, dst=dst, rate_bps=link.rate_bps, delay_s=link.delay_s, loss=link.loss)
            for (src, dst), link in sorted(topology.links.items())
        )
        return cls(hosts=tuple(hosts), links=links, seed=seed, report_path=report_path)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RelayConfig:
        """Raises: EmulationError when ``text`` is not what ``to_json`` writes."""
        try:
            raw = json.loads(text)
        except ValueError as error:
            raise EmulationError(f"relay: its configuration is not JSON ({error}); pass to_json()") from error
        values = _checked_keys(cls, raw)
        values["hosts"] = tuple(RelayHost(**_checked_keys(RelayHost, host)) for host in values["hosts"])
        values["links"] = tuple(RelayLink(**_checked_keys(RelayLink, link)) for link in values["links"])
        return cls(**values)


def _checked_keys(kind: type[_T], raw: object) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise EmulationError(f"relay: a {kind.__name__} is a JSON object, not {raw!r}; pass RelayConfig.to_json()")
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    required = {field.name for field in fields if field.default is dataclasses.MISSING}
    if wrong := (required - raw.keys()) | (raw.keys() - {field.name for field in fields}):
        raise EmulationError(
            f"relay: {kind.__name__} has missing or unknown keys {', '.join(sorted(wrong))}; pass RelayConfig.to_json()"
        )
    return dict(raw)


def _problems(config: RelayConfig) -> list[str]:
    """What is wrong with ``config``, each with its remedy."""
    found: list[str] = []
    for what in ("name", "mac", "address"):
        values = [getattr(host, what) for host in config.hosts]
        found += [f"two hosts with the {what} {v}; give each its own" for v in set(values) if values.count(v) > 1]
    for host in config.hosts:
        if not _MAC.fullmatch(host.mac) or int(host.mac[:2], 16) & 1:
            found.append(f"{host.name}: {host.mac} is no unicast MAC address; write it as 02:00:00:00:00:0b")
    names = {host.name for host in config.hosts}
    pairs: set[tuple[str, str]] = set()
    for link in config.links:
        found += [f"{link.src} -> {link.dst}: {problem}" for problem in _link_problems(link, names)]
        if (link.src, link.dst) in pairs:
            found.append(f"{link.src} -> {link.dst} is given twice; merge the two")
        pairs.add((link.src, link.dst))
    return found


def _link_problems(link: RelayLink, names: set[str]) -> list[str]:
    found = [f"{name} is not a host; name one of the hosts" for name in (link.src, link.dst) if name not in names]
    if link.src == link.dst:
        found.append("a host has no link to itself; remove it")
    if link.rate_bps is not None and not 0 < link.rate_bps < float("inf"):
        found.append(f"rate_bps is {link.rate_bps}; give a positive number, or null for unlimited")
    if not 0 <= link.delay_s < float("inf"):
        found.append(f"delay_s is {link.delay_s}; give 0 or more")
    if not 0 <= link.loss <= 1:
        found.append(f"loss is {link.loss}; give a fraction, 0 to 1")
    if link.limit_bytes is not None and link.limit_bytes < FULL_FRAME_BYTES:
        found.append(f"limit_bytes is {link.limit_bytes}; give at least one full frame, {FULL_FRAME_BYTES}")
    return found
