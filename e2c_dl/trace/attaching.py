"""Tracing as it is asked of a training script: variables below E2CDL_ that reach every process of its run.

A run over several hosts has one environment, its launcher's: what differs from host to host stands in a table by
address, ``HOSTS``, in which each rank finds its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

TRACE = "E2CDL_TRACE"
"""The folder on this host below which its ranks leave their traces."""
DIRECTORY = "E2CDL_DIRECTORY"
"""Where the traced command was begun: its script may go elsewhere."""
LAYER = "E2CDL_LAYER"
CAP = "E2CDL_TRACE_CAP"
"""Bytes that the file of a rank may have; unless said otherwise what a reader takes."""
HOSTS = "E2CDL_HOSTS"
"""ADDRESS=NAME/LAYER of each host, with commas between; see :func:`found`."""


class Placed(NamedTuple):
    """A host as its scenario calls it."""

    name: str
    layer: str


def table(hosts: Iterable[tuple[str, Placed]]) -> str:
    """The value of HOSTS. ``hosts``: (address, host).

    >>> table([("10.0.0.1", Placed("edge-1", "edge")), ("10.0.0.2", Placed("fog-1", "fog"))])
    '10.0.0.1=edge-1/edge,10.0.0.2=fog-1/fog'
    """
    return ",".join(f"{address}={host.name}/{host.layer}" for address, host in hosts)


def found(said: str, addresses: Collection[str]) -> Placed | None:
    """The host that has one of ``addresses``, by the table ``said``; None if none has, or it is no such table."""
    for entry in said.split(","):
        address, equals, host = entry.partition("=")
        name, slash, layer = host.partition("/")
        if equals and slash and name and address in addresses:
            return Placed(name, layer)
    return None
