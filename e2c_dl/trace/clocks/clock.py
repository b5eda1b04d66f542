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
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from e2c_dl import codec
from e2c_dl.atomic_write import whole
from e2c_dl.beneath import Place
from e2c_dl.errors import ArchiveError, TrainingError
from e2c_dl.trace.clocks.alignment import Alignment, Exchange, telling
from e2c_dl.trace.clocks.questions import (
    ANSWER,
    ANSWER_WITHIN_S,
    GOODBYE,
    QUESTION,
    Clock,
    Questions,
    opened,
    receive,
    send,
)
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.trace.recording.descriptors import identity, is_still

FORMAT = 2  # of clock.json; 1 did not say
ROUNDS = 100
ENOUGH_ROUNDS = 8
FEW_ROUNDS = 4  # of an exchange while training: it shall cost nothing that anyone could measure
EVERY_S = 1.0
"""Between two of those: so long may a step remain unseen."""
GIVE_UP_AFTER_S = 10.0
_FEW_WITHIN_S = 1.0  # besides a round trip: a reference that is stopped just now does not answer
_WAKES_WITHIN_S = 0.1
LAST_WITHIN_S = 0.5
"""A last exchange takes no longer, nor does the reference wait for those of others: they hold up a script's end."""


class ClockServer:
    """Tells the time of this host's clock to who knows its ``token``, from a thread of its own, until it is closed.

    Raises: TrainingError, if it cannot listen at ``address``.
    """

    def __init__(self, address: str, clock: Clock = time.monotonic_ns) -> None:
        try:
            self._socket = opened(address, 0)
            self._socket.bind((address, 0))
        except OSError as error:
            raise TrainingError(
                f"{address}: cannot serve the clock there: {error.strerror or error}; name an address of this host"
            ) from error
        self._opened = identity(self._socket.fileno())
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
        while self._thread.is_alive() and self._is_own():
            with suppress(OSError):  # of one that is not connected it says so, and yet wakes who waits for a datagram
                self._socket.shutdown(socket.SHUT_RD)
            self._thread.join(_WAKES_WITHIN_S)
        if self._is_own():
            self._socket.close()
        else:
            self._socket.detach()

    def _is_own(self) -> bool:
        """Not once the program has closed its number, whose ever that is by now: then nothing wakes who waits there."""
        return is_still(self._socket.fileno(), self._opened)

    def __enter__(self) -> ClockServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        while self._is_own():
            try:
                question, received_ns, sender = receive(self._socket, self._clock)
            except OSError:  # closed meanwhile
                return
            if self._closing or not self._is_own():
                return
            if len(question) == GOODBYE.size:
                self._note_gone(*GOODBYE.unpack(question))
            if len(question) != QUESTION.size:
                continue
            token, number = QUESTION.unpack(question)
            if token == self.token:
                send(self._socket, ANSWER.pack(number, received_ns, self._clock()), sender)

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
            within_s = _FEW_WITHIN_S + (self._least_round_trip_ns or 0) / 1e9
            seen = self._ask(FEW_ROUNDS, within_s)
            self._add(seen if self._seen.explains(seen) else (*seen, *self._ask(ROUNDS, within_s, enough=1)))
            return self._seen.value(self._clock() + round(EVERY_S * 1e9))

    def exchange_last(self) -> ClockAlignment:
        """The same as much as can be done in LAST_WITHIN_S; it holds until now, and the server is told that it was all.

        Raises: TrainingError, if no answer came; at once, if nobody is there any more.
        """
        with self._asking:
            try:
                self._add(self._ask(ROUNDS, LAST_WITHIN_S - ANSWER_WITHIN_S, enough=1))
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

    def _ask(
        self, rounds: int, within_s: float, *, enough: int = ENOUGH_ROUNDS, listened: bool = True
    ) -> tuple[Exchange, ...]:
        where = (self._address, self._port, self._token)
        return exchange(*where, rounds=rounds, clock=self._clock, within_s=within_s, enough=enough, listened=listened)

    def _say_goodbye(self) -> None:
        with suppress(OSError), opened(self._address, self._port) as asking:  # no network any more: nobody to tell
            send(asking, GOODBYE.pack(self._token, secrets.randbits(64)), (self._address, self._port))

    def _add(self, seen: tuple[Exchange, ...]) -> None:
        self._seen.add(*seen)
        for each in seen:
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
    enough: int = ENOUGH_ROUNDS,
    listened: bool = False,
) -> tuple[Exchange, ...]:
    """Those of ``rounds`` exchanges with the ClockServer at ``address`` that tell most, one or two, in order of time.

    Blocks for about ``rounds`` round trips. ``listened``: the server was there before, so that where nobody listens it
    has gone, or is not meant, and is not waited for.
    Raises: TrainingError, if fewer answers came than are ``enough``, and not all.
    """
    answers: list[Exchange] = []
    give_up_s = time.monotonic() + within_s
    try:
        with opened(address, port) as asking:
            asking.connect((address, port))
            questions = Questions(asking, token, clock)
            while len(answers) < rounds and time.monotonic() < give_up_s:
                try:
                    answer = questions.exchange(give_up_s)
                except ConnectionRefusedError:
                    if listened:
                        break
                    answer = None
                if answer is not None:
                    answers.append(answer)
    except OSError as error:  # no route, no such address
        raise TrainingError(f"{address}:{port}: cannot ask the reference clock there: {error}") from error
    if len(answers) < min(rounds, enough):
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
