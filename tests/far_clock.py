"""A reference clock that is far away: datagrams take their time in either direction."""

from __future__ import annotations

import heapq
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LOOKS_EVERY_S = 0.002


@contextmanager
def far_away(port: int, round_trip_s: float) -> Iterator[int]:
    """Another port of 127.0.0.1, which one asker reaches ``port`` at, half of ``round_trip_s`` later."""
    over = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as between:
        between.bind(("127.0.0.1", 0))
        between.settimeout(_LOOKS_EVERY_S)
        thread = threading.Thread(target=_forward, args=(between, port, round_trip_s / 2, over))
        thread.start()
        try:
            yield between.getsockname()[1]
        finally:
            over.set()
            thread.join()


def _forward(between: socket.socket, port: int, way_s: float, over: threading.Event) -> None:
    on_their_way: list[tuple[float, bytes, tuple[str, int]]] = []
    asker = ("127.0.0.1", port)
    while not over.is_set():
        try:
            datagram, sender = between.recvfrom(100)
            if sender[1] != port:
                asker = sender
            receiver = asker if sender[1] == port else ("127.0.0.1", port)
            heapq.heappush(on_their_way, (time.monotonic() + way_s, datagram, receiver))
        except TimeoutError:
            pass
        while on_their_way and on_their_way[0][0] <= time.monotonic():
            _, datagram, receiver = heapq.heappop(on_their_way)
            between.sendto(datagram, receiver)
