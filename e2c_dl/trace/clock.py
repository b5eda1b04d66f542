"""How far each rank's clock stands from rank 0's, by asking rank 0 for the time and believing the fastest answer.

::

    rank r   asked |----------------------------| answered      offset      = told - (asked + answered) / 2
                     \\                        /                  uncertainty = (answered - asked) / 2
    rank 0            `---------- told -------'

Whatever the two ways take, the true offset lies within the uncertainty, so of many exchanges the one with the shortest
round trip is kept. It runs over the management address, which is never shaped: an asymmetric link would not fool the
bound, but widen it. Two exchanges, at the start and at the end of training, also give the drift between the clocks.
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from e2c_dl.errors import TrainingError
from e2c_dl.trace.model import ClockAlignment

ROUNDS = 100
ENOUGH_ROUNDS = 8
ANSWER_WITHIN_S = 0.2
GIVE_UP_AFTER_S = 10.0
DRIFT_APART_NS = 1_000_000_000

_QUESTION = struct.Struct("!Q")  # a random number, so that a late answer is not taken for the next
_ANSWER = struct.Struct("!Qq")  # the same number, the time


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Offset of the reference clock from one's own (reference = own + offset_ns), at ``at_ns`` of one's own."""

    offset_ns: int
    at_ns: int
    uncertainty_ns: int  # half the round trip


class ClockServer:
    """Tells the time of this host's clock to whoever asks, from a thread of its own, until it is closed."""

    def __init__(self, address: str, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 0))
        self._clock = clock
        self._thread = threading.Thread(target=self._serve, name="clock", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The UDP port it answers on."""
        port: int = self._socket.getsockname()[1]
        return port

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as farewell:
            farewell.sendto(b"", self._socket.getsockname())  # an empty question: the thread ends
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> ClockServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        own = self._socket.getsockname()[0]
        while True:
            question, sender = self._socket.recvfrom(64)
            if not question and sender[0] == own:
                return
            if len(question) == _QUESTION.size:
                self._socket.sendto(_ANSWER.pack(*_QUESTION.unpack(question), self._clock()), sender)


def exchange(
    address: str, port: int, *, rounds: int = ROUNDS, clock: Callable[[], int] = time.monotonic_ns
) -> Exchange:
    """The best of ``rounds`` exchanges with the ClockServer at ``address``. Blocks for about ``rounds`` round trips.

    Raises: TrainingError, if too few answers came.
    """
    answers: list[Exchange] = []
    give_up = time.monotonic() + GIVE_UP_AFTER_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((address, port))
        asking.settimeout(ANSWER_WITHIN_S)
        while len(answers) < rounds and time.monotonic() < give_up:
            answer = _ask(asking, clock)
            if answer is not None:
                answers.append(answer)
    if len(answers) < min(rounds, ENOUGH_ROUNDS):
        raise TrainingError(
            f"{address}:{port}: only {len(answers)} of {rounds} clock exchanges were answered within "
            f"{GIVE_UP_AFTER_S:.0f} s; let UDP pass between the hosts' management addresses"
        )
    return min(answers, key=lambda answer: answer.uncertainty_ns)


def align(first: Exchange, last: Exchange | None = None) -> ClockAlignment:
    """The alignment that one or two exchanges give.

    Drift is used only if the exchanges are at least a second apart and the change of offset exceeds what their
    uncertainties explain; otherwise the more certain exchange holds alone.
    """
    if last is None:
        return _steady(first)
    apart_ns = last.at_ns - first.at_ns
    change_ns = last.offset_ns - first.offset_ns
    if apart_ns < DRIFT_APART_NS or abs(change_ns) <= first.uncertainty_ns + last.uncertainty_ns:
        return _steady(min(first, last, key=lambda each: each.uncertainty_ns))
    return ClockAlignment(
        offset_ns=first.offset_ns,
        drift=change_ns / apart_ns,
        at_ns=first.at_ns,
        uncertainty_ns=max(first.uncertainty_ns, last.uncertainty_ns),
    )


def write_alignment(path: Path, alignment: ClockAlignment) -> None:
    """Write ``alignment`` as a JSON object whose keys are the fields of ClockAlignment."""
    path.write_text(json.dumps(asdict(alignment)) + "\n")


def read_alignment(path: Path) -> ClockAlignment:
    """What :func:`write_alignment` wrote."""
    return ClockAlignment(**json.loads(path.read_text()))


def _steady(only: Exchange) -> ClockAlignment:
    return ClockAlignment(offset_ns=only.offset_ns, at_ns=only.at_ns, uncertainty_ns=only.uncertainty_ns)


def _ask(asking: socket.socket, clock: Callable[[], int]) -> Exchange | None:
    """One exchange; None if no answer to it came in time (UDP may lose it, or nobody listens yet)."""
    number = secrets.randbits(64)
    asked_ns = clock()
    try:
        asking.send(_QUESTION.pack(number))
        answer = asking.recv(64)
        answered_ns = clock()
    except (TimeoutError, ConnectionRefusedError):
        return None
    if len(answer) != _ANSWER.size:
        return None
    echoed, told_ns = _ANSWER.unpack(answer)
    if echoed != number:
        return None
    middle_ns = (asked_ns + answered_ns) // 2
    return Exchange(offset_ns=told_ns - middle_ns, at_ns=middle_ns, uncertainty_ns=(answered_ns - asked_ns + 1) // 2)
