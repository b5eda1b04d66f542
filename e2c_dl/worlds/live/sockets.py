"""TCP sockets as training wants them: no delay for small messages, a short queue in the kernel, an error within seconds
when a peer vanishes.

Buffers are left to the kernel's autotuning: a fixed one below the bandwidth-delay product costs most of a link's rate.
What the kernel holds but has not sent yet is another matter: nothing can overtake it. So that part is kept to a few
milliseconds of what the link delivers (:class:`SegmentPace`). What lies on the way, up to the congestion window, in the
queue of the slowest hop, cannot be overtaken either: that is the network's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass

from e2c_dl.trace.propagation import tcp_info
from e2c_dl.worlds.giving_up import GIVE_UP_S

UNACKNOWLEDGED_MS = round(GIVE_UP_S * 1000)  # TCP_USER_TIMEOUT: how long sent bytes may go unacknowledged
_KEEPALIVE_PROBES = 3
_TCP_CONGESTION = getattr(socket, "TCP_CONGESTION", 13)  # Linux' numbers, where Python was built without the names
_TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18)
_TCP_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25)
_NAME_BYTES = 16  # TCP_CA_NAME_MAX of Linux

SMALLEST_BYTES, LARGEST_BYTES = 1 << 14, 1 << 22  # a frame's header is 0.4 % of the smallest
FIRST_BYTES = 1 << 16  # until something was delivered
_HORIZON_S = 0.005  # what an urgent message waits behind what the kernel holds unsent


@dataclass(frozen=True, kw_only=True)
class SocketOptions:
    """What training's connections ask of TCP. ``congestion_control`` None: the host's default."""

    congestion_control: str | None = None
    unacknowledged_ms: int = UNACKNOWLEDGED_MS


def tune(connection: socket.socket, options: SocketOptions) -> str:
    """Set ``connection`` up and return the congestion control in force.

    It may differ from the one asked for, where the kernel lacks that or does not permit it: the caller records it.
    An idle peer is asked for a sign of life often enough to be found gone within ``unacknowledged_ms``, too.
    """
    probe_s = max(1, options.unacknowledged_ms // 1000 // (_KEEPALIVE_PROBES + 1))
    connection.setblocking(False)  # the event loop's sock_ functions need it
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # Nagle holds small messages back for an ACK
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # an idle link has no bytes to time out
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, probe_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, probe_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, options.unacknowledged_ms)  # by default some 15 min
    if options.congestion_control is not None:
        with contextlib.suppress(OSError):  # the answer below says what is in force
            connection.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, options.congestion_control.encode())
    name: bytes = connection.getsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, _NAME_BYTES)
    return name.rstrip(b"\0").decode()


def buffers(connection: socket.socket) -> dict[str, int]:
    """Bytes of memory that the kernel grants to ``connection`` at this moment, by direction; autotuning changes it."""
    return {
        "send_bytes": connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
        "receive_bytes": connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
    }


class SegmentPace:
    """How much of a message is handed to the kernel at once: what ``connection`` delivers in 5 ms, 16 KiB to 4 MiB.

    The kernel's queue of unsent bytes is kept as short.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.segment_bytes = 0
        self._set(FIRST_BYTES)

    def update(self) -> None:
        """Ask the kernel what was delivered lately. Raises: OSError if the connection is gone."""
        told = told_of(self._connection)
        rate = tcp_info.field(told, "delivery_rate_bytes_per_s")
        if not rate:
            return  # a kernel before 4.9 does not tell: the first size stays
        app_limited = (tcp_info.field(told, "rate_is_limited_by_sender") or 0) & 1
        wanted = paced_bytes(rate)
        # an app-limited rate says what was tried, not what the link can: it raises the size and never lowers it
        if (wanted > self.segment_bytes or not app_limited) and wanted != self.segment_bytes:
            self._set(wanted)

    def _set(self, size_bytes: int) -> None:
        self.segment_bytes = size_bytes
        self._connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, size_bytes)


def told_of(connection: socket.socket) -> bytes:
    """TCP_INFO of ``connection``. Raises: OSError, if it is gone."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, tcp_info.LENGTH)


def paced_bytes(rate_bytes_per_s: float) -> int:
    """What flows in 5 ms at this rate, as a power of two, 16 KiB to 4 MiB."""
    power = 1 << max(0, int(rate_bytes_per_s * _HORIZON_S).bit_length() - 1)
    return min(max(power, SMALLEST_BYTES), LARGEST_BYTES)


def listener(address: str, port: int) -> socket.socket:
    """A non-blocking socket that listens on ``address``; port 0: any free one. Raises: OSError."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of the last run may be in TIME_WAIT
    try:
        listening.bind((address, port))
        listening.listen(socket.SOMAXCONN)  # all ranks connect at the same time
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


async def readable(connection: socket.socket) -> None:
    """Return when ``connection`` has as much as its SO_RCVLOWAT asks for, or has ended."""
    loop = asyncio.get_running_loop()
    await _ready(connection.fileno(), loop.add_reader, loop.remove_reader)


async def writable(connection: socket.socket) -> None:
    """Return when the kernel has room for more, or the connection has ended."""
    loop = asyncio.get_running_loop()
    await _ready(connection.fileno(), loop.add_writer, loop.remove_writer)


async def exactly(connection: socket.socket, count: int) -> bytes:
    """The next ``count`` bytes. Raises: EOFError if the connection ends before; OSError."""
    content = bytearray(count)
    room = memoryview(content)
    while room:
        received = await asyncio.get_running_loop().sock_recv_into(connection, room)
        if not received:
            raise EOFError("it closed the connection")
        room = room[received:]
    return bytes(content)


def close_soon(connection: socket.socket) -> None:
    """Close ``connection`` once the tasks that were just cancelled have taken its number out of the event loop."""
    asyncio.get_running_loop().call_soon(connection.close)


async def _ready(descriptor: int, add: Callable[..., object], remove: Callable[[int], object]) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    add(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        remove(descriptor)  # also if cancelled: a closed descriptor must not stay in the loop


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():  # cancelled, or called twice before it was removed
        ready.set_result(None)
