"""The sending end of one directed link: a queue by priority, and what puts its segments on the wire, turn by turn.

Turns are segments, so that an urgent message overtakes a long one that is already on its way. Lower priority values
leave first; messages of equal priority leave one after the other, in order of posting. Every sixteenth turn goes to
whatever was posted first of all: so the least urgent message still gets a sixteenth of the link.

A SEND span begins when its first byte goes into the socket and ends when the kernel has taken its last; its number on
the link is given when it begins, so that numbers are the order on the wire. Payloads go from the strategy's memory to
the kernel without a copy between: what waits costs the memory that the strategy holds anyway. A strategy that posts
faster than the link sends, and never awaits what it posted, is stopped at ``limit_bytes``.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import LinkEstimate, Message
from e2c_dl.strategies.seam.messages import size_bytes
from e2c_dl.trace.model import Phase
from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.worlds.live.carried import REPORT_BYTES, Heard, ReportError
from e2c_dl.worlds.live.frames import HEADER_BYTES, MOST_UNFINISHED, FrameType, Header, contents, header_of
from e2c_dl.worlds.live.sockets import SegmentPace, close_soon, exactly, told_of, writable

FAIR_TURN = 16  # strict priority starved the last bucket of a gradient, and was slower than first in, first out
_UPDATE_EVERY = 8  # frames between two looks at what the link delivers


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
        # a message by itself may be of any size
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
        if self._unfinished >= MOST_UNFINISHED:  # the receiver, which has memory taken for each, refuses more
            heads = [head for head in heads if head.begun]
        fair = self._turns % FAIR_TURN == 0
        return min(heads, key=lambda head: head.number if fair else head.priority)

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


class Outgoing:
    """Sends what is posted over ``connection`` to rank ``dst``; ``on_lost`` hears once if that rank goes away."""

    def __init__(
        self, connection: socket.socket, *, src: int, dst: int, limit_bytes: int, recorder: Recorder,
        on_lost: Callable[[PeerLost], None],
    ) -> None:  # fmt: skip
        self.connection = connection
        self._src, self._dst = src, dst
        self._recorder = recorder
        self._on_lost = on_lost
        self._queue = SendQueue(limit_bytes)
        self._pace = SegmentPace(connection)
        self._heard = Heard()
        self._posted = 0
        self._begun = 0
        self._frames = 0
        self._wake = asyncio.Event()
        self._closing = False
        self._lost: PeerLost | None = None
        loop = asyncio.get_running_loop()
        self.watching = loop.create_task(self._watch())
        self.tasks = (loop.create_task(self._pump()), self.watching)

    @property
    def queued_bytes(self) -> int:
        """Bytes of payload that wait to be handed to the kernel."""
        return self._queue.queued_bytes

    def estimate(self) -> LinkEstimate | None:
        """What the link has done lately; None: its receiver has told nothing yet, or the connection is gone."""
        heard = self._heard.rate()
        with contextlib.suppress(OSError):
            round_trip_us = tcp_info.field(told_of(self.connection), "srtt_us")
            if heard is not None and round_trip_us:
                return LinkEstimate(rate_bps=heard[0], round_trip_s=round_trip_us / 1e6, age_s=heard[1])
        return None

    def post(self, message: Message, priority: int, posted_ns: int, task: int) -> asyncio.Future[int]:
        """Queue ``message``; the future resolves to its number on the link, or fails with PeerLost.

        Raises: FrameError if it cannot be sent as it is; TrainingError if too much is queued, or after goodbye.
        """
        payload_bytes = header_of(message, 0).payload_bytes  # what cannot travel is refused here, to the strategy
        sent: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._lost is not None:
            sent.set_exception(self._lost)
            return sent
        if self._closing:
            raise TrainingError(
                f"rank {self._src} has ended its training, and sends {message.kind!r} to rank {self._dst}; "
                "let the strategy's run return after the tasks it spawned, or spawn them in the background"
            )
        self._queue.put(Posted(message, priority, posted_ns, task, sent, self._posted, payload_bytes))
        self._posted += 1
        self._wake.set()
        return sent

    async def close(self) -> None:
        """Send what is queued, say goodbye, and end this direction of the connection."""
        self._closing = True
        self._wake.set()
        await asyncio.wait({self.tasks[0]})

    def abort(self) -> None:
        """Close the connection as it is; the peer will see it lost."""
        self._closing = True
        for task in self.tasks:
            task.cancel()
        close_soon(self.connection)

    def lose(self, why: PeerLost) -> None:
        """Fail everything that is queued, and whatever is posted from now on."""
        if self._lost is None:
            self._lost = why
            for posted in self._queue.clear():
                if not posted.sent.done():
                    posted.sent.set_exception(why)
            self.tasks[0].cancel()  # it may be waiting for room in the kernel, which never comes

    async def _pump(self) -> None:
        try:
            while True:
                while self._queue:
                    await self._send(self._queue.turn())
                if self._closing:
                    break
                self._wake.clear()
                await self._wake.wait()
            await self._transmit([memoryview(Header(type=FrameType.GOODBYE, kind="", seq=self._begun).pack())])
            self.connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._on_lost(PeerLost(self._dst, f"sending to it failed: {error.strerror or error}"))

    async def _send(self, posted: Posted) -> None:
        if self._frames % _UPDATE_EVERY == 0:  # a system call per frame would cost more than it tells
            self._pace.update()
        self._frames += 1
        if not posted.begun:
            self._queue.begin(posted, self._begun, self._recorder.clock())
            self._begun += 1  # counted as they begin, not as they are posted: the number is the order on the wire
        segment_bytes = min(posted.left_bytes, self._pace.segment_bytes)  # a larger one could not be overtaken
        await self._transmit(_frame(posted, segment_bytes))
        if self._lost is None and self._queue.sent(posted, segment_bytes):  # lost meanwhile: the queue is empty
            self._ended(posted)

    def _ended(self, posted: Posted) -> None:
        message = posted.message
        payload_bytes = size_bytes(message.payload)
        self._recorder.record(
            Phase.SEND, posted.posted_ns, posted.start_ns, self._recorder.clock(), task=posted.task,
            iteration=message.iteration, bucket=message.bucket, src=self._src, dst=self._dst, seq=posted.seq,
            nbytes=posted.frames * HEADER_BYTES + payload_bytes,
        )  # fmt: skip
        if not posted.sent.done():  # it may have been cancelled
            posted.sent.set_result(posted.seq)

    async def _transmit(self, buffers: list[memoryview]) -> None:
        """All of ``buffers`` into the socket, as it has room; other tasks get their turn in between."""
        waited = False
        while buffers:
            try:
                done = self.connection.sendmsg(buffers)  # at once: with TCP_NODELAY, two calls would be two packets
            except BlockingIOError:
                await writable(self.connection)
                waited = True
                continue
            while buffers and done >= len(buffers[0]):
                done -= len(buffers.pop(0))
            if buffers:
                buffers[0] = buffers[0][done:]
        if not waited:
            await asyncio.sleep(0)  # a link that always has room would keep the loop from everything else

    async def _watch(self) -> None:
        """The peer tells what it received, until the end of the connection; then, this direction has ended, too."""
        try:
            while True:
                self._heard.take(await exactly(self.connection, REPORT_BYTES))
        except (EOFError, ReportError) as error:
            what = str(error)
        except OSError as error:
            what = f"the connection to it broke: {error.strerror or error}"
        if not self._closing:  # a peer that has ended may close first
            self._on_lost(PeerLost(self._dst, what))


def _frame(posted: Posted, segment_bytes: int) -> list[memoryview]:
    header = header_of(posted.message, posted.seq)
    first = header.payload_bytes == posted.left_bytes
    header = replace(header, type=FrameType.MESSAGE if first else FrameType.MORE, segment_bytes=segment_bytes)
    begin = header.payload_bytes - posted.left_bytes
    return [memoryview(header.pack()), *_between(posted.message, begin, begin + segment_bytes)]


def _between(message: Message, begin: int, end: int) -> list[memoryview]:
    """Bytes ``begin`` to before ``end`` of the payload: as many views as arrays lie in there."""
    found, at = [], 0
    for piece in contents(message.payload):
        if at < end and begin < at + len(piece):
            found.append(piece[max(0, begin - at) : end - at])
        at += len(piece)
    return found
