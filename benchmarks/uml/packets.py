"""Numbered datagrams between hosts of the machine, sent and received by one process on one clock.

The kernel stamps what arrives, so that it does not matter when this process comes to read it: datagrams are sent first
and read afterwards. What the receiving socket cannot hold would be taken for lost: it holds :data:`HOLDS_BYTES`.
"""

from __future__ import annotations

import socket
import statistics
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.uml import hosts

IN_A_ROW = 10
HEADERS_BYTES = 42  # Ethernet, IP, UDP
HOLDS_BYTES = 64 * 2**20
_NUMBER = struct.Struct("=Q")
_STAMP = struct.Struct("=qq")
_STAMPED = 35  # SO_TIMESTAMPNS
_BUFFER_FORCED = 33  # SO_RCVBUFFORCE


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One flow: when each datagram was sent, and (number, when it arrived) in the order of arrival, in seconds."""

    sent_s: tuple[float, ...]
    arrived: tuple[tuple[int, float], ...]
    frame_bytes: int

    @property
    def loss(self) -> float:
        return 1 - len(self.arrived) / len(self.sent_s)

    @property
    def delays_s(self) -> list[float]:
        """One-way delays, in the order of sending."""
        return [when - self.sent_s[number] for number, when in sorted(self.arrived)]

    @property
    def rate_bps(self) -> float:
        """Of frames on the wire, see :func:`rate_bps`."""
        return rate_bps([when for _, when in self.arrived], self.frame_bytes)

    @property
    def overtakers(self) -> int:
        """Datagrams that arrived before one that was sent earlier."""
        count, earliest = 0, len(self.sent_s)
        for number, _ in reversed(self.arrived):
            count += number > earliest
            earliest = min(earliest, number)
        return count

    @property
    def loss_runs(self) -> list[int]:
        """Lengths of the runs of datagrams lost in a row."""
        there = {number for number, _ in self.arrived}
        runs = [0]
        for number in range(len(self.sent_s)):
            if number in there:
                runs.append(0)
            else:
                runs[-1] += 1
        return [run for run in runs if run]


def rate_bps(times_s: Sequence[float], frame_bytes: int) -> float:
    """Of frames that arrived back to back: the median over IN_A_ROW of them.

    The mean would hold the stalls of a machine that shares its processor against the link.
    """
    spans_s = [later - sooner for sooner, later in zip(times_s, times_s[IN_A_ROW:], strict=False)]
    return IN_A_ROW * frame_bytes * 8 / statistics.median(spans_s)


class Flow:
    """Datagrams from one host to another; made while both are up, closed by ``with``."""

    def __init__(self, src: str, dst: str, all_hosts: Sequence[str]) -> None:
        reached = hosts.addresses(all_hosts)
        with hosts.entered(dst):
            self._receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._receiver.setsockopt(socket.SOL_SOCKET, _BUFFER_FORCED, HOLDS_BYTES)
        self._receiver.setsockopt(socket.SOL_SOCKET, _STAMPED, 1)
        self._receiver.bind((reached[dst], 0))
        with hosts.entered(src):
            self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HOLDS_BYTES)
        self._sender.connect(self._receiver.getsockname())
        self._sent_s: list[float] = []
        self._payload_bytes = 0

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, *_: object) -> None:
        self._sender.close()
        self._receiver.close()

    def send(self, payload_bytes: int = 1472) -> None:
        """One datagram, at once; waits while the sending socket is full."""
        self._payload_bytes = payload_bytes
        body = _NUMBER.pack(len(self._sent_s)).ljust(payload_bytes, b"\0")
        self._sent_s.append(time.time())
        self._sender.send(body)

    def send_many(self, count: int, gap_s: float = 0.0, payload_bytes: int = 1472) -> None:
        """``count`` datagrams, ``gap_s`` apart."""
        due_s = time.monotonic()
        for _ in range(count):
            self.send(payload_bytes)
            due_s += gap_s
            time.sleep(max(0.0, due_s - time.monotonic()))

    def seen(self, quiet_s: float = 0.3) -> Seen:
        """Everything that has arrived by ``quiet_s`` after the last of it."""
        self._receiver.settimeout(quiet_s)
        arrived = []
        while True:
            try:
                body, said, _, _ = self._receiver.recvmsg(64, 64)
            except TimeoutError:
                break
            seconds, nanoseconds = _STAMP.unpack(said[0][2])
            arrived.append((_NUMBER.unpack_from(body)[0], seconds + nanoseconds / 1e9))
        return Seen(sent_s=tuple(self._sent_s), arrived=tuple(arrived), frame_bytes=self._payload_bytes + HEADERS_BYTES)
