"""Hosts inside the machine: network namespaces on one bridge, and one process that can stand in each of them.

::

    h1 eth1 198.19.0.1 ---.
    h2 eth1 198.19.0.2 ----+-- bridge in the machine's own namespace       veth pairs, nothing shaped on the bridge
    h3 eth1 198.19.0.3 ---'

A socket belongs to the namespace in which it was made: one process measures between all hosts, on one clock.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from e2c_dl.emulation import tc
from e2c_dl.emulation.tc import on_host
from e2c_dl.topology import Bottleneck, Host, Link, Pair, Topology

DEVICE = "eth1"
_NEW_NETWORK = 0x40000000
_NETWORKS = Path("/run/netns")


def names(count: int) -> tuple[str, ...]:
    """h1, h2 ..."""
    return tuple(f"h{number}" for number in range(1, count + 1))


def addresses(hosts: Sequence[str]) -> dict[str, str]:
    """host -> its address."""
    return {name: f"198.19.0.{number}" for number, name in enumerate(hosts, 1)}


def topology(hosts: Sequence[str], links: Mapping[Pair, Link], bottlenecks: tuple[Bottleneck, ...] = ()) -> Topology:
    """``links`` between ``hosts``, as a topology."""
    values = tuple(
        Host(name=name, layer="edge", service="Trainer", service_id=name, role=name, rank=rank)
        for rank, name in enumerate(hosts)
    )
    return Topology(hosts=values, links=links, bottlenecks=bottlenecks)


def bring_up(count: int) -> tuple[str, ...]:
    """The names of ``count`` hosts that reach each other; to be called once in a machine."""
    hosts = names(count)
    lines = ["link add bridge type bridge", "link set bridge up"]
    for name in hosts:
        lines += [
            f"netns add {name}",
            f"link add {name} type veth peer name {DEVICE} netns {name}",
            f"link set {name} master bridge up",
        ]
    _ip(lines)
    for name, address in addresses(hosts).items():
        with entered(name):
            _ip([f"address add {address}/16 dev {DEVICE}", f"link set {DEVICE} up", "link set lo up"])
    return hosts


def entered(name: str) -> AbstractContextManager[None]:
    """Within, this thread and what it starts stand in host ``name``."""
    return network(_NETWORKS / name)


@contextmanager
def network(namespace: Path) -> Iterator[None]:
    """Within, this thread and what it starts stand in that network namespace, a file."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        other = os.open(namespace, os.O_RDONLY)
        try:
            _enter(other)
            yield
        finally:
            os.close(other)
            _enter(own)
    finally:
        os.close(own)


def shape(asked: Topology) -> None:
    """All hosts of ``asked`` as tc has them: this project's commands, checked. Raises: EmulationError."""
    reached = addresses(asked.names)
    for name in asked.names:
        with entered(name):
            on_host.put_in_force(DEVICE, tc.commands(asked, name, DEVICE, reached))


def unshape(asked: Topology) -> None:
    """Nothing is shaped any more. Raises: EmulationError."""
    for name in asked.names:
        with entered(name):
            on_host.clear(DEVICE)


def _enter(network: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "cannot enter the namespace")


def _ip(lines: Sequence[str]) -> None:
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)
