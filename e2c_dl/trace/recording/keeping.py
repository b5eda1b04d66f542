"""Which spans a trace keeps when its file may not grow for ever: those of slow iterations.

::

    0 ........ half of the cap ....... three quarters ....... the cap
    everything | spans wait in memory until their |             | TRAINING alone, once
               | iteration has ended or is slow;  | slow ones'
               | a slow one's are written, of     | alone
               | others only ITERATION            |

An iteration is *slow* if it lasted at least :data:`SLOW` times the median of the last :data:`REMEMBERED`, itself
included; one that has lasted so long by now is, whenever it ends. A span counts as :data:`SPAN_BYTES`, the most that it
can take, whatever the file's true size: what is kept depends on what was recorded, never on when it was written. Spans
of no iteration are kept as they come. What comes for an iteration after its end goes where the others went.
"""

from __future__ import annotations

import math
import statistics
import threading
from collections import deque
from collections.abc import Callable, Sequence

from e2c_dl.trace.model import RECORD_BYTES, Phase
from e2c_dl.trace.recording.frames import HEAD

SLOW = 1.5
REMEMBERED = 101  # iterations
DECIDED = 64  # iterations whose late spans still find their way
MOST_HELD = 20_000  # spans in memory: 3 MB; more of an iteration than that are not kept
FRAME_BYTES = 2 * HEAD.size + 8  # of a record alone in its frame, after one that tells of dropped ones
SPAN_BYTES = RECORD_BYTES + FRAME_BYTES
_ITERATION = int(Phase.ITERATION)  # compared faster than the enum
_END_BYTES = 8192  # for headers, the TRAINING span, the last count


def ended_slowly(lasted_ns: deque[int]) -> bool:
    """Whether the last iteration of those that lasted so long was slow."""
    return lasted_ns[-1] >= SLOW * statistics.median(lasted_ns)


def slow_from_ns(lasted_ns: deque[int]) -> float:
    """How long the iteration after those that lasted so long must have lasted by now to be slow whenever it ends."""
    before = [*lasted_ns][-(REMEMBERED - 1) :]
    return SLOW * statistics.median([*before, math.inf])


class SlowOnly:
    """Says which spans are written now, of those offered and of those that wait; counts others with ``drop``.

    Any thread may ask.
    """

    def __init__(self, cap_bytes: int, drop: Callable[[int], None]) -> None:
        self._most = max(0, cap_bytes - _END_BYTES) // SPAN_BYTES  # spans
        self._half = self._kept = self._most // 2  # the first half is kept by whoever asks free()
        self._of_others = self._most * 3 // 4  # the last quarter is for slow iterations
        self._drop = drop
        self._recorded = 0  # spans
        self._choosing = False  # the first half is over
        self._held: dict[int, list[bytes]] = {}
        self._began_ns: dict[int, int] = {}  # of those held, the first
        self._waiting = 0  # spans in _held
        self._lasted: deque[int] = deque(maxlen=REMEMBERED)
        self._slow: dict[int, bool] = {}  # the last iterations that ended -> whether they are kept
        self._turn = threading.Lock()

    def free(self, phase: int) -> bool:
        """Whether a span of ``phase``, recorded now, is kept whatever it is, and need not be offered."""
        # No lock, which costs more than all else: threads may miss some, but spans take less than they count.
        self._recorded += 1
        if self._recorded > self._half:
            self._choosing = True
        return not self._choosing and phase != _ITERATION

    def all_free(self, count: int, lasted_ns: Sequence[int]) -> bool:
        """Whether so many spans are kept whatever they are, iterations that lasted so long being among them.

        If not, they are to be asked for one by one.
        """
        with self._turn:
            if self._choosing or self._recorded + count > self._half:
                return False
            self._recorded += count
            self._lasted.extend(lasted_ns)
            return True

    def offer(self, record: bytes, phase: int, iteration: int, start_ns: int, end_ns: int) -> list[bytes]:
        """What is written, after a span that is not :meth:`free`."""
        with self._turn:
            if phase == Phase.ITERATION:
                self._lasted.append(end_ns - start_ns)
            if (phase == Phase.ITERATION and not self._choosing) or phase == Phase.TRAINING:
                return [record]
            if phase == Phase.ITERATION:
                return self._decide(iteration, record)
            if iteration < 0 or self._slow.get(iteration, False):
                return self._take([record])
            if iteration in self._slow or self._waiting >= MOST_HELD:
                self._drop(1)
                return []
            self._held.setdefault(iteration, []).append(record)
            self._began_ns.setdefault(iteration, start_ns)
            self._waiting += 1
            return []

    def by_now(self, now_ns: int) -> list[bytes]:
        """What waits of iterations that are slow already: a rank that hangs may be killed."""
        with self._turn:
            if not self._held:
                return []
            from_ns = slow_from_ns(self._lasted)
            slow = [each for each, began_ns in self._began_ns.items() if now_ns - began_ns >= from_ns]
            for each in slow:
                self._remember(each, slow=True)
            return [record for each in slow for record in self._release(each, slow=True)]

    def end(self) -> list[bytes]:
        """What waits: no iteration that is under way will end, and what the last ones did is kept."""
        with self._turn:
            return [record for each in sorted(self._held) for record in self._release(each, slow=True)]

    def _decide(self, iteration: int, record: bytes) -> list[bytes]:
        """``record``: its ITERATION."""
        slow = ended_slowly(self._lasted)
        kept: list[bytes] = []
        if slow or self._kept < self._of_others:
            kept += self._take([record])
        else:
            self._drop(1)
        kept += self._release(iteration, slow=slow)
        self._remember(iteration, slow=slow)
        for old in [each for each in self._held if each < iteration - DECIDED]:  # its end was never recorded
            self._release(old, slow=False)
        return kept

    def _remember(self, iteration: int, *, slow: bool) -> None:
        self._slow[iteration] = slow
        if len(self._slow) > DECIDED:
            del self._slow[next(iter(self._slow))]

    def _release(self, iteration: int, *, slow: bool) -> list[bytes]:
        held = self._held.pop(iteration, [])
        self._began_ns.pop(iteration, None)
        self._waiting -= len(held)
        if slow:
            return self._take(held)
        self._drop(len(held))
        return []

    def _take(self, records: list[bytes]) -> list[bytes]:
        """Those for which there is room."""
        kept = records[: max(0, self._most - self._kept)]
        self._kept += len(kept)
        if len(kept) < len(records):
            self._drop(len(records) - len(kept))
        return kept
