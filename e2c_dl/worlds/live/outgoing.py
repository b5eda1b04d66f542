"""The sending end of one directed link: a queue ordered by priority, then by time, and one frame at a time on the wire.

A SEND span begins when its first byte goes into the socket and ends when the kernel has taken its last; its number on
the link is given when it begins, so that numbers are the order on the wire.
"""

from __future__ import annotations

import asyncio
import heapq
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from e2c_dl.errors import PeerLost
from e2c_dl.strategies.base import Message
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recorder import Recorder
from e2c_dl.worlds.live.frames import HEADER_BYTES, FrameType, Header, header_of


@dataclass(order=True)
class _Posted:
    """A message that waits for its turn. Lower priority values leave first; equal ones in order of posting."""

    priority: int
    number: int
    message: Message = field(compare=False)
    posted_ns: int = field(compare=False)
    task: int = field(compare=False)
    sent: asyncio.Future[int] = field(compare=False)  # resolves to the message's number on the link


class Outgoing:
    """Sends what is posted over ``connection`` to rank ``dst``; ``on_lost`` hears once if that rank goes away."""

    def __init__(
        self, connection: socket.socket, *, src: int, dst: int, recorder: Recorder, on_lost: Callable[[PeerLost], None]
    ) -> None:
        self._connection = connection
        self._src, self._dst = src, dst
        self._recorder = recorder
        self._on_lost = on_lost
        self._queue: list[_Posted] = []
        self._sending: _Posted | None = None
        self._posted = 0
        self._sent = 0
        self._wake = asyncio.Event()
        self._closing = False
        self._lost: PeerLost | None = None
        loop = asyncio.get_running_loop()
        self.tasks = (loop.create_task(self._pump()), loop.create_task(self._watch()))

    def post(self, message: Message, priority: int, posted_ns: int, task: int) -> asyncio.Future[int]:
        """Queue ``message``; the future resolves to its number on the link, or fails with PeerLost.

        Raises: FrameError if it cannot be sent as it is.
        """
        header_of(message, 0)  # a message that cannot travel is refused here, where the strategy can be blamed
        sent: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._lost is not None:
            sent.set_exception(self._lost)
            return sent
        heapq.heappush(self._queue, _Posted(priority, self._posted, message, posted_ns, task, sent))
        self._posted += 1
        self._wake.set()
        return sent

    async def close(self) -> None:
        """Send what is queued, say goodbye, and end this direction of the connection."""
        self._closing = True
        self._wake.set()
        await self.tasks[0]

    def abort(self) -> None:
        """Close the connection as it is; the peer will see it lost."""
        self._closing = True
        for task in self.tasks:
            task.cancel()
        self._connection.close()

    def lose(self, why: PeerLost) -> None:
        """Fail everything that is queued, and whatever is posted from now on."""
        if self._lost is None:
            self._lost = why
            if self._sending is not None:
                _fail(self._sending.sent, why)
            while self._queue:
                _fail(self._queue.pop().sent, why)
            self._wake.set()

    async def _pump(self) -> None:
        while self._lost is None:
            while self._queue:
                self._sending = heapq.heappop(self._queue)
                await self._send(self._sending)
                self._sending = None
            if self._closing:
                break
            self._wake.clear()
            await self._wake.wait()
        if self._lost is None:
            await self._farewell()

    async def _send(self, posted: _Posted) -> None:
        message, seq = posted.message, self._sent
        header = header_of(message, seq)
        buffers = [memoryview(header.pack())]
        if message.payload is not None and header.payload_bytes:
            buffers.append(message.payload.data.cast("B"))
        start_ns = self._recorder.clock()
        try:
            await self._transmit(buffers)
        except OSError as error:
            self._on_lost(PeerLost(self._dst, f"sending to it failed: {error.strerror or error}"))
            return
        end_ns = self._recorder.clock()
        self._sent += 1
        self._recorder.record(
            Phase.SEND, posted.posted_ns, start_ns, end_ns, task=posted.task, iteration=message.iteration,
            bucket=message.bucket, src=self._src, dst=self._dst, seq=seq, nbytes=HEADER_BYTES + header.payload_bytes,
        )  # fmt: skip
        if not posted.sent.done():  # it may have been cancelled, or failed together with the link
            posted.sent.set_result(seq)

    async def _transmit(self, buffers: list[memoryview]) -> None:
        """All of ``buffers`` into the socket: in one call if the kernel has room, else as room becomes free."""
        try:
            done = self._connection.sendmsg(buffers)
        except BlockingIOError:
            done = 0
        loop = asyncio.get_running_loop()
        for buffer in buffers:
            if done < len(buffer):
                await loop.sock_sendall(self._connection, buffer[done:])
            done = max(0, done - len(buffer))

    async def _farewell(self) -> None:
        try:
            await self._transmit([memoryview(Header(type=FrameType.GOODBYE, kind="", seq=self._sent).pack())])
            self._connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._on_lost(PeerLost(self._dst, f"saying goodbye to it failed: {error.strerror or error}"))

    async def _watch(self) -> None:
        """The peer sends nothing here: anything but silence is the end of the connection."""
        try:
            content = await asyncio.get_running_loop().sock_recv(self._connection, 1)
            what = "it sent data where none is due" if content else "it closed the connection"
        except OSError as error:
            what = f"the connection to it broke: {error.strerror or error}"
        if not self._closing:
            self._on_lost(PeerLost(self._dst, what))


def _fail(future: asyncio.Future[int], why: PeerLost) -> None:
    if not future.done():
        future.set_exception(why)
