"""Which spans a trace keeps when its file may not grow for ever: those of slow iterations.

::

    0 ........ half of the cap ....... three quarters ....... the cap
    everything | spans wait in memory until their |             | TRAINING alone, once
               | iteration has ended; a slow      | slow ones'
               | one's are written, of others     | alone
               | only ITERATION                   |

An iteration is *slow* if it lasted at least :data:`SLOW` times the median of the last :data:`REMEMBERED`, itself
included. A span counts as :data:`SPAN_BYTES`, the most that it can take, whatever the file's true size: what is kept
depends on what was recorded, never on when it was written. Spans of no iteration are kept as they come. What comes for
an iteration after its end goes where the others went.
"""

from __future__ import annotations

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


class SlowOnly:
    """Hands spans on to ``keep``, or counts them with ``drop``; any thread may offer some."""

    def __init__(self, cap_bytes: int, keep: Callable[[bytes], None], drop: Callable[[int], None]) -> None:
        self._most = max(0, cap_bytes - _END_BYTES) // SPAN_BYTES  # spans
        self._half = self._kept = self._most // 2  # the first half is kept by whoever asks free()
        self._of_others = self._most * 3 // 4  # the last quarter is for slow iterations
        self._keep, self._drop = keep, drop
        self._recorded = 0  # spans
        self._choosing = False  # the first half is over
        self._held: dict[int, list[bytes]] = {}
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

    def offer(self, record: bytes, phase: int, iteration: int, lasted_ns: int) -> None:
        """A span that is not :meth:`free`."""
        with self._turn:
            if phase == Phase.ITERATION:
                self._lasted.append(lasted_ns)
            if (phase == Phase.ITERATION and not self._choosing) or phase == Phase.TRAINING:
                self._keep(record)
            elif phase == Phase.ITERATION:
                self._decide(iteration, record)
            elif iteration < 0 or self._slow.get(iteration, False):
                self._take(record)
            elif iteration in self._slow or self._waiting >= MOST_HELD:
                self._drop(1)
            else:
                self._held.setdefault(iteration, []).append(record)
                self._waiting += 1

    def end(self) -> None:
        """No iteration that is under way will end: what the last ones did is kept."""
        with self._turn:
            for iteration in sorted(self._held):
                self._release(iteration, slow=True)

    def _decide(self, iteration: int, record: bytes) -> None:
        """``record``: its ITERATION."""
        slow = ended_slowly(self._lasted)
        if slow or self._kept < self._of_others:
            self._take(record)
        else:
            self._drop(1)
        self._release(iteration, slow=slow)
        self._slow[iteration] = slow
        if len(self._slow) > DECIDED:
            del self._slow[next(iter(self._slow))]
        for old in [each for each in self._held if each < iteration - DECIDED]:  # its end was never recorded
            self._release(old, slow=False)

    def _release(self, iteration: int, *, slow: bool) -> None:
        held = self._held.pop(iteration, [])
        self._waiting -= len(held)
        for record in held:
            if slow:
                self._take(record)
            else:
                self._drop(1)

    def _take(self, record: bytes) -> None:
        if self._kept < self._most:
            self._kept += 1
            self._keep(record)
        else:
            self._drop(1)
