"""Addresses of this host's interfaces, IPv4 and IPv6, and which host of its run that makes it."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Collection
from pathlib import Path

from e2c_dl.trace import attaching

_SIOCGIFADDR = 0x8915
_NAME = struct.Struct("256s")
_ADDRESS = slice(20, 24)  # in struct ifreq: behind the name and the family and port of a sockaddr_in


def own_addresses(inet6: Path = Path("/proc/net/if_inet6")) -> tuple[str, ...]:
    """The first IPv4 address of each, and every IPv6 address, as text, loopback too; sorted."""
    found = set()
    if inet6.exists():  # not where IPv6 is switched off
        found = {str(ipaddress.IPv6Address(bytes.fromhex(line.split()[0]))) for line in inet6.read_text().splitlines()}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, _NAME.pack(name.encode()[:15]))
            except OSError:  # it has no IPv4 address
                continue
            found.add(socket.inet_ntoa(answer[_ADDRESS]))
    return tuple(sorted(found))


def placed_at(addresses: Collection[str]) -> attaching.Placed | None:
    """The host that has ``addresses``, as the environment's table of the run's hosts calls it; None: it has none."""
    return attaching.found(os.environ.get(attaching.HOSTS, ""), addresses)
