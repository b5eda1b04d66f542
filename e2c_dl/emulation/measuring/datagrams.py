"""The datagrams that measure a link, and the sockets that carry them.

::

    magic "e2cP" | kind | train | number | value        21 bytes, network order, then padding

    PING  number n                     PONG  number n, value: ns from its arrival to its answer
    DATA  frame number n of a train    value: when it was sent, ns of the sender's real-time clock
    END   number: how many were sent   RESULT  the same number, then TrainResult
          value: head start in ns

Arrival times are the kernel's, so that a busy machine's late wake-ups do not count as the network's; datagrams that did
not fit into the socket's buffer are known by number (SO_RXQ_OVFL) and count as arrived.
"""

from __future__ import annotations

import socket
import struct
from enum import IntEnum
from typing import NamedTuple

# asm-generic/socket.h: not in the socket module
_SO_RCVBUFFORCE, _SO_TIMESTAMPNS, _SO_RXQ_OVFL = 33, 35, 40
_BUFFER_BYTES = 4 * 1024 * 1024
_ANCILLARY_BYTES = socket.CMSG_SPACE(16) + socket.CMSG_SPACE(4)

OVERHEAD_BYTES = 42
"""Ethernet, IPv4 and UDP headers around a datagram's payload."""

HEADER = struct.Struct("!4sBIIq")
PING_FRAME_BYTES = HEADER.size + OVERHEAD_BYTES
_MAGIC = b"e2cP"
_MOST_NS = 1 << 62  # of a value: differences of times of day and clocks are told in 64 bits


class PacketKind(IntEnum):
    """What a probe is for: the picture is the module's."""

    PING = 1
    PONG = 2
    DATA = 3
    END = 4
    RESULT = 5


class Packet(NamedTuple):
    """One probe. ``body`` is what follows the header."""

    kind: PacketKind
    train: int
    number: int
    value: int
    body: bytes = b""

    def encode(self, payload_bytes: int = 0) -> bytes:
        """The datagram, padded with zeros to ``payload_bytes``."""
        header = HEADER.pack(_MAGIC, self.kind, self.train, self.number, self.value)
        return (header + self.body).ljust(payload_bytes, b"\0")

    @classmethod
    def decode(cls, datagram: bytes) -> Packet | None:
        """None if ``datagram`` is none of ours: anyone can send to an open port."""
        if len(datagram) < HEADER.size:
            return None
        magic, kind, train, number, value = HEADER.unpack_from(datagram)
        if magic != _MAGIC or kind not in PacketKind._value2member_map_ or abs(value) > _MOST_NS:
            return None
        return cls(PacketKind(kind), train, number, value, datagram[HEADER.size :])


class Arrival(NamedTuple):
    """A datagram and when the kernel got it (its real-time clock), from whom, and how many overflowed so far."""

    datagram: bytes
    at_ns: int
    sender: tuple[str, int]
    overflowed: int


def open_socket(address: str, port: int) -> socket.socket:
    """A non-blocking UDP socket on ``address`` that tells arrival times. Raises: OSError."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        try:
            opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)  # beyond net.core.rmem_max
        except PermissionError:  # not root: as large as is allowed; what overflows is counted
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        opened.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
        opened.bind((address, port))
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return opened


def receive(opened: socket.socket) -> Arrival | None:
    """The next datagram; None if there is none now."""
    try:
        datagram, ancillary, _, sender = opened.recvmsg(2048, _ANCILLARY_BYTES)  # more than a full frame
    except BlockingIOError:
        return None
    at_ns = overflowed = 0
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("@qq", data[:16])
            at_ns = seconds * 1_000_000_000 + nanoseconds
        elif level == socket.SOL_SOCKET and kind == _SO_RXQ_OVFL:
            overflowed = struct.unpack("@I", data[:4])[0]
    return Arrival(datagram, at_ns, sender, overflowed)
