"""Fair queueing of a rate that several flows share: a queue for each, served in turns, each kept short.

::

    flow a  [= = = = = =]--.   new flows first, then the others, in turns of QUANTUM bytes (deficit round robin)
    flow b  [=]------------+-> one at a time          a flow that waits longer than TARGET_S for INTERVAL_S loses its
    flow c  [= = =]--------'                          first, more and more often, until it waits less (CoDel)

So a flow that sends little does not wait for one that sends much. Sources: FQ-CoDel, RFC 8290, 4.1 and 4.2 (flows are
given, not hashed; nothing is marked for ECN); CoDel, RFC 8289, 5; with the values of RFC 8290, 5.2. Pure: who asks
knows the time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from e2c_dl.units import FULL_FRAME_BYTES

Item = TypeVar("Item")

QUANTUM_BYTES = FULL_FRAME_BYTES
TARGET_S = 0.005
INTERVAL_S = 0.1


class FlowQueue(Generic[Item]):
    """What waits of one flow, and since when; and what CoDel knows of it."""

    __slots__ = ("_above_s", "_before", "_count", "_dropping", "_next_s", "backlog_bytes", "deficit_bytes", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[float, int, Item]] = deque()  # since when, bytes
        self.backlog_bytes = self.deficit_bytes = 0
        self._above_s: float | None = None  # when it will have waited too long for too long
        self._dropping = False
        self._next_s = 0.0  # when the next is dropped
        self._count = self._before = 0  # dropped in this state, and in the one before when that ended

    def pop(self) -> tuple[int, Item]:
        """(bytes, item) that came first."""
        _, size_bytes, item = self.waiting.popleft()
        self.backlog_bytes -= size_bytes
        return size_bytes, item

    def take(self, now_s: float, dropped: list[Item]) -> tuple[int, Item] | None:
        """(bytes, item) that is served next, if there is one; what CoDel drops before it is added to ``dropped``."""
        first, late = self._first(now_s)
        if self._dropping:
            self._dropping = late
            while self._dropping and first is not None and now_s >= self._next_s:
                dropped.append(first[1])
                self._count += 1
                first, self._dropping = self._first(now_s)
                if self._dropping:
                    self._next_s += INTERVAL_S / math.sqrt(self._count)
        elif late and first is not None:
            dropped.append(first[1])
            first, _ = self._first(now_s)
            self._begin(now_s)
        return first

    def _begin(self, now_s: float) -> None:
        """Drop more and more often from now on; soon after the last time, as often as then."""
        more = self._count - self._before
        self._count = more if more > 1 and now_s - self._next_s < 16 * INTERVAL_S else 1
        self._dropping, self._before = True, self._count
        self._next_s = now_s + INTERVAL_S / math.sqrt(self._count)

    def _first(self, now_s: float) -> tuple[tuple[int, Item] | None, bool]:
        """(the first, whether it may be dropped: for INTERVAL_S all have waited TARGET_S)."""
        if not self.waiting:
            self._above_s = None
            return None, False
        waited_s = now_s - self.waiting[0][0]
        first = self.pop()
        if waited_s < TARGET_S or self.backlog_bytes <= QUANTUM_BYTES:
            self._above_s = None
        elif self._above_s is None:
            self._above_s = now_s + INTERVAL_S
        else:
            return first, now_s >= self._above_s
        return first, False


class FairQueue(Generic[Item]):
    """Items of ``limit_bytes`` at most; when there are more, the flow that has most loses its first.

    >>> queue: FairQueue[str] = FairQueue(10_000)
    >>> for item in ("a1", "a2", "a3"):
    ...     _ = queue.put(0.0, "a", item, 1514)
    >>> _ = queue.put(0.0, "b", "b1", 1514)
    >>> [queue.take(0.0)[0] for _ in range(4)]
    ['a1', 'b1', 'a2', 'a3']
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._flows: dict[Hashable, FlowQueue[Item]] = {}
        self._new: deque[FlowQueue[Item]] = deque()
        self._old: deque[FlowQueue[Item]] = deque()
        self._backlog_bytes = 0

    def put(self, now_s: float, flow: Hashable, item: Item, size_bytes: int) -> list[Item]:
        """What has to go for ``item``, of ``flow``; it may be the item itself."""
        own = self._flows.setdefault(flow, FlowQueue())
        if not own.waiting and own not in self._new and own not in self._old:
            own.deficit_bytes = QUANTUM_BYTES
            self._new.append(own)
        own.waiting.append((now_s, size_bytes, item))
        own.backlog_bytes += size_bytes
        self._backlog_bytes += size_bytes
        dropped = []
        while self._backlog_bytes > self.limit_bytes:
            gone_bytes, gone = max(self._flows.values(), key=lambda one: one.backlog_bytes).pop()
            self._backlog_bytes -= gone_bytes
            dropped.append(gone)
        return dropped

    def take(self, now_s: float) -> tuple[Item | None, list[Item]]:
        """(the item that is served next, if there is one; what was dropped before it)."""
        dropped: list[Item] = []
        while self._new or self._old:
            turn = self._new or self._old
            flow = turn[0]
            if flow.deficit_bytes <= 0:
                flow.deficit_bytes += QUANTUM_BYTES
                turn.popleft()
                self._old.append(flow)
                continue
            before_bytes = flow.backlog_bytes
            found = flow.take(now_s, dropped)
            self._backlog_bytes -= before_bytes - flow.backlog_bytes
            if found is not None:
                flow.deficit_bytes -= found[0]
                return found[1], dropped
            turn.popleft()
            if turn is self._new and self._old:
                self._old.append(flow)  # else it could be new again and again
        return None, dropped
