"""TCP settings of every host: what the scenario asks for, as sysctls of the host's own network, and what came of it.

Buffers may grow to at least 16 MiB, twice the bandwidth-delay product of 670 Mbit/s over 100 ms of round trip.

A congestion control that the machine does not let unprivileged users choose (``tcp_allowed_congestion_control``) cannot
become the default of another network namespace than the machine's own. It can still be set on a route: so the route
to the other hosts names it, once the data device is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Interface
from pathlib import Path

from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds.this_machine.addresses import DATA_DEVICE

LEAST_BUFFER_BYTES = 16 * 2**20
CONGESTION_CONTROL = "net/ipv4/tcp_congestion_control"
_BUFFERS = ("net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem")
_QUIET = ("net/ipv6/conf/all/disable_ipv6", "net/ipv6/conf/default/disable_ipv6")


def sysctls(tcp: Tcp, root: Path = Path("/proc/sys")) -> dict[str, str]:
    """Path under /proc/sys -> value for a host. ``root`` says how large the machine's own buffers may grow.

    IPv6 is off: what it announces would travel on emulated links and be counted.
    """
    settings = {key: _grown((root / key).read_text(encoding="ascii")) for key in _BUFFERS}
    settings["net/ipv4/tcp_slow_start_after_idle"] = str(int(tcp.slow_start_after_idle))
    settings[CONGESTION_CONTROL] = tcp.congestion_control
    return settings | dict.fromkeys(_QUIET, "1")


def refused(asked: Mapping[str, str], in_force: Mapping[str, str]) -> dict[str, str]:
    """What is not as ``asked``: path under /proc/sys -> value in force. A machine without IPv6 is as quiet as asked."""
    return {
        key: in_force.get(key, "absent")
        for key, value in asked.items()
        if in_force.get(key, "absent").split() != value.split()
        and not (key in _QUIET and in_force.get(key, "absent") == "absent")
    }


def limitation(host: str, key: str, asked: str, in_force: str) -> str:
    """One sentence on a setting that could not be honoured."""
    return f"host {host}: {key.replace('/', '.')} was requested to be {asked}, this machine left it at {in_force}"


def known(congestion_control: str, root: Path = Path("/proc/sys")) -> bool:
    """Whether this machine has ``congestion_control`` at all."""
    available = root / "net/ipv4/tcp_available_congestion_control"
    return congestion_control in available.read_text(encoding="ascii").split()


def route_change(address: IPv4Interface, congestion_control: str) -> list[str]:
    """`ip` arguments that make ``congestion_control`` the one of everything that ``address`` sends to other hosts."""
    # As the kernel wrote the route when the address was added: "change" finds it by these, and keeps them.
    route = ["route", "change", str(address.network), "dev", DATA_DEVICE, "proto", "kernel", "scope", "link"]
    return [*route, "src", str(address.ip), "congctl", congestion_control]


def _grown(buffer: str) -> str:
    least, default, most = map(int, buffer.split())
    return f"{least} {default} {max(most, LEAST_BUFFER_BYTES)}"  # a machine tuned for more keeps that
