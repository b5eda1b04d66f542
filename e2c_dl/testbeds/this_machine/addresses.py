"""Addresses and devices of the hosts of a local run: computed, so that nobody has to be asked.

::

    management  198.18.SLOT.0/24   .1 the machine itself, .10 + i host i; never shaped; one slot per run
    data        198.19.0.0/16      .0.10 + i host i; the same in every run: it exists only inside namespaces

Both are of the range that RFC 2544 keeps for measuring networks. A device's hardware address follows from its address.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from e2c_dl.errors import TestbedError

MANAGEMENT_DEVICE = "eth0"
DATA_DEVICE = "eth1"
DATA_NETWORK = IPv4Network("198.19.0.0/16")
MOST_HOSTS = 240  # .10 to .249 of a /24
_MANAGEMENT = IPv4Network("198.18.0.0/16")
_FIRST_HOST = 10
_ROUTES = Path("/proc/net/route")


def management_network(slot: int) -> IPv4Network:
    """198.18.SLOT.0/24."""
    return IPv4Network((int(_MANAGEMENT.network_address) + (slot << 8), 24))


def gateway(slot: int) -> IPv4Interface:
    """The machine's own address in the run's management network, with its prefix."""
    network = management_network(slot)
    return IPv4Interface((network.network_address + 1, network.prefixlen))


def management_address(slot: int, index: int) -> IPv4Interface:
    """Host ``index``'s management address, with its prefix."""
    network = management_network(slot)
    return IPv4Interface((network.network_address + _FIRST_HOST + index, network.prefixlen))


def data_address(index: int) -> IPv4Interface:
    """Host ``index``'s data address, with its prefix."""
    return IPv4Interface((DATA_NETWORK.network_address + _FIRST_HOST + index, DATA_NETWORK.prefixlen))


def mac(address: IPv4Address | str) -> str:
    """The hardware address of the device that has ``address``: 02:00 (locally administered), then the address."""
    return ":".join(f"{byte:02x}" for byte in b"\x02\x00" + IPv4Address(address).packed)


def uplink(run_id: str) -> str:
    """The one device of a run in the machine's own network namespace."""
    return f"e2c-{run_id}"  # 12 of the 15 characters that a device's name may have


def free_slot(taken: Collection[int], routes: Path = _ROUTES) -> int:
    """The lowest slot that no run has and no device of this machine uses. Raises: TestbedError if there is none."""
    used = routed_networks(routes.read_text(encoding="ascii"))
    for slot in range(1, 255):
        network = management_network(slot)
        # Routes too: RFC 2544's range is anybody's. A wider one is no obstacle: the run's own is more specific.
        if slot not in taken and not any(other.subnet_of(network) for other in used):
            return slot
    raise TestbedError(
        f"no free network in {_MANAGEMENT}: every /24 of it is in use; end other runs with `e2c-dl destroy`"
    )


def routed_networks(table: str) -> tuple[IPv4Network, ...]:
    """The destinations in ``table``, which reads like /proc/net/route (addresses in hexadecimal, bytes reversed)."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return tuple(IPv4Network((_reversed(row[1]), str(_reversed(row[7])))) for row in rows if len(row) > 7)


def _reversed(word: str) -> IPv4Address:
    return IPv4Address(bytes.fromhex(word)[::-1])
