"""The receiving end of one directed link: segments off a connection, straight into arrays, into the mailboxes.

A payload's memory is taken when its message begins, and filled in place. One read asks for the rest of a segment and
the header behind it, so that a long message costs one call per piece that the kernel has.

What bounds the memory: a peer may have begun MOST_UNFINISHED messages, each no larger than the model; what has come and
nobody has asked for is counted by the mailboxes. A payload's memory is used again once nobody looks at it: fresh pages
cost more than what is copied into them. Whoever received a payload may keep it, or views of it, as long as it likes: a
view refers to the memory that it looks into, so the count of references says whether anybody does.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import PeerLost
from e2c_dl.strategies.base import Array
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.worlds.live.carried import Carried
from e2c_dl.worlds.live.frames import HEADER_BYTES, MOST_UNFINISHED, FrameError, FrameType, Header, message_of
from e2c_dl.worlds.live.mailbox import Mail, Mailboxes
from e2c_dl.worlds.live.sockets import readable

NO_TASK = -2
KEPT = 4
LEAST_BYTES = 1 << 18  # below, the allocator's own pages are warm
_WAKE_BYTES = 65536  # on a slow link every packet would wake the loop: wait for this much, or for what is missing
_WAKES = 4  # of a large segment: its sender found the link fast

_NOTHING = memoryview(bytearray())

Pages = npt.NDArray[np.uint8]


@dataclass
class _Unfinished:
    """A message that has begun."""

    header: Header
    payload: Array | None
    start_ns: int
    filled_bytes: int = 0
    frames: int = 0


class Incoming:
    """Puts every message that comes from ``src`` over ``connection`` into ``mailboxes``."""

    def __init__(
        self, connection: socket.socket, *, src: int, dst: int, largest_payload_bytes: int,
        mailboxes: Mailboxes, recorder: Recorder,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._src, self._dst = src, dst
        self._largest_payload_bytes = largest_payload_bytes
        self._mailboxes = mailboxes
        self._recorder = recorder
        self._head = bytearray(HEADER_BYTES)
        self._head_bytes = 0  # of the next header that are there
        self._memory = PayloadMemory()
        self.came_bytes = 0  # so far, whatever they are
        self._begun = 0
        self._unfinished: dict[int, _Unfinished] = {}
        self._wake_bytes = 1  # SO_RCVLOWAT as it is
        self._carried = Carried()
        self._untold = b""  # of a report

    async def receive_all(self) -> None:
        """Return when ``src`` says goodbye.

        Raises: PeerLost, if the connection ends otherwise; TrainingError, if the trace cannot be written, or too many
        messages come that nobody asks for.
        """
        try:
            while (header := await self._header()).type is not FrameType.GOODBYE:
                await self._segment(header)
        except EOFError as error:
            raise PeerLost(self._src, "it closed the connection without goodbye") from error
        except OSError as error:
            raise PeerLost(self._src, f"the connection from it broke: {error.strerror or error}") from error
        except FrameError as error:
            raise PeerLost(self._src, f"what it sent makes no sense: {error}") from error

    async def _header(self) -> Header:
        """The next header. Raises: FrameError if it is none, or not one that may come now."""
        await self._fill(_NOTHING, HEADER_BYTES)
        self._head_bytes = 0
        header = Header.unpack(self._head, self._largest_payload_bytes)
        more = header.type is FrameType.MORE
        if header.seq not in self._unfinished if more else header.seq != self._begun:
            raise FrameError(f"frame {header.seq} of type {header.type.name} came where frame {self._begun} was due")
        if header.type is FrameType.GOODBYE and self._unfinished:  # goodbye promises that nothing is missing
            raise FrameError(f"goodbye came before the end of message {min(self._unfinished)}")
        return header

    async def _segment(self, header: Header) -> None:
        """Take in the segment that follows ``header``; its message is delivered when complete."""
        unfinished = self._begin(header) if header.type is FrameType.MESSAGE else self._unfinished[header.seq]
        whole = unfinished.header
        begin, end = unfinished.filled_bytes, unfinished.filled_bytes + header.segment_bytes
        if header.payload_bytes != whole.payload_bytes or end > whole.payload_bytes:
            raise FrameError(f"a segment of message {header.seq} ends at {end} of {whole.payload_bytes} bytes")
        if unfinished.payload is not None and header.segment_bytes:
            await self._fill(unfinished.payload.data.cast("B")[begin:end])
        unfinished.filled_bytes, unfinished.frames = end, unfinished.frames + 1
        if end == whole.payload_bytes:  # at once for a message without payload: its header is all of it
            self._deliver(self._unfinished.pop(header.seq))

    def _begin(self, header: Header) -> _Unfinished:
        if len(self._unfinished) >= MOST_UNFINISHED:  # each has its memory already: this bounds it
            raise FrameError(f"message {header.seq} begins before any of {MOST_UNFINISHED} others has ended")
        dtype = header.dtype
        payload = None if dtype is None else self._memory.vector(dtype, header.payload_bytes)
        unfinished = self._unfinished[header.seq] = _Unfinished(header, payload, self._recorder.clock())
        self._begun += 1
        return unfinished

    def _deliver(self, complete: _Unfinished) -> None:
        self._carried.drained(self.came_bytes, due=False)
        self._tell()
        header = complete.header  # the first: it has what all frames of the message share
        self._recorder.record(
            Phase.RECEIVE, complete.start_ns, complete.start_ns, self._recorder.clock(), task=NO_TASK,
            iteration=header.iteration, bucket=header.bucket, src=self._src, dst=self._dst, seq=header.seq,
            nbytes=complete.frames * HEADER_BYTES + header.payload_bytes,
        )  # fmt: skip
        self._mailboxes.put(Mail(message_of(header, complete.payload, self._src), header.seq))

    async def _fill(self, room: memoryview, head_bytes: int = 0) -> None:
        """Fill ``room``, then ``head_bytes`` of the next header; more of it comes along if it is there.

        Raises: EOFError if the connection ends before; OSError.
        """
        head, waited = memoryview(self._head), False
        enough_bytes = max(_WAKE_BYTES, len(room) // _WAKES)
        while room or self._head_bytes < head_bytes:
            try:
                count = self._connection.recvmsg_into([room, head[self._head_bytes :]])[0]
            except BlockingIOError:
                self._carried.drained(self.came_bytes, due=bool(self._unfinished))
                await self._wait(min(enough_bytes, len(room) or head_bytes - self._head_bytes))
                waited = True
                continue
            if not count:  # the end of the stream: of a peer that is there, at least one byte comes
                raise EOFError
            self.came_bytes += count
            taken = min(count, len(room))
            room = room[taken:]
            self._head_bytes += count - taken
        if not waited:  # then the loop had its turn already
            await asyncio.sleep(0)  # a connection that always has more would keep the loop from everything else

    def _tell(self) -> None:
        """Let the sender know what its link carries; what does not fit now goes with a later message."""
        self._untold = self._untold or self._carried.report()
        if self._untold:
            with contextlib.suppress(OSError):  # that of a connection which is gone is raised where it is read
                self._untold = self._untold[self._connection.send(self._untold) :]

    async def _wait(self, wake_bytes: int) -> None:
        if wake_bytes != self._wake_bytes:  # a system call less each time it stays as it is
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wake_bytes)
            self._wake_bytes = wake_bytes
        await readable(self._connection)


class PayloadMemory:
    """Payload memory of one link; keeps at most KEPT pieces that were handed out."""

    def __init__(self) -> None:
        self._pieces: list[Pages] = []

    def vector(self, dtype: np.dtype[Any], size_bytes: int) -> Array:
        """A vector of ``size_bytes``, its values whatever they were."""
        if size_bytes < LEAST_BYTES:
            return np.empty(size_bytes // dtype.itemsize, dtype=dtype)
        for index in range(len(self._pieces)):
            if self._pieces[index].nbytes == size_bytes and _references(self._pieces, index) == _UNUSED:
                return self._pieces[index].view(dtype)  # the view refers to the piece, which is therefore in use again
        self._pieces = [*self._pieces[-(KEPT - 1) :], np.empty(size_bytes, dtype=np.uint8)]
        return self._pieces[-1].view(dtype)


def _references(pieces: list[Pages], index: int) -> int:
    """How many refer to a piece, whatever this very look adds to it."""
    return sys.getrefcount(pieces[index])


_UNUSED = _references([np.empty(1, dtype=np.uint8)], 0)  # interpreters differ in what a look adds
