"""A link that waits for its receiver or its sender: as real sockets count it, and in a report."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from test_link_kinds import named, trained

from e2c_dl.diagnosis.detection.ends import waited_for
from e2c_dl.diagnosis.model import Part
from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.propagation.connections import LINK_ITERATION, Connections, LinkTraffic

CHUNK, CHUNKS, PAUSE_S = 64_000, 12, 0.02


def traffic(*, iterations: int = 1, busy_ns: float = 0.0, rwnd_ns: float = 0.0, sndbuf_ns: float = 0.0) -> LinkTraffic:
    """Of the link that :func:`test_link_kinds.trained` changes; times are of each iteration."""
    rows = np.zeros(iterations, dtype=LINK_ITERATION)
    rows["iteration"], rows["busy_ns"] = np.arange(iterations), busy_ns
    rows["rwnd_limited_ns"], rows["sndbuf_limited_ns"], rows["segments"] = rwnd_ns, sndbuf_ns, 100
    return LinkTraffic(src=1, dst=2, connections=1, per_iteration=rows, total=rows[:1], is_data=True)


def counted(write_s: float, read_s: float) -> tuple[LinkTraffic, float]:
    """What a real socket's kernel counts while CHUNKS are written and read, each so late; and how long that took."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        with socket.create_connection(listening.getsockname()) as sender, listening.accept()[0] as receiver:
            begun_ns = time.monotonic_ns()
            reading = threading.Thread(target=_read, args=(receiver, read_s))
            reading.start()
            for _ in range(CHUNKS):
                time.sleep(write_s)
                sender.sendall(bytes(CHUNK))
            reading.join()
            told = tcp_info.decode(sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, tcp_info.LENGTH))
            took_ns = float(time.monotonic_ns() - begun_ns)
    busy, rwnd, sndbuf = (1e3 * (told[name] or 0) for name in ("busy_us", "rwnd_limited_us", "sndbuf_limited_us"))
    return traffic(busy_ns=busy, rwnd_ns=rwnd, sndbuf_ns=sndbuf), took_ns


def _read(receiver: socket.socket, pause_s: float) -> None:
    left = CHUNK * CHUNKS
    while left:
        time.sleep(pause_s)
        left -= len(receiver.recv(min(left, CHUNK), socket.MSG_WAITALL))


@pytest.mark.parametrize(("write_s", "read_s", "part"), [(0.0, PAUSE_S, Part.RECEIVER), (PAUSE_S, 0.0, Part.SENDER)])
def test_kernels_tell_whose_program_is_slow(write_s: float, read_s: float, part: Part) -> None:
    told, took_ns = counted(write_s, read_s)
    assert waited_for(told, np.arange(1), took_ns) is part


@pytest.mark.parametrize(
    ("told", "part"),
    [
        ({"busy_ns": 1e9}, Part.RATE),
        ({"busy_ns": 1e9, "rwnd_ns": 0.8e9}, Part.RECEIVER),
        ({"busy_ns": 1e9, "sndbuf_ns": 0.8e9}, Part.SENDER),
        ({"busy_ns": 1e6}, Part.SENDER),
    ],
)
def test_a_slow_link_is_told_from_slow_ends(told: dict[str, float], part: Part) -> None:
    run = trained(rate_bps=16e6)
    connections = Connections(links=(traffic(iterations=25, **told),))
    culprit = named(run, replace(run.trace, connections=connections))
    assert (culprit.element.src, culprit.element.dst, culprit.part) == ("edge-2", "edge-3", part)


def test_nobody_tells_where_no_socket_was_looked_at() -> None:
    assert waited_for(None, np.arange(3), 1e9) is None
