"""Two ends of a connection within one process."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def connected(family: int = socket.AF_INET, at: str = "127.0.0.1") -> Iterator[tuple[socket.socket, socket.socket]]:
    with ExitStack() as opened:
        listening = opened.enter_context(socket.create_server((at, 0), family=family))
        first = opened.enter_context(socket.create_connection(listening.getsockname()[:2], source_address=(at, 0)))
        yield first, opened.enter_context(listening.accept()[0])


def send(pair: tuple[socket.socket, socket.socket], count: int) -> None:
    pair[0].sendall(bytes(count))
    pair[1].recv(count, socket.MSG_WAITALL)


def cookie(opened: socket.socket) -> int:
    return int(struct.unpack("=Q", opened.getsockopt(socket.SOL_SOCKET, 57, 8))[0])
