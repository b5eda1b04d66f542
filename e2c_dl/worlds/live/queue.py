"""Send queue of one link, and whose turn it is: urgent first, but nobody waits for ever.

Turns are segments, so that an urgent message overtakes a long one that is already on its way. Lower priority values
leave first; messages of equal priority leave one after the other, in order of posting. Every sixteenth turn goes to
whatever was posted first of all: so the least urgent message still gets a sixteenth of the link.

Payloads are not copied: what waits costs the memory that the strategy holds anyway. A strategy that posts faster than
the link sends, and never awaits what it posted, is stopped at ``limit_bytes``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Message
from e2c_dl.worlds.live.frames import MOST_UNFINISHED

FAIR_TURN = 16


@dataclass
class Posted:
    """A message that waits to be sent, or is being sent."""

    message: Message
    priority: int
    posted_ns: int
    task: int
    sent: asyncio.Future[int]  # resolves to the message's number on its link
    number: int  # in order of posting
    left_bytes: int  # of the payload
    seq: int = -1  # its number on the link, once it has begun
    start_ns: int = 0
    frames: int = 0

    @property
    def begun(self) -> bool:
        return self.seq >= 0


class SendQueue:
    """The messages posted on one link; pure but for the futures that it carries."""

    def __init__(self, limit_bytes: int) -> None:
        self.queued_bytes = 0
        self._limit_bytes = limit_bytes
        self._levels: dict[int, deque[Posted]] = {}  # by priority; none is empty
        self._unfinished = 0
        self._turns = 0

    def __bool__(self) -> bool:
        return bool(self._levels)

    def put(self, posted: Posted) -> None:
        """Let ``posted`` wait for its turn. Raises: TrainingError if more waits than is allowed."""
        if self._levels and self.queued_bytes + posted.left_bytes > self._limit_bytes:
            raise TrainingError(
                f"{self.queued_bytes + posted.left_bytes} bytes wait to be sent over one link, at most "
                f"{self._limit_bytes} may; let the strategy await what it sent before it sends "
                f"{posted.message.kind!r} again"
            )
        self.queued_bytes += posted.left_bytes
        self._levels.setdefault(posted.priority, deque()).append(posted)

    def turn(self) -> Posted:
        """Whose segment is sent next; the queue is not empty. At most MOST_UNFINISHED have begun at any time."""
        self._turns += 1
        heads = [level[0] for level in self._levels.values()]
        if self._unfinished >= MOST_UNFINISHED:
            heads = [head for head in heads if head.begun]
        if self._turns % FAIR_TURN == 0:
            chosen = min(heads, key=lambda head: head.number)
        else:
            chosen = min(heads, key=lambda head: head.priority)
        return chosen

    def begin(self, posted: Posted, seq: int, start_ns: int) -> None:
        """The first segment of ``posted``, whose turn it is, is about to leave."""
        posted.seq, posted.start_ns = seq, start_ns
        self._unfinished += 1

    def sent(self, posted: Posted, segment_bytes: int) -> bool:
        """Account for a segment of ``posted`` that has left; True if it was the last."""
        posted.left_bytes -= segment_bytes
        posted.frames += 1
        self.queued_bytes -= segment_bytes
        if posted.left_bytes:
            return False
        level = self._levels[posted.priority]
        level.popleft()
        if not level:
            del self._levels[posted.priority]
        self._unfinished -= 1
        return True

    def clear(self) -> list[Posted]:
        """Everything that was waiting, which waits no more."""
        waiting = [posted for level in self._levels.values() for posted in level]
        self._levels.clear()
        self.queued_bytes = self._unfinished = 0
        return waiting
