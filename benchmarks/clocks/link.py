"""A link of this machine that takes longer one way than back: UDP datagrams, each forwarded after its way's delay.

It runs before all other processes if it may (as root): a link does not wait for a host's cores.
"""

from __future__ import annotations

import heapq
import os
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from typing import Any

_AWAKE_S = 300e-6  # before a datagram is due: to wake takes longer at times than a link may be late


@contextmanager
def slow(port: int, there_s: float, back_s: float) -> Iterator[int]:
    """A port of loopback whose datagrams reach ``port`` after ``there_s``, and answers come back after ``back_s``."""
    context = get_context("fork")
    inside, outside = context.Pipe()
    process = context.Process(target=_forward, args=(port, there_s, back_s, inside), daemon=True)
    process.start()
    try:
        yield outside.recv()
    finally:
        process.terminate()
        process.join()


def _forward(port: int, there_s: float, back_s: float, told: Any) -> None:
    """Forwards for one who asks, until it is ended."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    near, far = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    near.bind(("127.0.0.1", 0))
    far.connect(("127.0.0.1", port))
    told.send(near.getsockname()[1])
    asking: Any = None
    due: list[tuple[float, bool, bytes]] = []
    with selectors.SelectSelector() as selector:  # epoll waits by whole milliseconds
        for each in (near, far):
            selector.register(each, selectors.EVENT_READ)
        while True:
            ready = selector.select(max(0.0, due[0][0] - time.monotonic() - _AWAKE_S) if due else None)
            now_s = time.monotonic()
            for key, _ in ready:
                if key.fileobj is near:
                    datagram, asking = near.recvfrom(64)
                    heapq.heappush(due, (now_s + there_s, True, datagram))
                else:
                    heapq.heappush(due, (now_s + back_s, False, far.recv(64)))
            while due and due[0][0] <= time.monotonic():
                _, is_question, datagram = heapq.heappop(due)
                if is_question:
                    far.send(datagram)
                else:
                    near.sendto(datagram, asking)
