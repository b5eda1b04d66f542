"""Addresses of this host's interfaces, IPv4 and IPv6, and which host of its run that makes it."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Collection, Mapping
from pathlib import Path

from e2c_dl.trace import attaching

TRAINING_DEVICES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE", "TP_SOCKET_IFNAME")
"""Variables by which a launcher names the devices of the network that training uses, with commas between."""

_SIOCGIFADDR = 0x8915
_NAME = struct.Struct("256s")
_ADDRESS = slice(20, 24)  # in struct ifreq: behind the name and the family and port of a sockaddr_in


def own_addresses(inet6: Path = Path("/proc/net/if_inet6")) -> tuple[str, ...]:
    """The first IPv4 address of each, and every IPv6 address, as text, loopback too; sorted."""
    return tuple(sorted({address for addresses in _by_device(inet6).values() for address in addresses}))


def training_addresses(environment: Mapping[str, str], inet6: Path = Path("/proc/net/if_inet6")) -> tuple[str, ...]:
    """Those of own_addresses at which ``environment`` has collective libraries train, as far as it names devices."""
    said = [name for variable in TRAINING_DEVICES for name in environment.get(variable, "").split(",")]
    named = {name.removeprefix("=") for name in said}  # NCCL's sign for: this one, and none that only begins so
    found = (addresses for device, addresses in _by_device(inet6).items() if device in named)
    return tuple(sorted(address for addresses in found for address in addresses))


def _by_device(inet6: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for _, name in socket.if_nameindex()}
    if inet6.exists():  # not where IPv6 is switched off
        for line in inet6.read_text().splitlines():
            address, *_, name = line.split()
            found.setdefault(name, set()).add(str(ipaddress.IPv6Address(bytes.fromhex(address))))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for name, addresses in found.items():
            try:
                answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, _NAME.pack(name.encode()[:15]))
            except OSError:  # it has no IPv4 address
                continue
            addresses.add(socket.inet_ntoa(answer[_ADDRESS]))
    return found


def placed_at(addresses: Collection[str]) -> attaching.Placed | None:
    """The host that has ``addresses``, as the environment's table of the run's hosts calls it; None: it has none."""
    return attaching.found(os.environ.get(attaching.HOSTS, ""), addresses)
