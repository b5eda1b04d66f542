"""Which samples are kept when their file may not grow for ever: those of slow iterations, as of spans.

::

    0 ........ half of the cap ........................ the cap
    everything | samples wait in memory until their     | the last of each connection alone
               | iteration has ended or is slow; a slow | (for those that have moved in the second
               | one's are written, and where it began  | half there is room all along)

Slow is what :mod:`e2c_dl.trace.recording.keeping` calls slow, from one end of an iteration to the next. Counters tell
the sum of what is left out. A sample counts as the most that it can take, alone in its frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from e2c_dl.trace.recording.keeping import FRAME_BYTES, REMEMBERED, ended_slowly, slow_from_ns

_COOKIE = slice(8, 16)  # of a sample
_END_BYTES = 16384  # for headers, the last count


class Room:
    """Says what is written now of what came, and counts with ``drop`` what never is; for one thread."""

    def __init__(self, cap_bytes: int, drop: Callable[[int], None]) -> None:
        self._most_bytes = max(0, cap_bytes - _END_BYTES)
        self._used_bytes = 0
        self._drop = drop
        self._choosing = False  # the first half is over
        self._held: list[bytes] = []  # of the iteration under way
        self._before: dict[bytes, bytes] = {}  # by connection: its last one that is not written
        self._moved: set[bytes] = set()  # connections, since the first half is over: the last of each is to be written
        self._lasted: deque[int] = deque(maxlen=REMEMBERED)
        self._ended_ns: int | None = None

    def use(self, record: bytes, times: int = 1) -> None:
        """``record`` is written whatever it is, or so many of its length."""
        self._used_bytes += times * (len(record) + FRAME_BYTES)

    def offer(self, found: list[bytes], at_ns: int, *, ends: bool) -> list[bytes]:
        """Samples to write, of those of a round and of what waited; ``ends``: an iteration."""
        if ends:
            if self._ended_ns is not None:
                self._lasted.append(at_ns - self._ended_ns)
            self._ended_ns = at_ns
        if not self._choosing:
            if found:
                self.use(found[0], len(found))  # one kernel's are equally long
            self._choosing = self._used_bytes > self._most_bytes // 2
            return found
        self._held += found
        self._moved.update(sample[_COOKIE] for sample in found)
        if (bool(self._lasted) and ended_slowly(self._lasted)) if ends else self._slow_by(at_ns):
            return self._released(len(self._moved))
        if ends:
            self._wait(self._held)
            self._held = []
        return []

    def end(self) -> list[bytes]:
        """What waits: nothing else comes. Where it does not fit, the last of each connection."""
        if not self._fits((*self._before.values(), *self._held)):
            self._wait(self._held)
            self._held = []
        self._most_bytes += _END_BYTES
        kept = self._released(0)
        self._drop(len(self._before))
        return kept

    def _slow_by(self, now_ns: int) -> bool:
        """Whether the iteration under way is slow by now, whenever it ends: a rank that hangs may be killed."""
        return self._ended_ns is not None and now_ns - self._ended_ns >= slow_from_ns(self._lasted)

    def _fits(self, samples: Sequence[bytes], others: int = 0) -> bool:
        """Whether there is room for ``samples``, and as many ``others`` as long as the first."""
        sizes = sum(len(sample) + FRAME_BYTES for sample in samples)
        more = others * (len(samples[0]) + FRAME_BYTES) if samples else 0
        return self._used_bytes + sizes + more <= self._most_bytes

    def _wait(self, samples: Iterable[bytes]) -> None:
        """Of ``samples`` the last of each connection waits on, in place of what waited."""
        for sample in samples:
            connection = sample[_COOKIE]
            if connection in self._before:
                self._drop(1)
            self._before[connection] = sample

    def _released(self, others: int) -> list[bytes]:
        """Of what waits that for which there is room, besides for so many ``others``; the last of the rest wait on."""
        waiting, kept = (*self._before.values(), *self._held), []
        self._before, self._held = {}, []
        for sample in waiting:
            if self._fits((sample,), others):
                self.use(sample)
                kept.append(sample)
            else:
                self._wait((sample,))
        return kept
