"""The clock exchange: how far one's clock stands from the reference's, by asking it again and again over UDP.

::

    own clock   asked |------------------------------| answered    offset = (received - asked + sent - answered) / 2
                       \\                            /                within half of what the two ways took
    reference           `--- received -- sent -----'

Whatever the two ways take, the true offset lies within the uncertainty. Arrivals are the kernel's, put on each side's
own clock: a program that is busy delays neither. Question and answer have one size, so that a slow line takes equally
long for both, and nobody is answered more than was asked. What follows from many: :mod:`e2c_dl.trace.clocks.alignment`.
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from e2c_dl import codec
from e2c_dl.atomic_write import whole
from e2c_dl.beneath import Place
from e2c_dl.errors import ArchiveError, TrainingError
from e2c_dl.trace.clocks.alignment import Alignment, Exchange, telling
from e2c_dl.trace.model import ClockAlignment

FORMAT = 2  # of clock.json; 1 did not say
ROUNDS = 100
ENOUGH_ROUNDS = 8
FEW_ROUNDS = 4  # of an exchange while training: it shall cost nothing that anyone could measure
EVERY_S = 1.0
"""Between two of those: so long may a step remain unseen."""
GIVE_UP_AFTER_S = 10.0
_FEW_WITHIN_S = 1.0  # a reference that is stopped just now does not answer
_ANSWER_WITHIN_S = 0.2
_WAKES_WITHIN_S = 0.1
LAST_WITHIN_S = 0.5
"""A last exchange takes no longer, nor does the reference wait for those of others: they hold up a script's end."""

_QUESTION = struct.Struct("!QQ8x")  # the server's token; a random number: a late answer is not taken for the next
_GOODBYE = struct.Struct("!QQ")  # the token; who asks no more. It is not answered
_ANSWER = struct.Struct("!Qqq")  # the same number, received, sent
_ARRIVAL = struct.Struct("@qq")  # struct timespec
_TIMESTAMP = getattr(socket, "SO_TIMESTAMPNS", 35)  # of Linux; no Python before 3.14 names it
_MOST_LATE_NS = 1_000_000_000  # a datagram that seems to have waited longer met a step of the machine's clock

Clock = Callable[[], int]


class ClockServer:
    """Tells the time of this host's clock to who knows its ``token``, from a thread of its own, until it is closed.

    Raises: TrainingError, if it cannot listen at ``address``.
    """

    def __init__(self, address: str, clock: Clock = time.monotonic_ns) -> None:
        try:
            self._socket = _socket(address, 0)
            self._socket.bind((address, 0))
        except OSError as error:
            raise TrainingError(
                f"{address}: cannot serve the clock there: {error.strerror or error}; name an address of this host"
            ) from error
        self._clock = clock
        self.token = secrets.randbits(64)  # who asks at a wrong address is not told another clock's time
        self._gone: set[int] = set()
        self._closing = False
        self._going = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="clock", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The UDP port it answers on."""
        port: int = self._socket.getsockname()[1]
        return port

    def wait_for(self, askers: int, within_s: float = LAST_WITHIN_S) -> None:
        """Until so many have said that they ask no more, or for ``within_s``."""
        with self._going:
            self._going.wait_for(lambda: len(self._gone) >= askers, within_s)

    def close(self) -> None:
        self._closing = True
        while self._thread.is_alive():
            with suppress(OSError):  # of one that is not connected it says so, and yet wakes who waits for a datagram
                self._socket.shutdown(socket.SHUT_RD)
            self._thread.join(_WAKES_WITHIN_S)
        self._socket.close()

    def __enter__(self) -> ClockServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        while True:
            question, received_ns, sender = _receive(self._socket, self._clock)
            if self._closing:
                return
            if len(question) == _GOODBYE.size:
                self._note_gone(*_GOODBYE.unpack(question))
            if len(question) != _QUESTION.size:
                continue
            token, number = _QUESTION.unpack(question)
            if token == self.token:
                _send(self._socket, _ANSWER.pack(number, received_ns, self._clock()), sender)

    def _note_gone(self, token: int, asker: int) -> None:
        if token == self.token:
            with self._going:
                self._gone.add(asker)
                self._going.notify_all()


class ReferenceClock:
    """The reference's clock as seen by one who asks it, again and again. Threads ask one after the other."""

    def __init__(self, address: str, port: int, token: int, clock: Clock = time.monotonic_ns) -> None:
        self._address, self._port, self._token, self._clock = address, port, token, clock
        self._seen = Alignment()
        self._least_round_trip_ns: int | None = None
        self._asking = threading.Lock()

    def exchange(self) -> ClockAlignment:
        """The alignment after one more exchange. Raises: TrainingError, if too few answers came."""
        with self._asking:
            self._add(self._ask(ROUNDS, GIVE_UP_AFTER_S, listened=False))
            return self._seen.value()

    def exchange_few(self) -> ClockAlignment:
        """The same as cheaply as while training. The uncertainty holds until the next is due. Raises: TrainingError.

        After a step those before tell nothing of now: then as many are made at once as at first.
        """
        with self._asking:
            seen = self._ask(FEW_ROUNDS, _FEW_WITHIN_S)
            self._add(seen if self._seen.explains(seen) else (*seen, *self._ask(ROUNDS, _FEW_WITHIN_S)))
            return self._seen.value(self._clock() + round(EVERY_S * 1e9))

    def exchange_last(self) -> ClockAlignment:
        """The same as much as can be done in LAST_WITHIN_S; it holds until now, and the server is told that it was all.

        Raises: TrainingError, if too few answers came; at once, if nobody is there any more.
        """
        with self._asking:
            try:
                self._add(self._ask(ROUNDS, LAST_WITHIN_S - _ANSWER_WITHIN_S))
            finally:
                self._say_goodbye()
            return self._seen.value(self._clock())

    def until_now(self) -> ClockAlignment:
        """The alignment as far as it is known, asking nobody; its uncertainty holds up to now."""
        with self._asking:
            return self._seen.value(self._clock())

    @property
    def least_round_trip_ns(self) -> int | None:
        """Of all that were believed; None before the first."""
        return self._least_round_trip_ns

    def _ask(self, rounds: int, within_s: float, *, listened: bool = True) -> tuple[Exchange, ...]:
        where = (self._address, self._port, self._token)
        return exchange(*where, rounds=rounds, clock=self._clock, within_s=within_s, listened=listened)

    def _say_goodbye(self) -> None:
        with suppress(OSError), _socket(self._address, self._port) as asking:  # no network any more: nobody to tell
            _send(asking, _GOODBYE.pack(self._token, secrets.randbits(64)), (self._address, self._port))

    def _add(self, seen: tuple[Exchange, ...]) -> None:
        for each in seen:
            self._seen.add(each)
            round_trip_ns = 2 * each.uncertainty_ns
            self._least_round_trip_ns = min(self._least_round_trip_ns or round_trip_ns, round_trip_ns)


def exchange(
    address: str,
    port: int,
    token: int,
    *,
    rounds: int = ROUNDS,
    clock: Clock = time.monotonic_ns,
    within_s: float = GIVE_UP_AFTER_S,
    listened: bool = False,
) -> tuple[Exchange, ...]:
    """Those of ``rounds`` exchanges with the ClockServer at ``address`` that tell most, one or two, in order of time.

    Blocks for about ``rounds`` round trips. ``listened``: the server was there before, so that where nobody listens it
    has gone, or is not meant, and is not waited for. Raises: TrainingError, if too few answers came.
    """
    answers: list[Exchange] = []
    give_up = time.monotonic() + within_s
    try:
        with _socket(address, port) as asking:
            asking.connect((address, port))
            asking.settimeout(_ANSWER_WITHIN_S)
            while len(answers) < rounds and time.monotonic() < give_up:
                try:
                    answer = _ask(asking, token, clock)
                except ConnectionRefusedError:
                    if listened:
                        break
                    answer = None
                if answer is not None:
                    answers.append(answer)
    except OSError as error:  # no route, no such address
        raise TrainingError(f"{address}:{port}: cannot ask the reference clock there: {error}") from error
    if len(answers) < min(rounds, ENOUGH_ROUNDS):
        raise TrainingError(
            f"{address}:{port}: only {len(answers)} of {rounds} clock exchanges were answered within "
            f"{within_s:.0f} s; let UDP pass between the hosts' management addresses"
        )
    return telling(answers)


def write_alignment(path: Path, alignment: ClockAlignment) -> None:
    """Write ``alignment`` as a JSON object whose keys are the fields of ClockAlignment; never half of one."""
    with whole(path) as place:
        place.write_text(json.dumps({"format": FORMAT, **asdict(alignment)}) + "\n")


def read_alignment(file: Path | Place) -> ClockAlignment:
    """The alignment that :func:`write_alignment` wrote. Raises: ArchiveError for anything else."""
    alignment = codec.read(file, ClockAlignment, FORMAT)
    problem = alignment.problem()
    if problem is not None:
        raise ArchiveError(f"{file}: {problem}; {codec.DAMAGED}")
    return alignment


def _socket(address: str, port: int) -> socket.socket:
    """A UDP socket of the family of ``address``, whose datagrams the kernel stamps. Raises: OSError."""
    family = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0][0]
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, _TIMESTAMP, 1)
    return made


def _receive(receiving: socket.socket, clock: Clock) -> tuple[bytes, int, Any]:
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


def _send(sending: socket.socket, answer: bytes, receiver: Any) -> None:
    """``answer`` is on its way, or lost: who asked is gone, or cannot be reached, and asks again if not."""
    try:
        sending.sendto(answer, receiver)
    except OSError:
        return


def _ask(asking: socket.socket, token: int, clock: Clock) -> Exchange | None:
    """One exchange; None if no answer to it came in time (UDP may lose it).

    Raises: ConnectionRefusedError, if nobody listens (yet, or any more).
    """
    number = secrets.randbits(64)
    asked_ns = clock()
    try:
        asking.send(_QUESTION.pack(token, number))
        answer, answered_ns, _ = _receive(asking, clock)
    except TimeoutError:
        return None
    if len(answer) != _ANSWER.size:
        return None
    echoed, received_ns, sent_ns = _ANSWER.unpack(answer)
    ways_ns = (answered_ns - asked_ns) - (sent_ns - received_ns)
    if echoed != number or answered_ns < asked_ns or ways_ns < 0:  # a clock was set meanwhile
        return None
    offset_ns = (received_ns - asked_ns + sent_ns - answered_ns) // 2
    return Exchange(offset_ns=offset_ns, at_ns=(asked_ns + answered_ns) // 2, uncertainty_ns=(ways_ns + 1) // 2)
