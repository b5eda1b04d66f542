"""Spans of one rank that are over, iteration by iteration."""

from __future__ import annotations

from typing import NamedTuple

from e2c_dl.trace.check import MOST_WAITED_US
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.recorder import Row

_SEQ = 4  # of a Row
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
        self._ran_ns = 0  # processor time of its thread when it began
        self._idle: list[tuple[int, int]] = []  # of each that is over: place in rows, ns it neither ran nor awaited
        self._had: Processor | None = None  # by the newest look
        self._untold_ns = 0  # of its waits for a processor up to then: those of the iteration under way

    def iterate(self, now_ns: int, number: int, ran_ns: int = 0, look: bytes | None = None, *, ended: bool) -> None:
        """Iteration ``number`` begins (-1: none does); ``ended``: the one under way is over, and not just left.

        ``ran_ns``: processor time of its thread by now. ``look``: as for :meth:`seen`, where none has just ended.
        """
        if ended:
            begun_ns, own = self._begun_ns, self._iteration
            idle_ns = now_ns - begun_ns - self._awaited_ns - (ran_ns - self._ran_ns)
            self._idle.append((len(self.rows), max(0, idle_ns)))
            self.rows.append((begun_ns, begun_ns, now_ns, 0, -1, own, 0, -2, -1, -1, -1, 0, _ITERATION, 0))
        else:
            self.seen(now_ns, look)
            self._untold_ns = 0
        self._iteration, self._begun_ns, self._awaited_ns, self._ran_ns = number, now_ns, 0, ran_ns

    def seen(self, now_ns: int, look: bytes | None) -> None:
        """``look``: what schedstat says by now of the thread that trains; it tells how long iterations waited for it.

        Each waited for a processor in proportion to its time in which it neither ran nor waited for others, and no
        longer than that: who waits for others is kept waiting for a processor, too, each time it wakes up.
        """
        then, self._had = self._had, Processor.of(look)
        idle, self._idle = self._idle, []
        if then is None or self._had is None:
            self._untold_ns = 0
            return
        waited_ns = max(0, self._had.waited - then.waited) + self._untold_ns
        idle_ns = sum(own_ns for _, own_ns in idle)
        told_ns = min(waited_ns, idle_ns)
        for place, own_ns in idle:
            kept_us = min(own_ns * told_ns // max(1, idle_ns) // 1000, MOST_WAITED_US)
            self.rows[place] = (*self.rows[place][:_SEQ], kept_us, *self.rows[place][_SEQ + 1 :])
        under_way_ns = now_ns - self._begun_ns - self._awaited_ns - (self._had.ran - self._ran_ns)
        self._untold_ns = max(0, min(waited_ns - told_ns, under_way_ns))

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
        """The spans that are over, which are here no more. Of iterations among them nobody has seen how they waited."""
        rows, self.rows, self._idle = self.rows, [], []
        return rows
