"""The address by which training reaches a host under plain E2Clab: that of its device in the reserved network.

EnOSlib asks every host for its devices, and knows for each address which reserved network it is in, if any::

    docker0   172.17.0.1    in none           Docker's own, the same on every host
    eno1      172.16.96.3   my_rennes_network  <- this one
    ib0       10.0.0.3      in none           not reserved: nobody says that others reach it
    eno2      10.16.61.3    a monitoring VLAN  reserved, and not what the host is called by

Of several that are in reserved networks it is the one that the host is reached by, as a private network for monitoring
is beside the first, not instead of it.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from e2c_dl.errors import TestbedError


class TrainingAddress(NamedTuple):
    """Where one host trains."""

    device: str
    address: str


def of_host(host: Any, resolve: Callable[[str], frozenset[str]] | None = None) -> TrainingAddress:
    """The device and IPv4 address of EnOSlib's ``host`` in the network that was reserved.

    Where none of its addresses is in one, what the host is reached by. ``resolve``: name -> its addresses, as this
    machine knows them. Raises: TestbedError if it has none of both, or devices in several networks, none of which is
    what it is reached by.
    """
    reserved, others = _addresses(host)
    reached = (resolve or _resolved)(str(host.address))
    called = [each for each in reserved or others if each.address in reached]  # others: only where none is reserved
    if called:
        return called[0]
    if len({each.device for each in reserved}) == 1:
        return reserved[0]
    known = ", ".join(f"{each.device} {each.address}" for each in (*reserved, *others)) or "no IPv4 address"
    problem = "several are in reserved networks" if reserved else "none is in a reserved network"
    raise TestbedError(
        f"{host.address}: has {known}: {problem}, and none is what its name stands for here; "
        "give it a name or address of the device that training is to use"
    )


def _addresses(host: Any) -> tuple[list[TrainingAddress], list[TrainingAddress]]:
    """IPv4 addresses in reserved networks, and those in none, by device, then by number."""
    found = sorted(
        (str(device.name), address.ip.ip, address.network is not None)
        for device in host.net_devices
        for address in device.addresses
        # IPv4 alone: links are shaped by IPv4 destination, and workers listen on one such address
        if address.ip is not None and address.ip.version == 4 and not address.ip.is_loopback
    )
    reserved = [TrainingAddress(device, str(ip)) for device, ip, known in found if known]
    return reserved, [TrainingAddress(device, str(ip)) for device, ip, known in found if not known]


def _resolved(name: str) -> frozenset[str]:
    """IPv4 addresses of a name, or the address that it is already; none where nobody knows it."""
    try:
        return frozenset({str(ipaddress.IPv4Address(name))})
    except ValueError:
        pass
    try:
        return frozenset(str(found[4][0]) for found in socket.getaddrinfo(name, None, socket.AF_INET))
    except OSError:
        return frozenset()
