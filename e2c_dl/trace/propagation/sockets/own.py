"""The TCP connections of this process, whatever library opened them: found by descriptor, read without owning one.

::

    rescan   /proc/self/fd -> sockets -> established TCP ones           some 0.05 ms where none is new, else 0.2 ms
    read     getsockopt of TCP_INFO and SO_COOKIE, kept as they are     2 us each; some times that where caches are cold

No descriptor is duplicated: the library's close() would then not say goodbye to its peer. Numbers are borrowed, and
given back without closing. A number that the library closed may soon be another connection's, which its cookie tells:
it is asked for together with the counters, and whoever decodes them knows whose they are.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass

from e2c_dl.trace.propagation.samples import Connection, normalised
from e2c_dl.trace.propagation.tcp_info import LENGTH

MOST = 4096  # connections that are looked at: a process with more is no rank
_SO_COOKIE = 57
_TCP, _TCP_INFO, _SOL_SOCKET = socket.IPPROTO_TCP, socket.TCP_INFO, socket.SOL_SOCKET
_ESTABLISHED, _LISTENS = 1, 10
_COOKIE = struct.Struct("=Q")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_UNREADY = -1  # in place of the inode of what may become a connection
MOVED = slice(120, 176)
"""Of TCP_INFO bytes, segments, delivery rate, busy time: no segment leaves or comes without a change of these."""
_BYTES = struct.Struct("=QQ")  # of MOVED: acknowledged, received

Told = tuple[bytes, int, bytes]
"""(cookie, as the kernel gives it; family; TCP_INFO) of a connection."""


class _Borrowed(socket.socket):
    """A socket whose descriptor belongs to someone else, and stays as it is."""

    def __init__(self, descriptor: int) -> None:
        # Called non-blocking, so that no default timeout makes it so; AF_INET6: has room for either kind of address.
        super().__init__(socket.AF_INET6, socket.SOCK_STREAM | socket.SOCK_NONBLOCK, fileno=descriptor)

    def told(self, option: int) -> int:
        """What it is, whatever was said above: one of SO_DOMAIN, SO_TYPE, SO_PROTOCOL."""
        return self.getsockopt(socket.SOL_SOCKET, option)

    def __del__(self) -> None:
        self.detach()  # in place of closing


@dataclass
class _Known:
    """A connection that was found under some descriptor."""

    inode: int
    socket: _Borrowed | None  # None: no TCP connection
    family: int = 0
    cookie: int = 0

    @property
    def reads(self) -> tuple[Callable[..., bytes], int]:
        """Its getsockopt, and its family."""
        assert self.socket is not None
        return self.socket.getsockopt, self.family


class OwnSockets:
    """Connections of the process that made it, for one thread at a time. ``local``: only those of that address."""

    def __init__(self, local: str | None = None) -> None:
        self._local = None if local is None else normalised(local)
        self._known: dict[int, _Known] = {}  # by descriptor
        self._seen: dict[int, int] = {}  # inode -> descriptor, of the newest rescan
        self._unready = False  # one of them was no connection yet
        self._open: tuple[tuple[Callable[..., bytes], int], ...] = ()  # of connections: getsockopt, family
        self._large: tuple[tuple[Callable[..., bytes], int], ...] = ()  # of those that are not small
        self._small: Collection[int] = ()

    def rescan(self) -> list[Connection]:
        """Look for connections that are new, and return them."""
        try:
            seen = _sockets()
        except OSError:  # no descriptor is free just now: what was seen last is still there, as far as anybody knows
            return []
        if seen == self._seen and not self._unready:
            return []
        new = []
        found: dict[int, _Known] = {}
        for inode, descriptor in seen.items():
            known = self._known.get(descriptor)
            if known is None or known.inode != inode:
                known, connection = self._look_at(descriptor, inode)
                new += [] if connection is None else [connection]
            found[descriptor] = known
            if len(found) == MOST:
                break
        self._seen, self._known = seen, found
        self._unready = any(known.inode == _UNREADY for known in found.values())
        self._choose()
        return new

    def _look_at(self, descriptor: int, inode: int) -> tuple[_Known, Connection | None]:
        known, connection = _look_at(descriptor, inode)
        if connection is not None and self._local not in (None, connection.local[0]):
            return _Known(inode=inode, socket=None), None
        return known, connection

    def small(self, cookies: Collection[int]) -> None:
        """These are left out where an iteration ends."""
        self._small = cookies
        self._choose()

    def _choose(self) -> None:
        opened = [known for known in self._known.values() if known.socket is not None]
        self._open = tuple(known.reads for known in opened)
        self._large = tuple(known.reads for known in opened if known.cookie not in self._small)

    def read(self, *, ends: bool = False) -> list[Told]:
        """What every connection tells that is still there; ``ends``: but for small ones."""
        told = []
        for getsockopt, family in self._large if ends else self._open:
            try:
                raw = getsockopt(_TCP, _TCP_INFO, LENGTH)
                told.append((getsockopt(_SOL_SOCKET, _SO_COOKIE, 8), family, raw))
            except OSError:  # closed, or its number is no connection's any more: the next rescan forgets it
                continue
        return told


def cookie_of(told: bytes) -> int:
    """The number that is a connection's cookie."""
    return int(_COOKIE.unpack(told)[0])


def moved_bytes(moved: bytes) -> int:
    """Bytes that its connection has carried, either way, of the part MOVED; 0 where the kernel does not tell."""
    return sum(_BYTES.unpack_from(moved)) if len(moved) >= _BYTES.size else 0


def _sockets() -> dict[int, int]:
    """Inode -> descriptor, of each socket of this process; one of those that the program has of it."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        try:
            told = os.fstat(descriptor)
        except OSError:  # closed meanwhile, as the one that lists is
            continue
        if stat.S_ISSOCK(told.st_mode):
            found.setdefault(told.st_ino, descriptor)
    return found


def _look_at(descriptor: int, inode: int) -> tuple[_Known, Connection | None]:
    """What ``descriptor`` is, and between whom, if it is an established TCP connection.

    One that is not yet is looked at again at the next rescan, by another inode than its own.
    """
    try:
        borrowed = _Borrowed(descriptor)
        family = borrowed.told(socket.SO_DOMAIN)
        if family not in _FAMILIES or borrowed.told(socket.SO_PROTOCOL) != socket.IPPROTO_TCP:
            return _Known(inode=inode, socket=None), None
        state = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        if state == _LISTENS:
            return _Known(inode=inode, socket=None), None
        if state != _ESTABLISHED:
            return _Known(inode=_UNREADY, socket=None), None
        cookie = _cookie(borrowed)
        (local, local_port), (remote, remote_port) = borrowed.getsockname()[:2], borrowed.getpeername()[:2]
    except OSError:
        return _Known(inode=_UNREADY, socket=None), None
    connection = Connection(
        cookie=cookie, local=(normalised(local), local_port), remote=(normalised(remote), remote_port)
    )
    return _Known(inode=inode, socket=borrowed, family=family, cookie=cookie), connection


def _cookie(seen: socket.socket) -> int:
    return cookie_of(seen.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, _COOKIE.size))
