"""Changes that a host made in training, and when each was in force: the ground truth that diagnosis is judged by.

::

    changes.jsonl          links, bottlenecks, pauses, kills: written by the host's agent      one JSON object
    changes-worker.jsonl   compute, data, steps, heat, clock: written by its worker            per line

A line: ``what``, ``whom``, ``asked_s`` or ``asked_iteration``, ``in_force_ns`` (this host's own clock, as its spans),
``in_force_s`` (since training began), ``lateness_s``, ``value`` (what is in force since then). What a killed process
was writing is read up to where it breaks off.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from e2c_dl import codec
from e2c_dl.beneath import LARGE_BYTES, Place, placed
from e2c_dl.errors import ArchiveError, EmulationError
from e2c_dl.trace.model import MOST_NS, MOST_S, ClockAlignment


class Change(Enum):
    """Kinds of changes."""

    LINK = "link"  # whom: edge-1 -> cloud-1; value: the fields of its Link
    BOTTLENECK = "bottleneck"  # whom: its name; value: rate_bps
    PAUSE = "pause"  # whom: the host, as of all below
    RESUME = "resume"
    KILL = "kill"
    COMPUTE = "compute"  # value: factor, times slower than a host of factor 1; heat not counted
    DATA = "data"  # value: later_s, by which each batch comes later
    STEP = "step"  # value: later_s, by which each step of the optimizer takes longer
    THROTTLE = "throttle"  # value: temperature_c
    RECOVER = "recover"  # value: temperature_c
    CLOCK = "clock"  # value: step_s, drift; a drift that ends is one in the opposite direction


Seconds = Annotated[float, msgspec.Meta(ge=-MOST_S, le=MOST_S)]


@dataclass(frozen=True, kw_only=True)
class ChangeInForce:
    """One change. Times are seconds since training began, and ns of the clock that they were read on."""

    host: str  # who made it
    what: Change
    whom: str
    in_force_ns: Annotated[int, msgspec.Meta(ge=-MOST_NS, le=MOST_NS)]
    in_force_s: Seconds
    lateness_s: Seconds  # later than asked; of what an iteration begins, later than that began
    asked_s: Seconds | None = None
    asked_iteration: int | None = None
    value: Mapping[str, Any] = field(default_factory=dict)


class _Value(msgspec.Struct):
    """What a value may hold; read as a mapping, and no more than checked here."""

    rate_bps: Annotated[float, msgspec.Meta(ge=0, le=1e15)] | None = None
    delay_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    loss: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    down: bool = False
    step_s: Seconds = 0.0
    drift: Annotated[float, msgspec.Meta(ge=-1, le=1)] = 0.0


class _Compute(msgspec.Struct):
    factor: Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class _Late(msgspec.Struct):
    later_s: Annotated[float, msgspec.Meta(ge=0, le=MOST_S)]


class _Heat(msgspec.Struct):
    temperature_c: Annotated[float, msgspec.Meta(ge=-1e4, le=1e4)]


_VALUES: Mapping[Change, type[msgspec.Struct]] = {
    Change.COMPUTE: _Compute,
    Change.DATA: _Late,
    Change.STEP: _Late,
    Change.THROTTLE: _Heat,
    Change.RECOVER: _Heat,
}


class ChangeLog:
    """Appends the changes of one process on ``host`` to ``path``; each is with the kernel when :meth:`add` returns.

    ``own_ns`` turns ns of the machine's clock into ns of the host's own. Raises: EmulationError if it cannot write.
    """

    def __init__(self, path: Path, host: str, own_ns: Callable[[int], int]) -> None:
        self._path, self._host, self._own_ns = path, host, own_ns
        self.began_ns = 0  # of the machine's clock: training
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._unwritable(error) from error

    def add(
        self, what: Change, whom: str, machine_ns: int, *, asked_s: float,
        asked_iteration: int | None = None, **value: Any,
    ) -> None:  # fmt: skip
        """``what`` was in force at ``machine_ns``; asked for at ``asked_s``, when ``asked_iteration`` began if given.

        Raises: EmulationError.
        """
        in_force_s = (machine_ns - self.began_ns) / 1e9
        change = ChangeInForce(
            host=self._host, what=what, whom=whom, in_force_ns=self._own_ns(machine_ns),
            in_force_s=round(in_force_s, 6), lateness_s=round(in_force_s - asked_s, 6),
            asked_s=round(asked_s, 6) if asked_iteration is None else None, asked_iteration=asked_iteration,
            value=value,
        )  # fmt: skip
        line = {key: each for key, each in asdict(change).items() if each is not None}
        try:
            os.write(self._file, msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        os.close(self._file)

    def _unwritable(self, error: OSError) -> EmulationError:
        return EmulationError(f"{self._path}: cannot be written: {error.strerror}; make room there")


def read_changes(file: Path | Place, clock: ClockAlignment) -> tuple[ChangeInForce, ...]:
    """The changes in ``file`` in the order of writing, ``in_force_ns`` on the reference clock. Raises: ArchiveError."""
    lines = placed(file).read(LARGE_BYTES).split(b"\n")[:-1]  # after the last line break: cut off, or empty
    changes = [codec.decode(line, ChangeInForce, str(file)) for line in lines if line.strip()]
    for change in changes:
        codec.convert(change.value, _VALUES.get(change.what, _Value), f"{file}: value", remedy=codec.DAMAGED)
        if change.what is Change.LINK and " -> " not in change.whom:
            raise ArchiveError(f"{file}: {change.whom!r:.60} is no link; {codec.DAMAGED}")
    aligned = clock.align(np.array([change.in_force_ns for change in changes], dtype=np.int64)).tolist()
    return tuple(replace(change, in_force_ns=at_ns) for change, at_ns in zip(changes, aligned, strict=True))
