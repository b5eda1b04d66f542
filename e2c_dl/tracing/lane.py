"""The lane of the training thread: phases within phases, of which only the innermost counts.

::

    FORWARD  |=======|                 |=====|      recorded: two spans, its own computation
    AWAIT_COLLECTIVE |=================|            ... and the wait within it

What is shorter than :data:`SHORTEST_NS` is not recorded. Hooks note what happened and when: between torch's kernels
caches are cold, and each function of Python's costs some 5 us. The thread that writes tells the lane, of all since the
last time at once; phases with nothing inside, which most are, it takes in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from e2c_dl.trace.model import Collective, Phase
from e2c_dl.tracing.rows import Rows

SHORTEST_NS = 2_000
DEEPEST = 64  # no script nests phases so: what raised has left them open
_DATA, _FORWARD, _BACKWARD, _COLLECTIVE, _AWAIT = (
    Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.COLLECTIVE, Phase.AWAIT_COLLECTIVE,
)  # fmt: skip  # asking the enum takes 0.1 us
_PLAIN = 3  # of an event: a method, when, a phase
_ALL_REDUCE = Collective.ALL_REDUCE
INFERRED = "no module's call was seen in some iterations: what lies before backward is called forward"

Event = tuple[Any, ...]
"""What is called, mostly a method of Lane, and with what."""

Piece = tuple[int, int]
"""(start, end), ns."""


Told = tuple[dict[int, int]] | tuple[dict[int, int], Sequence[int], int, int]
"""What one of those who reduce gradients tells of a backward that has ended: bucket -> when its gradients were
complete; if its all-reduces were waited for within, bytes of each bucket, group, number of the first, too. Without
times it was another's."""


@dataclass(slots=True)
class Open:
    """A phase under way, since ``start_ns`` the innermost one."""

    phase: Phase
    start_ns: int
    bucket: int = -1
    seq: int = -1
    peer_task: int = -2
    pieces: list[Piece] | None = None  # of BACKWARD, which is cut into buckets when it ends
    bounded: bool = False  # its end is told, whatever is raised within
    goes_on: bool = False  # within one of its own kind, and a part of it


class Lane(Rows):
    """Open phases of one thread, the innermost last; spans are in :attr:`rows` once they are over.

    It is told everything in the order in which it happened, by one thread, with times of one clock. Events begin with
    :attr:`entered`, :attr:`left` and those beside them: its methods, not made anew each time.
    """

    def __init__(self, limited: Callable[[str], None] = lambda _: None) -> None:
        super().__init__()
        self._limited = limited
        self._forwarded = False  # a forward was seen in the iteration under way
        self._ended_ns = 0  # the newest phase
        self._open: list[Open] = []
        self.entered, self.left, self.closed, self.began_backward = self.enter, self.leave, self.close, self.backward
        self.awaited, self.awaited_all = self.await_collective, self.await_all_reduces

    def tell(self, events: Iterable[Event]) -> None:
        """What happened, in its order."""
        entered, left, closed, backward = self.entered, self.left, self.closed, self.began_backward
        opened, rows = self._open, self.rows
        begun: Event | None = None  # outside of any phase, and nothing has happened since
        for event in events:
            told = event[0]
            if begun is None:
                pass
            elif told is not left and told is not closed:
                begun[0](*begun[1:])
                begun = None
            elif begun[0] is backward:
                self._whole_backward(begun[1], *event[1:])
                begun = None
                continue
            else:
                _, start_ns, phase = begun
                self._ended_ns = end_ns = event[1]
                if phase is _FORWARD:
                    self._forwarded = True
                if end_ns - start_ns >= SHORTEST_NS:
                    rows.append((start_ns, start_ns, end_ns, 0, -1, self._iteration, 0, -2, -1, -1, -1, 0, phase, 0))
                begun = None
                continue
            if not opened and (told is backward or (told is entered and len(event) == _PLAIN)):
                begun = event
            else:
                told(*event[1:])
        if begun is not None:
            begun[0](*begun[1:])

    def enter(
        self, now_ns: int, phase: Phase, bucket: int = -1, seq: int = -1, peer_task: int = -2, bounded: bool = False
    ) -> None:
        """``phase`` begins; if it is ``bounded``, as DATA is, :meth:`close` will end it."""
        if phase is _FORWARD:
            self._forwarded = True
        goes_on = False
        if self._open:
            if len(self._open) > DEEPEST:
                self._open.clear()
            elif not (goes_on := self._open[-1].phase is phase):
                self._interrupt(now_ns)
        self._open.append(Open(phase, now_ns, bucket, seq, peer_task, None, bounded or phase is _DATA, goes_on))

    def backward(self, now_ns: int) -> None:
        """BACKWARD begins, and is bounded; where no forward was seen, FORWARD is between the last phase and it."""
        if not self._forwarded:
            self._infer(now_ns)
        self._interrupt(now_ns)
        self._open.append(Open(_BACKWARD, now_ns, pieces=[], bounded=True))

    def leave(self, now_ns: int, passes: Sequence[Told] = ()) -> None:
        """The innermost phase ends; ``passes`` are those of a BACKWARD."""
        self._ended_ns = now_ns
        if not self._open:  # it was begun before this lane was
            return
        done = self._open.pop()
        if done.goes_on:
            return
        self._piece(done, now_ns)
        if done.pieces is not None:
            self.reduce(done.pieces, now_ns, passes)
        if self._open:
            self._go_on(now_ns)

    def close(self, now_ns: int, passes: Sequence[Told] = ()) -> None:
        """As :meth:`leave`, of the innermost bounded phase; what is open within it has raised, and is left out."""
        bounded = [place for place, each in enumerate(self._open) if each.bounded]
        if bounded:
            self._keep(now_ns, self._open[: bounded[-1] + 1])
        self.leave(now_ns, passes)

    def abandon(self, now_ns: int, phases: Sequence[Phase], still: int = 0) -> None:
        """Of ``phases`` only the ``still`` outermost go on: others have raised, and what is within them is left out.

        A bounded phase is none of these, and goes on with what is within it.
        """
        kept: list[Open] = []
        found, over = 0, False
        for each in self._open:
            if each.bounded:
                over = False
            elif each.phase in phases:
                over, found = found >= still, found + 1
            if not over:
                if each.goes_on and not (kept and kept[-1].phase is each.phase):
                    each.goes_on, each.start_ns = False, now_ns
                kept.append(each)
        self._keep(now_ns, kept)

    def iterate(self, now_ns: int, number: int, ran_ns: int = 0, look: bytes | None = None, *, ended: bool) -> None:
        """As :meth:`Rows.iterate`; nor is a forward seen in the next yet."""
        super().iterate(now_ns, number, ran_ns, look, ended=ended)
        self._forwarded = False

    def await_collective(self, start_ns: int, end_ns: int, seq: int, nbytes: int, group: int, kind: int) -> None:
        """A collective was waited for all the time."""
        self.enter(start_ns, _AWAIT, -1, seq, group)
        self.leave(end_ns)
        self.record(_COLLECTIVE, start_ns, end_ns, seq=seq, nbytes=nbytes, peer_task=group, kind=kind)

    def await_all_reduces(
        self, start_ns: int, end_ns: int, ready: dict[int, int], nbytes_of: Sequence[int], seq: int, group: int = -2
    ) -> None:
        """Those of all buckets, from ``seq`` in ``group`` on, were waited for; each was joined when ``ready``."""
        last = len(nbytes_of) - 1
        self.enter(start_ns, _AWAIT, last, seq + last if nbytes_of else -1, group)
        self.leave(end_ns)
        rows, iteration = self.rows, self._iteration
        for bucket, nbytes in enumerate(nbytes_of):
            joined_ns = min(ready.get(bucket, start_ns), start_ns)
            rows.append((
                joined_ns, joined_ns, end_ns, nbytes, seq + bucket,
                iteration, 0, group, bucket, -1, -1, 0, _COLLECTIVE, _ALL_REDUCE,
            ))  # fmt: skip

    def clear(self) -> None:
        """Nothing is open any more, and nothing of it is recorded."""
        self._open.clear()

    def _go_on(self, now_ns: int) -> None:
        """The phase that is the innermost now."""
        for outer in reversed(self._open):
            if not outer.goes_on:
                outer.start_ns = now_ns
                return

    def _keep(self, now_ns: int, kept: Sequence[Open]) -> None:
        """Only ``kept`` are open; the innermost goes on, if it was not that before."""
        if len(kept) < len(self._open):
            innermost = self._open[-1]
            self._open[:] = kept
            if kept and kept[-1] is not innermost:
                self._go_on(now_ns)

    def _infer(self, now_ns: int) -> None:
        begun_ns = max(self._begun_ns, self._ended_ns)
        if self._iteration >= 0 and begun_ns < now_ns:
            self.record(_FORWARD, begun_ns, now_ns)
            self._limited(INFERRED)

    def _whole_backward(self, start_ns: int, end_ns: int, passes: Sequence[Told] = ()) -> None:
        """A BACKWARD with nothing inside has begun and ended."""
        if not self._forwarded:
            self._infer(start_ns)
        self._ended_ns = end_ns
        self.reduce([(start_ns, end_ns)] if end_ns - start_ns >= SHORTEST_NS else [], end_ns, passes)

    def _interrupt(self, now_ns: int) -> None:
        for outer in reversed(self._open):
            if not outer.goes_on:
                self._piece(outer, now_ns)
                return

    def _piece(self, done: Open, end_ns: int) -> None:
        start_ns = done.start_ns
        if end_ns - start_ns < SHORTEST_NS:
            return
        if done.pieces is not None:
            done.pieces.append((start_ns, end_ns))
            return
        self.record(done.phase, start_ns, end_ns, bucket=done.bucket, seq=done.seq, peer_task=done.peer_task)

    def reduce(self, pieces: Sequence[Piece], end_ns: int, passes: Sequence[Told]) -> None:
        """A BACKWARD has ended: its all-reduces, the wait for them, and its own part bucket by bucket."""
        ready: list[tuple[int, int]] = []
        reduced: list[tuple[dict[int, int], Any]] = []
        for told in passes:
            at_ns = dict(told[0])  # in one step: a gradient that comes outside of any pass is added to it
            ready += zip(at_ns.values(), at_ns, strict=True)
            if len(told) > 1 and told[1] and at_ns:
                reduced.append((at_ns, told[1:]))
        ready.sort()
        waited_ns = min(ready[-1][0], end_ns) if reduced else end_ns
        self._cut(pieces, ready, waited_ns)
        for at_ns, more in reduced:
            self._all_reduces(waited_ns, end_ns, at_ns, *more)
            waited_ns = end_ns  # one after the other: spans of a task never overlap

    def _all_reduces(
        self, waited_ns: int, end_ns: int, at_ns: dict[int, int], nbytes_of: Sequence[int], group: int, seq: int
    ) -> None:
        """Of one pass, waited for since ``waited_ns``; each was launched when its bucket was ready, in their order."""
        rows, iteration, bucket = self.rows, self._iteration, -1
        launched_ns = min(at_ns.values())  # of a bucket of which that is not known, with the first
        for bucket, nbytes in enumerate(nbytes_of):
            launched_ns = max(launched_ns, at_ns.get(bucket, 0))
            rows.append((
                launched_ns, launched_ns, max(launched_ns, end_ns), nbytes, seq + bucket,
                iteration, 0, group, bucket, -1, -1, 0, _COLLECTIVE, _ALL_REDUCE,
            ))  # fmt: skip
        self.record(_AWAIT, waited_ns, end_ns, bucket=bucket, seq=seq + bucket, peer_task=group)

    def _cut(self, pieces: Sequence[Piece], ready: Sequence[tuple[int, int]], end_ns: int) -> None:
        """A pass's ``pieces`` up to ``end_ns``, cut where buckets were ``ready`` (time, bucket)."""
        since_ns = 0
        bounds = [*ready[:-1], (end_ns, ready[-1][1])] if ready else [(end_ns, 0)]
        for until_ns, bucket in bounds:
            for start_ns, stop_ns in pieces:
                begin_ns, last_ns = max(start_ns, since_ns), min(stop_ns, until_ns)
                if last_ns - begin_ns >= SHORTEST_NS:
                    self.record(_BACKWARD, begin_ns, last_ns, task=-1, bucket=bucket)
            since_ns = until_ns
