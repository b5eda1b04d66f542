"""Datagrams of the clock exchange: what is asked and answered, and when the kernel says that it arrived.

::

    asked      #1 ----.   #2 ----.   #3 ...          a question every 0.2 s, or as soon as the newest one is answered;
    answered          '--> #1    '--> #2             an answer completes its own question, however late it comes
"""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from e2c_dl.trace.clocks.alignment import Exchange

QUESTION = struct.Struct("!QQ8x")  # the server's token; a random number, by which an answer is known
GOODBYE = struct.Struct("!QQ")  # the token; who asks no more. It is not answered
ANSWER = struct.Struct("!Qqq")  # the same number, received, sent
ANSWER_WITHIN_S = 0.2
"""After which another question is asked: the first, or its answer, may be lost."""
_ARRIVAL = struct.Struct("@qq")  # struct timespec
_TIMESTAMP = getattr(socket, "SO_TIMESTAMPNS", 35)  # of Linux; no Python before 3.14 names it
_MOST_LATE_NS = 1_000_000_000  # a datagram that seems to have waited longer met a step of the machine's clock

Clock = Callable[[], int]


class Questions:
    """Those that were asked by ``asking``, which is connected to the server of ``token``; ``clock`` is one's own."""

    def __init__(self, asking: socket.socket, token: int, clock: Clock) -> None:
        self._asking, self._token, self._clock = asking, token, clock
        self._asked_ns: dict[int, int] = {}  # number -> when, of those without an answer
        self._newest: int | None = None
        self._due_s = 0.0

    def exchange(self, until_s: float) -> Exchange | None:
        """One more exchange; None: no answer came by now, which may be before ``until_s``, when all is over.

        Raises: ConnectionRefusedError, if nobody listens (yet, or any more).
        """
        now_s = time.monotonic()
        if now_s >= self._due_s or self._newest is None:
            self._ask()
            self._due_s = now_s + ANSWER_WITHIN_S
        try:
            self._asking.settimeout(max(1e-3, min(self._due_s, until_s) - now_s))
            return self._completed(*receive(self._asking, self._clock)[:2])
        except TimeoutError:
            return None

    def _ask(self) -> None:
        self._newest = secrets.randbits(64)
        self._asked_ns[self._newest] = self._clock()
        self._asking.send(QUESTION.pack(self._token, self._newest))

    def _completed(self, answer: bytes, answered_ns: int) -> Exchange | None:
        if len(answer) != ANSWER.size:
            return None
        number, received_ns, sent_ns = ANSWER.unpack(answer)
        asked_ns = self._asked_ns.pop(number, None)
        if number == self._newest:
            self._newest = None
        if asked_ns is None:
            return None
        ways_ns = (answered_ns - asked_ns) - (sent_ns - received_ns)
        if answered_ns < asked_ns or ways_ns < 0:  # a clock was set meanwhile
            return None
        offset_ns = (received_ns - asked_ns + sent_ns - answered_ns) // 2
        return Exchange(offset_ns=offset_ns, at_ns=(asked_ns + answered_ns) // 2, uncertainty_ns=(ways_ns + 1) // 2)


def opened(address: str, port: int) -> socket.socket:
    """A UDP socket of the family of ``address``, whose datagrams the kernel stamps. Raises: OSError."""
    family = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0][0]
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, _TIMESTAMP, 1)
    return made


def receive(receiving: socket.socket, clock: Clock) -> tuple[bytes, int, Any]:
    """(datagram, when it had arrived on ``clock``, sender). Raises: OSError."""
    datagram, said, _, sender = receiving.recvmsg(64, socket.CMSG_SPACE(_ARRIVAL.size))
    wall_ns, now_ns = time.time_ns(), clock()  # in this order: what passes between them only widens the bound
    for level, kind, value in said:
        if (level, kind, len(value)) == (socket.SOL_SOCKET, _TIMESTAMP, _ARRIVAL.size):
            seconds, part_ns = _ARRIVAL.unpack(value)
            late_ns = wall_ns - seconds * 1_000_000_000 - part_ns
            if 0 <= late_ns <= _MOST_LATE_NS:
                now_ns -= late_ns
    return datagram, now_ns, sender


def send(sending: socket.socket, answer: bytes, receiver: Any) -> None:
    """``answer`` is on its way, or lost: who asked is gone, or cannot be reached, and asks again if not."""
    try:
        sending.sendto(answer, receiver)
    except OSError:
        return
