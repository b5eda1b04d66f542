"""TCP sockets as training wants them: no delay for small messages, and an error within seconds when a peer vanishes.

Buffers are left to the kernel's autotuning: a fixed one below the bandwidth-delay product costs most of a link's rate.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass

UNACKNOWLEDGED_MS = 20_000  # TCP_USER_TIMEOUT: how long sent bytes may go unacknowledged before the connection fails
_KEEPALIVE_IDLE_S = 5
_KEEPALIVE_INTERVAL_S = 5
_KEEPALIVE_PROBES = 3
_TCP_CONGESTION = getattr(socket, "TCP_CONGESTION", 13)
_TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18)
_NAME_BYTES = 16  # TCP_CA_NAME_MAX of Linux


@dataclass(frozen=True, kw_only=True)
class SocketOptions:
    """What training's connections ask of TCP. ``congestion_control`` None: the host's default."""

    congestion_control: str | None = None
    unacknowledged_ms: int = UNACKNOWLEDGED_MS


def tune(connection: socket.socket, options: SocketOptions) -> str:
    """Set ``connection`` up and return the congestion control in force.

    It may differ from the one asked for, where the kernel lacks that or does not permit it: the caller records it.
    """
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, options.unacknowledged_ms)
    if options.congestion_control is not None:
        with contextlib.suppress(OSError):  # the answer below says what is in force
            connection.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, options.congestion_control.encode())
    name: bytes = connection.getsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, _NAME_BYTES)
    return name.rstrip(b"\0").decode()


def listener(address: str, port: int) -> socket.socket:
    """A non-blocking socket that listens on ``address``; port 0: any free one. Raises: OSError."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(socket.SOMAXCONN)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening
