"""The lane of the training thread: phases within phases, of which only the innermost counts.

::

    FORWARD  |=======|                 |=====|      recorded: two spans, its own computation
    AWAIT_COLLECTIVE |=================|            ... and the wait within it

What is shorter than :data:`SHORTEST_NS` is not recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from e2c_dl.trace.model import Phase

SHORTEST_NS = 2_000
DEEPEST = 64  # no script nests phases so: what raised has left them open

Record = Callable[..., None]


@dataclass(slots=True)
class Open:
    """A phase under way, since ``start_ns`` the innermost one."""

    phase: Phase
    start_ns: int
    task: int = 0
    bucket: int = -1
    seq: int = -1
    peer_task: int = -2
    pieces: list[tuple[int, int]] | None = None  # not None: whoever opened it records them


class Lane:
    """Open phases of one thread, the innermost last; ``record`` takes what Recorder.record does."""

    def __init__(self, record: Record, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._record = record
        self._clock = clock
        self.ended_ns = 0  # the newest phase
        self._open: list[Open | None] = []  # None: within one of its own kind, which goes on

    def enter(self, phase: Phase, *, task: int = 0, bucket: int = -1, seq: int = -1, peer_task: int = -2) -> int:
        """Begin ``phase`` now, and say when that is."""
        now_ns = self._clock()
        if len(self._open) > DEEPEST:
            self._open.clear()
        outer = self._open[-1] if self._open else None
        if outer is not None and outer.phase is phase and outer.pieces is None:
            self._open.append(None)
            return now_ns
        self._interrupt(now_ns)
        self._open.append(Open(phase, now_ns, task, bucket, seq, peer_task))
        return now_ns

    def collect(self, phase: Phase) -> Open:
        """Begin ``phase`` now; its pieces are kept for whoever ends it with :meth:`leave`."""
        now_ns = self._clock()
        self._interrupt(now_ns)
        opened = Open(phase, now_ns, pieces=[])
        self._open.append(opened)
        return opened

    def leave(self) -> int:
        """End the innermost phase now, and say when that is."""
        self.ended_ns = now_ns = self._clock()
        if not self._open:  # it was begun before this lane was
            return now_ns
        done = self._open.pop()
        if done is not None:
            self._piece(done, now_ns)
            for outer in reversed(self._open):
                if outer is not None:
                    outer.start_ns = now_ns
                    break
        return now_ns

    def clear(self) -> None:
        """Nothing is open any more, and nothing of it is recorded."""
        self._open.clear()

    def _interrupt(self, now_ns: int) -> None:
        for outer in reversed(self._open):
            if outer is not None:
                self._piece(outer, now_ns)
                return

    def _piece(self, opened: Open, end_ns: int) -> None:
        start_ns = opened.start_ns
        if end_ns - start_ns < SHORTEST_NS:
            return
        if opened.pieces is not None:
            opened.pieces.append((start_ns, end_ns))
            return
        self._record(
            opened.phase, start_ns, start_ns, end_ns, task=opened.task, bucket=opened.bucket, seq=opened.seq,
            peer_task=opened.peer_task,
        )  # fmt: skip
