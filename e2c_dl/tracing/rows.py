"""Spans of one rank that are over, iteration by iteration."""

from __future__ import annotations

from typing import NamedTuple

from e2c_dl.trace.check import MOST_WAITED_US
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.recorder import Row

_ITERATION, _AWAIT = Phase.ITERATION, Phase.AWAIT_COLLECTIVE  # asking the enum takes 0.1 us


class Processor(NamedTuple):
    """What the thread that trains had of its processors for a while, in ns."""

    ran: int
    waited: int  # for one that others had

    @classmethod
    def of(cls, look: bytes | None) -> Processor | None:
        """What a thread's schedstat says; None: nothing that could be understood."""
        try:
            ran_ns, waited_ns, _ = (look or b"").split()
            return cls(int(ran_ns), int(waited_ns))
        except ValueError:
            return None

    def since(self, then: Processor) -> Processor:
        """What it had after ``then``, when it had had that."""
        return Processor(self.ran - then.ran, self.waited - then.waited)


class Rows:
    """What is recorded, and the iteration under way."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._iteration = -1  # the one under way
        self._begun_ns = 0  # ... since then
        self._awaited_ns = 0  # ... and so long it waited for others in it
        self._had: Processor | None = None  # when it began

    def iterate(self, now_ns: int, number: int, look: bytes | None = None, *, ended: bool) -> None:
        """Iteration ``number`` begins (-1: none does); ``ended``: the one under way is over, and not just left.

        ``look``: what schedstat says of its thread by now. Of its time without waits for others that waited for a
        processor as long as it did not run then, and no longer than it did in all: who waits for others is kept
        waiting for a processor, too, each time it wakes up.
        """
        then, self._had = self._had, Processor.of(look)
        if ended:
            begun_ns, kept_us = self._begun_ns, -1
            if then is not None and self._had is not None:
                processor = self._had.since(then)
                idle_ns = now_ns - begun_ns - self._awaited_ns - processor.ran
                kept_us = min(max(0, min(idle_ns, processor.waited)) // 1000, MOST_WAITED_US)
            own = self._iteration
            self.rows.append((begun_ns, begun_ns, now_ns, 0, kept_us, own, 0, -2, -1, -1, -1, 0, _ITERATION, 0))
        self._iteration, self._begun_ns, self._awaited_ns = number, now_ns, 0

    def record(
        self, phase: Phase, start_ns: int, end_ns: int, *, task: int = 0, bucket: int = -1, seq: int = -1,
        nbytes: int = 0, peer_task: int = -2, kind: int = 0,
    ) -> None:  # fmt: skip
        """A span of the iteration under way; the fields are those of Recorder.record."""
        if phase is _AWAIT and task <= 0:
            self._awaited_ns += end_ns - start_ns
        # fmt: off
        self.rows.append((
            start_ns, start_ns, end_ns, nbytes, seq,
            self._iteration, task, peer_task, bucket, -1, -1, 0, phase, kind,
        ))
        # fmt: on

    def taken(self) -> list[Row]:
        """The spans that are over, which are here no more."""
        rows, self.rows = self.rows, []
        return rows
