"""A rate with a queue before it, as arithmetic: what a link has of its own, and what the links of a bottleneck share.

::

    enter ---- waits in the queue ----|--- is sent: size * 8 / rate ---|--- travels: delay ---| due
                                      free_s (virtual clock)           departure_s

    departure_s = max(now, free_s) + wire_bytes * 8 / rate_bps;   free_s = departure_s;   due = departure_s + delay

Both times are planned when a piece enters, and planned anew for everything that has not departed when a rate or a delay
changes: what is being sent goes on at the new rate with the bits that are left of it, in the order in which it came.
What has departed travels as before. Before a bottleneck nothing travels: a piece is due there when it departs.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from itertools import count, islice, takewhile
from typing import Protocol

from e2c_dl.emulation.link_values import HOLD_S
from e2c_dl.emulation.relay.frames import FrameShape, cut, shape

_NUMBERS = count()  # tells queues apart where two are due at the same moment: a heap compares what comes next


class Flow(Protocol):
    """What a queue asks and tells of the link whose pieces it holds."""

    in_flight_bytes: int
    last_due_s: float  # nothing of it that keeps its order is due later

    def __hash__(self) -> int: ...

    @property
    def least_rate_bps(self) -> float | None: ...

    def due_s(self, departure_s: float, spread: float | None, /) -> float: ...

    def carry(self, segments: int, wire_bytes: int, /) -> None: ...

    def lose_in_bottleneck(self, buffer_bytes: int, segments: int, /) -> None: ...

    def handed_over(self, piece: FramePiece, lateness_s: float, /, *, taken: bool) -> None: ...


def hold_segments(form: FrameShape, rate_bps: float | None) -> int:
    """How many segments of a frame go in one piece at this rate."""
    full = form.headers_bytes + form.segment_bytes
    if rate_bps is None or form.segments * full <= rate_bps * HOLD_S / 8:
        return form.segments
    return max(1, int(rate_bps * HOLD_S / 8 // full))


def fitting(form: FrameShape, first: int, segments: int, room_bytes: float) -> int:
    """How many of ``segments`` segments from ``first`` on fit into ``room_bytes``."""
    if form.wire_bytes(first, segments) <= room_bytes:
        return segments
    # Only the last segment of a frame may be short, and it is the first to find no room: all others are full.
    return max(0, min(segments - 1, int(room_bytes // (form.headers_bytes + form.segment_bytes))))


@dataclass(slots=True, eq=False)
class FramePiece:
    """A frame, or consecutive segments of one, on its way over ``link`` to the host of index ``dst``."""

    link: Flow
    dst: int
    buffer: bytes
    segments: int
    wire_bytes: int
    spread: float | None  # of its delay, in units of the jitter; None: it skips the delay
    departure_s: float = 0.0
    entry: int = 0  # its number in the queue where it is; what is planned under another number counts no more
    order_s: float = 0.0  # before it, nothing ordered of its link was due later than this


class LinkQueue:
    """A queue, a rate, and what has entered and was not handed on yet. ``shared``: what comes next."""

    def __init__(self, rate_bps: float | None, limit_bytes: int, shared: NextQueue | None = None) -> None:
        self.rate_bps, self.limit_bytes, self.shared = rate_bps, limit_bytes, shared
        self.number = next(_NUMBERS)
        self.event_s = math.inf  # when the switch will ask for what is due; its own note
        self.flight: list[tuple[float, int, FramePiece]] = []  # a heap of (due, number in order of entry, piece)
        self._entered = 0
        self._free_s = 0.0

    def room_bytes(self, now_s: float) -> float:
        """How much more the queue takes. Only with a rate: without one nothing waits."""
        if self.rate_bps is None:
            return math.inf
        return self.limit_bytes - max(0.0, self._free_s - now_s) * self.rate_bps / 8

    def enter(self, now_s: float, piece: FramePiece, sent_bits: float = 0.0) -> None:
        """Plans ``piece``, of which ``sent_bits`` are already through, behind what has entered before."""
        if self.rate_bps is None:
            departure_s = max(now_s, self._free_s)  # an older rate may still hold it back: nothing overtakes
        else:
            departure_s = max(now_s, self._free_s) + (piece.wire_bytes * 8 - sent_bits) / self.rate_bps
        self._free_s = piece.departure_s = departure_s
        due_s = departure_s if self.shared is not None else piece.link.due_s(departure_s, piece.spread)
        self._entered += 1
        piece.entry = self._entered
        heapq.heappush(self.flight, (due_s, self._entered, piece))

    def handed_on(self, due_s: float) -> None:
        """What came first was due at ``due_s`` and is handed on: whoever serves one by one begins with the next."""

    def change(self, now_s: float, rate_bps: float | None, limit_bytes: int) -> None:
        """From now on this rate and this limit; all that has not departed is planned anew. Nothing is dropped."""
        before_bps, self.rate_bps, self.limit_bytes = self.rate_bps, rate_bps, limit_bytes
        planned = [one for one in self.flight if one[2].entry == one[1]]  # what was planned anew is still in the heap
        waiting = sorted((one for one in planned if one[2].departure_s > now_s), key=lambda one: one[1])
        if not waiting:
            return
        self.flight = [one for one in planned if one[2].departure_s <= now_s]
        heapq.heapify(self.flight)
        for link in {one[2].link for one in waiting} if self.shared is None else ():
            link.last_due_s = max((due_s for due_s, _, piece in self.flight if piece.link is link), default=now_s)
        first = waiting[0][2]
        sent_bits = 0.0
        if before_bps is not None:
            sent_bits = max(0.0, first.wire_bytes * 8 - (first.departure_s - now_s) * before_bps)
        self._free_s = now_s
        for _, _, piece in waiting:
            for part in self._parts(piece):
                done_bits = min(sent_bits, part.wire_bytes * 8.0)
                self.enter(now_s, part, done_bits)
                sent_bits -= done_bits

    def _parts(self, piece: FramePiece) -> list[FramePiece]:
        """``piece`` in pieces that do not hold this queue, or the one behind it, for too long at the present rates."""
        if piece.segments == 1:
            return [piece]
        form = shape(piece.buffer)
        hold = hold_segments(form, piece.link.least_rate_bps if self.shared is not None else self.rate_bps)
        if hold >= form.segments:
            return [piece]
        firsts = range(0, form.segments, hold)
        parts = [_part(piece, form, first, min(hold, form.segments - first)) for first in firsts]
        piece.link.in_flight_bytes += sum(len(part.buffer) for part in parts) - len(piece.buffer)
        return parts


class NextQueue(LinkQueue, ABC):
    """A queue to which others hand their pieces on."""

    @abstractmethod
    def admit(self, now_s: float, piece: FramePiece) -> None:
        """Takes ``piece``, which was due there at ``now_s``, or drops it."""


class SharedQueue(NextQueue):
    """The queue that the links of a bottleneck share: first come, first served.

    When its queue is full, the link that has most in it loses what came last of it. Were it always the newcomer, then
    of two links that send in step the one that comes just after a departure would find room each time, and the other
    never (Floyd and Jacobson, On Traffic Phase Effects in Packet-Switched Gateways, 1992); hosts beside each other on
    real links are not in step. As shares of a first-come queue are shares of the rate, equal demand gets equal rates.
    Source: longest queue drop, Suter et al., Design Considerations for Supporting TCP with Per-flow Queueing, 1998.

    Counters: ``segments`` (``wire_bytes`` in all) were carried, ``dropped_queue`` segments found its queue full.
    """

    REACH = 64  # pieces behind one that has to go, at most: they are planned anew

    def __init__(self, rate_bps: float, limit_bytes: int) -> None:
        super().__init__(rate_bps, limit_bytes)
        self.segments = self.wire_bytes = self.dropped_queue = 0
        self._waiting: deque[FramePiece] = deque()  # in order of entry, and perhaps some that have departed
        self._held_bytes: dict[Flow, int] = {}

    def admit(self, now_s: float, piece: FramePiece) -> None:
        """Takes ``piece`` from its link, or as much of it as the queue has room for or can make room for."""
        while self._waiting and self._waiting[0].departure_s <= now_s:
            departed = self._waiting.popleft()
            self._held_bytes[departed.link] -= departed.wire_bytes
        while piece.wire_bytes > (room := self.room_bytes(now_s)) and self._evict(now_s, piece):
            pass
        if piece.wire_bytes > room:
            form = shape(piece.buffer)
            kept = fitting(form, 0, form.segments, room)
            if kept == 0:
                self._drop(piece, len(piece.buffer), piece.segments)
                return
            whole, piece = piece, _part(piece, form, 0, kept)
            self._drop(whole, len(whole.buffer) - len(piece.buffer), whole.segments - kept)
        self._carry(piece, 1)
        self.enter(now_s, piece)

    def enter(self, now_s: float, piece: FramePiece, sent_bits: float = 0.0) -> None:
        piece.order_s = piece.link.last_due_s  # to be put back if it has to go
        self._waiting.append(piece)
        self._held_bytes[piece.link] = self._held_bytes.get(piece.link, 0) + piece.wire_bytes
        super().enter(now_s, piece, sent_bits)

    def change(self, now_s: float, rate_bps: float | None, limit_bytes: int) -> None:
        self._waiting.clear()  # all that waits enters again
        self._held_bytes.clear()
        super().change(now_s, rate_bps, limit_bytes)

    def _evict(self, now_s: float, newcomer: FramePiece) -> bool:
        """Whether the link that holds most, if that is no less than the newcomer's would, has lost its last piece."""
        link, held_bytes = max(self._held_bytes.items(), key=lambda one: one[1], default=(newcomer.link, 0))
        # At a tie the newcomer goes first: were it the other way round, who is one ahead would stay so.
        if link is newcomer.link or held_bytes < self._held_bytes.get(newcomer.link, 0) + newcomer.wire_bytes:
            return False
        behind = [*takewhile(lambda one: one.link is not link, islice(reversed(self._waiting), self.REACH))]
        if len(behind) == self.REACH:  # planning more of them anew would cost more than a fair turn is worth
            return False
        last = self._waiting[-1 - len(behind)]
        begins_s = last.departure_s - last.wire_bytes * 8 / (self.rate_bps or math.inf)
        if begins_s < now_s:
            return False  # it is being sent
        for piece in (*behind, last):
            self._waiting.pop()
            self._held_bytes[piece.link] -= piece.wire_bytes
            piece.link.last_due_s = piece.order_s
        last.entry = -1  # its place in the heap counts no more
        self._carry(last, -1)
        self._drop(last, len(last.buffer), last.segments)
        self._free_s = begins_s  # what was behind it moves up
        for piece in reversed(behind):
            self.enter(now_s, piece)
        return True

    def _carry(self, piece: FramePiece, sign: int) -> None:
        self.segments += sign * piece.segments
        self.wire_bytes += sign * piece.wire_bytes
        piece.link.carry(sign * piece.segments, sign * piece.wire_bytes)

    def _drop(self, piece: FramePiece, buffer_bytes: int, segments: int) -> None:
        self.dropped_queue += segments
        piece.link.lose_in_bottleneck(buffer_bytes, segments)


def _part(piece: FramePiece, form: FrameShape, first: int, segments: int) -> FramePiece:
    return FramePiece(
        link=piece.link,
        dst=piece.dst,
        buffer=cut(piece.buffer, form, first, segments),
        segments=segments,
        wire_bytes=form.wire_bytes(first, segments),
        spread=piece.spread,
    )
