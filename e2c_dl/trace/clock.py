"""Clock alignment: how far each rank's clock stands from rank 0's, by asking it and believing the fastest answer.

::

    rank r   asked |----------------------------| answered      offset      = told - (asked + answered) / 2
                     \\                        /                  uncertainty = (answered - asked) / 2
    rank 0            `---------- told -------'

Whatever the two ways take, the true offset lies within the uncertainty, so of many exchanges the one with the shortest
round trip is kept. It runs over the management address, which is never shaped: an asymmetric link would not fool the
bound, but widen it. Two exchanges, at the start and at the end of training, also give the drift between the clocks;
those in between show whether it was even::

    offset            .--x---x      a clock that stepped or changed its pace: straight lines between the exchanges, and
      |          x   '              an uncertainty that covers what happened between the two beside the step
      |  x---x--'
"""

from __future__ import annotations

import json
import math
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from e2c_dl import codec
from e2c_dl.atomic_write import whole
from e2c_dl.beneath import Place
from e2c_dl.errors import ArchiveError, TrainingError
from e2c_dl.trace.model import ClockAlignment

FORMAT = 2  # of clock.json; 1 did not say
ROUNDS = 100
ENOUGH_ROUNDS = 8
ANSWER_WITHIN_S = 0.2
GIVE_UP_AFTER_S = 10.0
DRIFT_APART_NS = 1_000_000_000
MOST_DRIFT = 1e-3  # no clock that merely goes wrong is further off: what changes faster has stepped
MOST_UNCERTAIN = 2.0  # times the median uncertainty: beyond it, an exchange in between tells nothing

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
            if not question and sender[0] == own:  # an empty one from elsewhere ends nothing
                return
            if len(question) == _QUESTION.size:
                self._socket.sendto(_ANSWER.pack(*_QUESTION.unpack(question), self._clock()), sender)


def exchange(
    address: str,
    port: int,
    *,
    rounds: int = ROUNDS,
    clock: Callable[[], int] = time.monotonic_ns,
    within_s: float = GIVE_UP_AFTER_S,
) -> Exchange:
    """The best of ``rounds`` exchanges with the ClockServer at ``address``. Blocks for about ``rounds`` round trips.

    Raises: TrainingError, if too few answers came.
    """
    answers: list[Exchange] = []
    give_up = time.monotonic() + within_s
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
            f"{within_s:.0f} s; let UDP pass between the hosts' management addresses"
        )
    return min(answers, key=lambda answer: answer.uncertainty_ns)  # least delayed: its bound is the tightest


def align(*exchanges: Exchange) -> ClockAlignment:
    """The alignment that one or more exchanges, in order of time, give.

    A line if it explains all of them within their uncertainties. Its drift is used only if the first and the last are
    at least a second apart and their offsets differ by more than their uncertainties; otherwise the more certain one
    holds alone.
    """
    first, *between, last = exchanges if len(exchanges) > 1 else (*exchanges, *exchanges)
    line = _line(first, last)
    if all(abs(_off_ns(line, each)) <= each.uncertainty_ns + line.uncertainty_ns for each in between):
        return line
    usual_ns = median(each.uncertainty_ns for each in between)
    telling = [each for each in between if each.uncertainty_ns <= MOST_UNCERTAIN * usual_ns]
    return _knotted(first, *telling, last)


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


def _line(first: Exchange, last: Exchange) -> ClockAlignment:
    apart_ns = last.at_ns - first.at_ns
    change_ns = last.offset_ns - first.offset_ns
    if apart_ns < DRIFT_APART_NS or abs(change_ns) <= first.uncertainty_ns + last.uncertainty_ns:
        best = min(first, last, key=lambda each: each.uncertainty_ns)
        return ClockAlignment(offset_ns=best.offset_ns, at_ns=best.at_ns, uncertainty_ns=best.uncertainty_ns)
    return ClockAlignment(
        offset_ns=first.offset_ns,
        drift=change_ns / apart_ns,
        at_ns=first.at_ns,
        uncertainty_ns=max(first.uncertainty_ns, last.uncertainty_ns),
    )


def _off_ns(line: ClockAlignment, seen: Exchange) -> float:
    return seen.offset_ns - line.offset_ns - line.drift * (seen.at_ns - line.at_ns)


def _knotted(*exchanges: Exchange) -> ClockAlignment:
    """Straight lines from each of ``exchanges`` to the next, without those that a clock set back has shown twice."""
    rising = [exchanges[0]]
    for each in exchanges[1:]:
        while rising and rising[-1].at_ns >= each.at_ns:
            rising.pop()
        rising.append(each)
    changes_ns = [abs(b.offset_ns - a.offset_ns) for a, b in pairwise(exchanges)]
    hidden_ns = max(_hidden_ns(rising), 0 if len(rising) == len(exchanges) else max(changes_ns))
    return replace(
        _line(rising[0], rising[-1]),
        uncertainty_ns=max(each.uncertainty_ns for each in rising) + math.ceil(hidden_ns),
        knots=tuple((each.at_ns, each.offset_ns) for each in rising),
    )


def _hidden_ns(exchanges: list[Exchange]) -> float:
    """How far the clock may have been, between two of ``exchanges``, from the straight line that joins them."""
    apart_ns = [b.at_ns - a.at_ns for a, b in pairwise(exchanges)]
    changes_ns = [b.offset_ns - a.offset_ns for a, b in pairwise(exchanges)]
    slopes = [change / apart for change, apart in zip(changes_ns, apart_ns, strict=True)]
    hidden_ns = 0.0
    for index, (slope, apart) in enumerate(zip(slopes, apart_ns, strict=True)):
        # A clock that drifts does so in a neighbouring interval too; one that stepped does not.
        neighbours = slopes[max(0, index - 1) : index] + slopes[index + 1 : index + 2]
        unlike = min((abs(slope - other) for other in neighbours), default=abs(slope))
        hidden_ns = max(hidden_ns, apart * (abs(slope) if abs(slope) > MOST_DRIFT else unlike))
    return hidden_ns


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
    if len(answer) != _ANSWER.size or answered_ns < asked_ns:  # its own clock was set back meanwhile
        return None
    echoed, told_ns = _ANSWER.unpack(answer)
    if echoed != number:
        return None
    middle_ns = (asked_ns + answered_ns) // 2
    return Exchange(offset_ns=told_ns - middle_ns, at_ns=middle_ns, uncertainty_ns=(answered_ns - asked_ns + 1) // 2)
