"""The TCP connections of other processes of this host, asked of the kernel: inet_diag, over netlink.

::

    /proc/PID/fd -> socket:[inode]           which sockets are a process's
    SOCK_DIAG_BY_FAMILY, dump, TCP           all connections of this network namespace, with TCP_INFO: 1 to 2 ms

For libraries that leave their messages to another process. The processes must be of the same network namespace and user
as the one that asks, which may also be root. Layout: ``include/uapi/linux/inet_diag.h``.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from e2c_dl.errors import TrainingError
from e2c_dl.trace.propagation.samples import Connection, normalised
from e2c_dl.trace.propagation.sockets.own import Told
from e2c_dl.trace.propagation.tcp_info import LENGTH

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST, NLM_F_ROOT, NLM_F_MATCH
_ERROR, _DONE = 2, 3
_HEAD = struct.Struct("=IHHII")  # length, type, flags, number, port
_ASK = struct.Struct("=BBBxI48x")  # family, protocol, extensions, states; of any addresses
_ANSWER = struct.Struct("=BBxx")  # family, state; then the addresses
_ENDS = struct.Struct("!HH16s16s")
_COOKIE = struct.Struct("=4xII")  # behind the ends: interface, cookie
_INODE_AT = 68
_ANSWER_BYTES = 72
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_INFO = 2  # INET_DIAG_INFO
_ESTABLISHED = 1
_PIECE_BYTES = 1 << 18
_WITHIN_S = 2.0


@dataclass(frozen=True)
class _Told:
    """One connection, as the kernel tells it."""

    connection: Connection
    family: int
    inode: int
    raw: bytes


class ProcessSockets:
    """Connections of the processes ``pids``, for one thread at a time. Raises: TrainingError, if the kernel refuses."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._inodes: frozenset[int] = frozenset()
        self._known: set[int] = set()  # cookies
        _all_connections()  # now rather than while training runs

    def rescan(self) -> list[Connection]:
        """Look for connections that are new, and return them. A process that has ended has none."""
        self._inodes = frozenset(inode for pid in self._pids for inode in _inodes(pid))
        new = [told.connection for told in self._own() if told.connection.cookie not in self._known]
        self._known.update(connection.cookie for connection in new)
        return new

    def small(self, cookies: Collection[int]) -> None:
        """The kernel tells all of them at once, small ones or not."""

    def read(self, *, ends: bool = False) -> list[Told]:
        """What every connection tells that is still there."""
        return [(told.connection.cookie.to_bytes(8, sys.byteorder), told.family, told.raw) for told in self._own()]

    def _own(self) -> Iterator[_Told]:
        try:
            return (told for told in _all_connections() if told.inode in self._inodes)
        except TrainingError:  # no descriptor is free just now, or the kernel is late: the next look tells the sum
            return iter(())


def _inodes(pid: int) -> Iterator[int]:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:  # it has ended, or is another user's
        return
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            yield int(target[len("socket:[") : -1])


def _all_connections() -> list[_Told]:
    """Every established TCP connection of this network namespace. Raises: TrainingError."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(_WITHIN_S)
            return [told for family in (socket.AF_INET, socket.AF_INET6) for told in _dump(kernel, family)]
    except OSError as error:
        raise TrainingError(
            f"inet_diag: the kernel does not tell other processes' connections: {error}; modprobe tcp_diag"
        ) from error


def _dump(kernel: socket.socket, family: int) -> Iterator[_Told]:
    ask = _ASK.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 1 << _ESTABLISHED)
    kernel.send(_HEAD.pack(_HEAD.size + len(ask), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, family, 0) + ask)
    while True:
        piece, at = kernel.recv(_PIECE_BYTES), 0
        while at + _HEAD.size <= len(piece):
            length, kind, _, _, _ = _HEAD.unpack_from(piece, at)
            if kind == _DONE:
                return
            if kind == _ERROR or length < _HEAD.size:
                raise OSError(-int(struct.unpack_from("=i", piece, at + _HEAD.size)[0]), "it refuses")
            told = _told(piece[at + _HEAD.size : at + length])
            if told is not None:
                yield told
            at += (length + 3) & ~3


def _told(answer: bytes) -> _Told | None:
    """None: without TCP_INFO."""
    family, _ = _ANSWER.unpack_from(answer)
    src_port, dst_port, src, dst = _ENDS.unpack_from(answer, _ANSWER.size)
    low, high = _COOKIE.unpack_from(answer, _ANSWER.size + _ENDS.size)
    at = _ANSWER_BYTES
    while at + _ATTRIBUTE.size <= len(answer):
        length, kind = _ATTRIBUTE.unpack_from(answer, at)
        if kind == _INFO:
            ends = [(_address(family, one), port) for one, port in ((src, src_port), (dst, dst_port))]
            connection = Connection(cookie=high << 32 | low, local=ends[0], remote=ends[1])
            (inode,) = struct.unpack_from("=I", answer, _INODE_AT)
            return _Told(connection, family, inode, answer[at + _ATTRIBUTE.size : at + length][:LENGTH])
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return None


def _address(family: int, packed: bytes) -> str:
    return normalised(socket.inet_ntop(family, packed[:4] if family == socket.AF_INET else packed))
