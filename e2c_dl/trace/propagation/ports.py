"""Counters of a host's ports: bytes that left it and came to it by any way, those past TCP too.

::

    /sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data   units of 4 octets; the adapter's: RDMA, IP over it
    /proc/self/net/dev   eth0: ...                                 octets; the kernel's: all programs, all protocols

    port sent  |==================================|
    TCP        |=========|                          of all connections of the host's ranks, since they were opened
    rest                  |=======================| at least: sent past TCP, or by other programs

No port says for whom it sent, so that all TCP of the host's ranks is taken from each. Of a network device's own RDMA
(RoCE) the kernel knows nothing: that stands with the adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from e2c_dl.trace.model import Phase, Trace

MOST_PORTS = 64
"""Of each kind, by name: a server of containers has a device for each of them, and each look costs."""
OTHERS_SHARE = 0.25
"""Of what a host's ranks moved: less on a network device may be anybody's."""
RDMA_SHARE = 0.02
"""The same of RDMA ports, by which few programs send."""

_DEVICES, _ADAPTERS = "proc/self/net/dev", "sys/class/infiniband"
_OCTETS = 4  # in a unit of an adapter's counters
_STANDS = 2**32 - 1  # where a counter of 32 bits stops
_LEAST_BYTES = 1e6  # logins and monitors send less in a short run
_T = TypeVar("_T")


class PortCount(msgspec.Struct, frozen=True):
    """Bytes by one port while it was looked at."""

    sent_bytes: int = 0
    received_bytes: int = 0


class PortFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a host's ports counted from ``since_ns`` to ``until_ns``, on its own clock; port -> bytes.

    ``unknown``: port -> why its counters do not tell.
    """

    since_ns: int
    until_ns: int
    rdma: dict[str, PortCount] = {}
    network: dict[str, PortCount] = {}
    unknown: dict[str, str] = {}


class PortTally:
    """Adds up what the ports below ``root`` count, from its first :meth:`look` on."""

    def __init__(self, clock: Callable[[], int], root: Path = Path("/")) -> None:
        self._root, self._clock = root, clock
        self._since_ns: int | None = None
        self._last: dict[str, PortCount] = {}
        self._sums: dict[str, PortCount] = {}

    def look(self) -> PortFacts:
        """All that was counted until now. Never raises; takes some 0.3 ms, and per RDMA port what its driver does."""
        now_ns = self._clock()
        self._since_ns = now_ns if self._since_ns is None else self._since_ns
        unknown: dict[str, str] = {}
        network, rdma = _network(self._root, unknown), _rdma(self._root, unknown)
        for name, count in (network | rdma).items():
            before, so_far = self._last.get(name, count), self._sums.get(name, PortCount())
            self._sums[name] = PortCount(
                so_far.sent_bytes + _rise(before.sent_bytes, count.sent_bytes),
                so_far.received_bytes + _rise(before.received_bytes, count.received_bytes),
            )
            self._last[name] = count
        return PortFacts(
            since_ns=self._since_ns, until_ns=now_ns, unknown=unknown,
            rdma={name: self._sums[name] for name in rdma}, network={name: self._sums[name] for name in network},
        )  # fmt: skip


def past_tcp(trace: Trace, machines: Mapping[str, str], counted: Mapping[str, PortFacts]) -> list[str]:
    """A sentence on each machine whose ports sent more than its ranks' connections, or do not tell.

    By host of the trace: ``machines``, equal where hosts share one, and what its ports ``counted``.
    """
    found: list[str] = []
    if len(trace.ranks) < 2:  # it has nobody to send to
        return found
    for machine in sorted({machines[host] for host in counted}):
        ranks = [rank for rank in trace.ranks if machines.get(rank.host) == machine]
        told = [counted[rank.host] for rank in ranks if rank.host in counted]
        sent = sum(trace.connections.wire_bytes.get(rank.rank, np.nan) for rank in ranks)
        moved = max(sent, float(sum(rank.of(Phase.COLLECTIVE)["nbytes"].sum() for rank in ranks)))
        rdma, network = (_most(each.rdma for each in told), _most(each.network for each in told))
        if np.isfinite(sent):  # else nobody looked at its sockets, or its kernel does not tell what left by them
            found += _about_rdma(machine, rdma, sent, max(RDMA_SHARE * moved, _LEAST_BYTES))
            found += _about_network(machine, network, sent, max(OTHERS_SHARE * moved, _LEAST_BYTES))
        unknown = dict(sorted((name, why) for each in told for name, why in each.unknown.items()))
        found += [f"{machine}: what left by {name} is unknown: {why}" for name, why in unknown.items()]
    return found


def _about_rdma(machine: str, rdma: Mapping[str, PortCount], tcp_bytes: float, least: float) -> list[str]:
    sent = sum(count.sent_bytes for count in rdma.values())
    if sent - tcp_bytes < least:
        return []
    each = _listed({name: count.sent_bytes for name, count in rdma.items() if count.sent_bytes})
    return [
        f"{machine}: {each} left by its RDMA ports, {_mb(tcp_bytes)} by all TCP connections of its ranks: at least "
        f"{_mb(sent - tcp_bytes)} went past TCP, and to whom is unknown"
    ]


def _about_network(machine: str, network: Mapping[str, PortCount], tcp_bytes: float, least: float) -> list[str]:
    beyond = {name: count.sent_bytes for name, count in network.items() if count.sent_bytes - tcp_bytes >= least}
    if not beyond:
        return []
    return [
        f"{machine}: {_listed(beyond)} left by its network devices, {_mb(tcp_bytes)} by all TCP connections of its "
        "ranks: the rest is other programs', or of other protocols than TCP"
    ]


def _listed(sent_bytes: Mapping[str, int]) -> str:
    return ", ".join(f"{_mb(nbytes)} by {name}" for name, nbytes in sorted(sent_bytes.items()))


def _mb(nbytes: float) -> str:
    return f"{nbytes / 1e6:.1f} MB"


def _most(of_ranks: Iterable[Mapping[str, PortCount]]) -> dict[str, PortCount]:
    """Of each port what the rank saw that looked at it longest: the ports are the machine's."""
    found: dict[str, PortCount] = {}
    for ports in of_ranks:
        for name, count in ports.items():
            if name not in found or count.sent_bytes > found[name].sent_bytes:
                found[name] = count
    return found


def _rise(before: int, now: int) -> int:
    """By how much a counter rose; one that somebody has set to 0 meanwhile, by what it has counted since."""
    return now - before if now >= before else now


def _network(root: Path, unknown: dict[str, str]) -> dict[str, PortCount]:
    """Of the devices of this process's network namespace, but for the loopback."""
    try:
        lines = (root / _DEVICES).read_text().splitlines()[2:]  # behind two of titles
        columns = {name.strip(): told.split() for name, _, told in (line.rpartition(":") for line in lines)}
        counts = {name: PortCount(int(told[8]), int(told[0])) for name, told in columns.items() if name != "lo"}
    except (OSError, ValueError, IndexError) as error:
        unknown["its network devices"] = str(error)
        return {}
    return _first(counts, unknown, "network devices")


def _rdma(root: Path, unknown: dict[str, str]) -> dict[str, PortCount]:
    """Of the RDMA adapters' ports."""
    folders = {f"{place.parent.parent.name}/{place.name}": place for place in (root / _ADAPTERS).glob("*/ports/*")}
    found = {}
    for name, place in _first(folders, unknown, "RDMA ports").items():
        try:
            found[name] = PortCount(_octets(place, "port_xmit_data"), _octets(place, "port_rcv_data"))
        except (OSError, ValueError) as error:
            unknown[name] = str(error)
    return found


def _octets(port: Path, counter: str) -> int:
    """Raises: OSError, ValueError, if it does not tell."""
    counted = int((port / "counters" / counter).read_text())
    if counted == _STANDS:
        raise ValueError(f"its counter {counter} has 32 bits and stands at its end; set it to 0 (perfquery -R)")
    return _OCTETS * counted


def _first(ports: Mapping[str, _T], unknown: dict[str, str], kind: str) -> dict[str, _T]:
    """The first MOST_PORTS by name."""
    kept = sorted(ports)[:MOST_PORTS]
    if len(kept) < len(ports):
        unknown[f"{len(ports) - len(kept)} more {kind}"] = f"no more than {MOST_PORTS} are looked at"
    return {name: ports[name] for name in kept}
