"""The sending end of one directed link: takes turns from its queue and puts segments on the wire.

A SEND span begins when its first byte goes into the socket and ends when the kernel has taken its last; its number on
the link is given when it begins, so that numbers are the order on the wire. Payloads go from the strategy's memory to
the kernel without a copy between.
"""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import Callable

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Message
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recorder import Recorder
from e2c_dl.worlds.live.frames import HEADER_BYTES, FrameType, Header, header_of
from e2c_dl.worlds.live.queue import Posted, SendQueue
from e2c_dl.worlds.live.sockets import SegmentPace, close_soon, writable

_UPDATE_EVERY = 8  # frames between two looks at what the link delivers


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
        self._posted = 0
        self._begun = 0
        self._frames = 0
        self._wake = asyncio.Event()
        self._closing = False
        self._lost: PeerLost | None = None
        loop = asyncio.get_running_loop()
        self.tasks = (loop.create_task(self._pump()), loop.create_task(self._watch()))

    @property
    def queued_bytes(self) -> int:
        """Bytes of payload that wait to be handed to the kernel."""
        return self._queue.queued_bytes

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
            self.tasks[0].cancel()

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
        """One segment of ``posted``."""
        if self._frames % _UPDATE_EVERY == 0:
            self._pace.update()
        self._frames += 1
        if not posted.begun:
            self._queue.begin(posted, self._begun, self._recorder.clock())
            self._begun += 1
        segment_bytes = min(posted.left_bytes, self._pace.segment_bytes)
        await self._transmit(_frame(posted, segment_bytes))
        if self._lost is None and self._queue.sent(posted, segment_bytes):
            self._ended(posted)

    def _ended(self, posted: Posted) -> None:
        message = posted.message
        payload_bytes = 0 if message.payload is None else message.payload.nbytes
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
                done = self.connection.sendmsg(buffers)
            except BlockingIOError:
                await writable(self.connection)
                waited = True
                continue
            while buffers and done >= len(buffers[0]):
                done -= len(buffers.pop(0))
            if buffers:
                buffers[0] = buffers[0][done:]
        if not waited:
            await asyncio.sleep(0)

    async def _watch(self) -> None:
        """The peer sends nothing here: anything but silence is the end of the connection."""
        try:
            content = await asyncio.get_running_loop().sock_recv(self.connection, 1)
            what = "it sent data where none is due" if content else "it closed the connection"
        except OSError as error:
            what = f"the connection to it broke: {error.strerror or error}"
        if not self._closing:
            self._on_lost(PeerLost(self._dst, what))


def _frame(posted: Posted, segment_bytes: int) -> list[memoryview]:
    """Header and next segment of ``posted``."""
    header = header_of(posted.message, posted.seq)
    first = header.payload_bytes == posted.left_bytes
    header = dataclasses.replace(
        header, type=FrameType.MESSAGE if first else FrameType.MORE, segment_bytes=segment_bytes
    )
    buffers = [memoryview(header.pack())]
    if posted.message.payload is not None and segment_bytes:
        begin = header.payload_bytes - posted.left_bytes
        buffers.append(posted.message.payload.data.cast("B")[begin : begin + segment_bytes])
    return buffers
