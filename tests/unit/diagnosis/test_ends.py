"""A link that waits for its receiver or its sender: as real sockets count it, and in a report."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from test_link_kinds import named, trained

from e2c_dl.diagnosis.detection.links.ends import end_of, waited_for
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.trace.messages import MESSAGE
from e2c_dl.trace.model import Phase
from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.propagation.connections import LINK_ITERATION, Connections, LinkTraffic

CHUNK, CHUNKS, PAUSE_S = 64_000, 12, 0.02


def traffic(*, iterations: int = 1, busy_ns: float = 0.0, rwnd_ns: float = 0.0, sndbuf_ns: float = 0.0) -> LinkTraffic:
    """Of the link that :func:`test_link_kinds.trained` changes; times are of each iteration."""
    rows = np.zeros(iterations, dtype=LINK_ITERATION)
    rows["iteration"], rows["busy_ns"] = np.arange(iterations), busy_ns
    rows["rwnd_limited_ns"], rows["sndbuf_limited_ns"], rows["segments"] = rwnd_ns, sndbuf_ns, 100
    return LinkTraffic(src=1, dst=2, connections=1, per_iteration=rows, total=rows[:1], is_data=True)


def counted(write_s: float, read_s: float, messages: int = 1) -> tuple[LinkTraffic, float, float]:
    """What a real socket's kernel counts of messages that are written and read chunk by chunk, each so late.

    With it how long they took, and how long they were being written; each is read before the next is begun.
    """
    took_ns = wrote_ns = 0.0
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        with socket.create_connection(listening.getsockname()) as sender, listening.accept()[0] as receiver:
            size = CHUNK // messages
            reading = threading.Thread(target=_read, args=(receiver, read_s, size, CHUNKS // messages))
            reading.start()
            for _ in range(messages):
                begun_ns = time.monotonic_ns()
                for _ in range(CHUNKS // messages):
                    time.sleep(write_s)
                    sender.sendall(bytes(size))
                wrote_ns += time.monotonic_ns() - begun_ns
                sender.recv(1)
                took_ns += time.monotonic_ns() - begun_ns
            sender.shutdown(socket.SHUT_WR)
            reading.join()
            told = tcp_info.decode(sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, tcp_info.LENGTH))
    busy, rwnd, sndbuf = (1e3 * (told[name] or 0) for name in ("busy_us", "rwnd_limited_us", "sndbuf_limited_us"))
    return traffic(busy_ns=busy, rwnd_ns=rwnd, sndbuf_ns=sndbuf), took_ns, wrote_ns


def _read(receiver: socket.socket, pause_s: float, size: int, chunks: int) -> None:
    """Chunk by chunk, until there are no more; a byte back for each message."""
    while True:
        for _ in range(chunks):
            time.sleep(pause_s)
            if not receiver.recv(size, socket.MSG_WAITALL):
                return
        receiver.sendall(b"r")


@pytest.mark.parametrize(
    ("write_s", "read_s", "messages", "part"),
    [
        (0.0, PAUSE_S, 1, Part.RECEIVER),  # the window is full
        (PAUSE_S, 0.0, 1, Part.SENDER),
        (0.0, 8 * PAUSE_S, 6, Part.RECEIVER),  # each lies in the receiver's buffer, all of it, and was acknowledged
    ],
)
def test_kernels_tell_whose_program_is_slow(write_s: float, read_s: float, messages: int, part: Part) -> None:
    told, took_ns, wrote_ns = counted(write_s, read_s, messages)
    assert waited_for(told.per_iteration, took_ns, wrote_ns) is part


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
    iterations = run.spans(1, Phase.ITERATION)
    looked_at = traffic(iterations=len(iterations), **told)
    for name in ("start_ns", "end_ns"):
        looked_at.per_iteration[name] = iterations[name]
    connections = Connections(links=(looked_at,))
    culprit = named(run, replace(run.trace, connections=connections))
    assert (culprit.element.src, culprit.element.dst, culprit.part) == ("edge-2", "edge-3", part)


def test_nobody_tells_where_no_socket_was_looked_at() -> None:
    run = trained(rate_bps=16e6)
    assert named(run, replace(run.trace, connections=Connections(links=()))).part is Part.RATE


def test_sockets_are_asked_of_the_iteration_in_which_a_message_travels_too() -> None:
    rows = np.zeros(4, dtype=MESSAGE)
    rows["iteration"], rows["nbytes"] = np.arange(4), 1_000_000
    rows["send_start_ns"] = rows["send_end_ns"] = np.arange(1, 5) * 10**9 - 1  # at the very end of its iteration
    rows["recv_start_ns"] = rows["recv_end_ns"] = rows["send_start_ns"] + 9 * 10**8
    told = traffic(iterations=5)
    told.per_iteration["start_ns"] = np.arange(5) * 10**9
    told.per_iteration["end_ns"] = told.per_iteration["start_ns"] + 10**9
    told.per_iteration["busy_ns"][3] = 9e8  # of the third message, which alone departs
    one = ObservedLink(
        src="edge-2", dst="edge-3", rows=rows, designed=Designed(own=Piecewise.constant(1e9)), began_ns=0,
        uncertainty_ns=0, first_iteration=0, traffic=told,
    )  # fmt: skip
    assert end_of(one, rows["iteration"] == 2) is None
    assert end_of(one, rows["iteration"] == 1) is Part.RECEIVER  # written at once, and nothing of it was on its way
    told.per_iteration["end_ns"][-1] = 4 * 10**9  # its rank's own are over: a server goes on
    late = replace(one, rows=np.append(rows, rows[1:2]))
    late.rows["send_start_ns"][4:] += 10 * 10**9
    late.rows["send_end_ns"][4:], late.rows["recv_end_ns"][4:] = 12 * 10**9 - 1, 12 * 10**9 + 9 * 10**8 - 1
    assert end_of(late, np.arange(5) == 4) is None  # though they were of an iteration in which nothing was on its way
