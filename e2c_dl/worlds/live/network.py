"""All connections of one rank: one TCP connection per directed link, opened by its source.

::

    listening    an address is known, others may connect; who does not hold the run's key is turned away
    connect()    the strategy's links are open, both ways; other links open when they are first used
    close()      every link has said goodbye, both ways          abort()  peers see this rank lost

What bounds the memory of messages, per link: QUEUED_MODELS payloads of the largest size (at least QUEUED_BYTES) that
wait to be sent, and as much that came and nobody asked for. Beyond that the run fails with the reason. What the kernel
holds is bounded by its own buffers, whose unsent part is kept to some milliseconds.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import LinkEstimate, Message
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.worlds.live import handshake
from e2c_dl.worlds.live.handshake import Door, Introduction, Refused
from e2c_dl.worlds.live.incoming import Incoming
from e2c_dl.worlds.live.mailbox import Mailboxes
from e2c_dl.worlds.live.outgoing import Outgoing
from e2c_dl.worlds.live.sockets import SocketOptions, buffers, close_soon, listener, tune
from e2c_dl.worlds.live.tasks import seen

CONNECT_WITHIN_S = 60.0
SILENT_S = 60.0  # while closing: what is still on its way over a slow link comes first, however long that takes
QUEUED_MODELS = 16
QUEUED_BYTES = 1 << 28
_RETRY_S = 0.2  # a peer that does not listen yet refuses at once
_ATTEMPT_S = 5.0  # a SYN that is lost is sent again after 1 and 3 s


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a rank listens for messages."""

    host: str
    port: int


class Network:
    """Sends from and receives for one rank. Made and used in one running event loop.

    ``key`` is the run's secret; ``failed`` resolves with an exception if something broke that is no single peer's loss,
    such as the trace's disk. ``congestion_control`` holds what is in force on the links that this rank opened, by
    destination rank.

    Raises: TrainingError if ``address`` cannot be listened on.
    """

    def __init__(
        self, address: str, port: int = 0, *, rank: int, size: int, key: bytes, recorder: Recorder,
        largest_payload_bytes: int, options: SocketOptions | None = None,
    ) -> None:  # fmt: skip
        self.rank, self.size = rank, size
        self._limit_bytes = max(QUEUED_MODELS * largest_payload_bytes, QUEUED_BYTES)
        self.mailboxes = Mailboxes(self._limit_bytes)
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failed.add_done_callback(seen)  # it may fail when nobody waits for it any more
        self.congestion_control: dict[int, str] = {}
        self._key = key
        self._recorder = recorder
        self._largest_payload_bytes = largest_payload_bytes
        self._options = options or SocketOptions()
        self._addresses: Sequence[Address] = ()
        self._outgoing: dict[int, Outgoing] = {}
        self._opening: dict[int, asyncio.Task[Outgoing]] = {}
        self._accepted: list[socket.socket] = []
        self._receiving: list[Incoming] = []
        self._incoming: set[int] = set()  # sources of links that are open, or were
        self._arrived = asyncio.Event()  # set at each new incoming link
        self._departed: set[int] = set()  # sources that said goodbye
        self._tasks: set[asyncio.Task[Any]] = set()
        self._readers: set[asyncio.Task[Any]] = set()
        try:
            listening = listener(address, port)
        except OSError as error:
            raise TrainingError(f"{address}:{port}: cannot listen there: {error.strerror}; free the port") from error
        bound = listening.getsockname()
        self.address = Address(host=bound[0], port=bound[1])
        self._door = Door(
            listening, channel=handshake.DATA, dst=rank, size=size, key=key, options=self._options,
            due=lambda src: src not in self._incoming, admit=self._admit,
        )  # fmt: skip
        self._door.accepting.add_done_callback(self._finished)

    @property
    def turned_away(self) -> int:
        """How many connections did not show that they belong to this run."""
        return self._door.turned_away

    def queued_bytes(self, dst: int) -> int:
        """Bytes of payloads that wait to be handed to the kernel on the link to ``dst``."""
        return self._outgoing[dst].queued_bytes if dst in self._outgoing else 0

    def link(self, dst: int) -> LinkEstimate | None:
        """What the link to ``dst`` does; None: unknown."""
        return self._outgoing[dst].estimate() if dst in self._outgoing else None

    def buffers(self) -> dict[int, dict[str, int]]:
        """Bytes that the kernel grants to each outgoing link's socket at this moment, by destination rank."""
        return {dst: buffers(outgoing.connection) for dst, outgoing in sorted(self._outgoing.items())}

    async def connect(
        self, addresses: Sequence[Address], links: Sequence[tuple[int, int]], within_s: float = CONNECT_WITHIN_S
    ) -> None:
        """Open all ``links`` from this rank, and wait for all to it. ``addresses`` are by rank. Raises: PeerLost."""
        self._addresses = addresses
        awaited = {src for src, dst in links if dst == self.rank}
        deadline = asyncio.get_running_loop().time() + within_s  # for both ways: opening may use up some of it
        await asyncio.gather(*(self._open(dst, within_s) for src, dst in links if src == self.rank))
        while missing := awaited - self._incoming:
            self._arrived.clear()  # nothing is awaited since the look at what is missing: no arrival is overlooked
            try:
                await asyncio.wait_for(self._arrived.wait(), deadline - asyncio.get_running_loop().time())
            except asyncio.TimeoutError as error:
                turned_away = f"; turned away: {self._door.reason}" if self._door.turned_away else ""
                raise PeerLost(min(missing), f"it did not connect within {within_s:.0f} s{turned_away}") from error

    def post(self, dst: int, message: Message, priority: int, posted_ns: int, task: int) -> asyncio.Future[int]:
        """Queue ``message`` for ``dst``; resolves to its number on the link when its last byte has left."""
        if dst == self.rank or not 0 <= dst < self.size:
            raise TrainingError(f"rank {self.rank} cannot send to rank {dst} in a world of {self.size}; send to a peer")
        if dst in self._outgoing:
            return self._outgoing[dst].post(message, priority, posted_ns, task)
        return self._background(self._post_when_open(dst, message, priority, posted_ns, task))

    async def farewell(self) -> None:
        """Send what is queued, and say goodbye on all links from this rank; messages may still come."""
        await asyncio.gather(*(outgoing.close() for outgoing in self._outgoing.values()))

    async def close(self) -> None:
        """Say goodbye on all links, wait until all peers have, and close. Raises: PeerLost if one does not."""
        await self.farewell()
        came_bytes = -1
        while self._readers and came_bytes < (came_bytes := self._came_bytes):  # as long as anything comes
            await asyncio.wait(self._readers, timeout=SILENT_S)
        silent = sorted(self._incoming - self._departed)  # before abort, which ends the readers that would say so
        if not silent:
            await self._all_taken()
        self.abort()
        if silent:
            raise PeerLost(silent[0], f"it did not say goodbye, and nothing came for {SILENT_S:.0f} s")

    async def _all_taken(self) -> None:
        """Return when all peers have read what they were sent, and closed, or are gone.

        What they report of it would find a closed socket before that, and be answered by a reset, which loses the rest.
        """
        watching = [outgoing.watching for outgoing in self._outgoing.values()]
        if watching:
            await asyncio.wait(watching, timeout=SILENT_S)

    @property
    def _came_bytes(self) -> int:
        return sum(incoming.came_bytes for incoming in self._receiving)

    def abort(self) -> None:
        """Close everything as it is. A second call does nothing."""
        for task in (*self._tasks, *self._readers, *self._opening.values()):
            task.cancel()
        for outgoing in self._outgoing.values():
            outgoing.abort()  # without a goodbye: that is how peers know this end from an orderly one
        self._door.close()
        for connection in self._accepted:
            close_soon(connection)
        if not self.failed.done():
            self.failed.cancel()

    def _lose(self, why: PeerLost) -> None:
        self.mailboxes.lose(why)
        if why.rank in self._outgoing:
            self._outgoing[why.rank].lose(why)

    async def _post_when_open(self, dst: int, message: Message, priority: int, posted_ns: int, task: int) -> int:
        outgoing = await self._open(dst, CONNECT_WITHIN_S)
        return await outgoing.post(message, priority, posted_ns, task)

    async def _open(self, dst: int, within_s: float) -> Outgoing:
        """The open link to ``dst``; whoever asks while it is being opened shares the attempt."""
        if dst not in self._opening:
            self._opening[dst] = asyncio.get_running_loop().create_task(self._connect(dst, within_s))
        return await asyncio.shield(self._opening[dst])  # one who gives up must not end the attempt of the others

    async def _connect(self, dst: int, within_s: float) -> Outgoing:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while True:  # all ranks start at once: the other may not listen yet
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                await self._introduce(connection, dst)
                break
            except (OSError, EOFError, Refused, asyncio.TimeoutError) as error:
                connection.close()
                if loop.time() > deadline:
                    at = f"{self._addresses[dst].host}:{self._addresses[dst].port}"
                    raise PeerLost(dst, f"{at} could not be reached within {within_s:.0f} s: {error}") from error
                await asyncio.sleep(_RETRY_S)
        outgoing = Outgoing(
            connection, src=self.rank, dst=dst, limit_bytes=self._limit_bytes, recorder=self._recorder,
            on_lost=self._lose,
        )  # fmt: skip
        for task in outgoing.tasks:
            task.add_done_callback(self._finished)
        self._outgoing[dst] = outgoing
        return outgoing

    async def _introduce(self, connection: socket.socket, dst: int) -> None:
        loop = asyncio.get_running_loop()
        self.congestion_control[dst] = tune(connection, self._options)
        address = self._addresses[dst]
        await asyncio.wait_for(loop.sock_connect(connection, (address.host, address.port)), _ATTEMPT_S)
        own = Introduction(channel=handshake.DATA, src=self.rank, dst=dst, size=self.size)
        await handshake.introduce(connection, own, self._key)

    def _admit(self, connection: socket.socket, src: int) -> None:
        self._incoming.add(src)  # for good: one that was lost is not let in again
        self._arrived.set()
        self._accepted.append(connection)
        reader = asyncio.get_running_loop().create_task(self._receive(connection, src))
        self._readers.add(reader)
        reader.add_done_callback(self._finished)

    async def _receive(self, connection: socket.socket, src: int) -> None:
        """One incoming link from its beginning to its end.

        If this rank fails, the connection stays open until :meth:`abort`: it shall first tell the others why.
        """
        incoming = Incoming(
            connection, src=src, dst=self.rank, largest_payload_bytes=self._largest_payload_bytes,
            mailboxes=self.mailboxes, recorder=self._recorder,
        )  # fmt: skip
        self._receiving.append(incoming)
        try:
            await incoming.receive_all()
        except PeerLost as why:
            self._lose(why)
        else:  # it may still want what is queued for it: only what is awaited from it is lost
            self._departed.add(src)
            self.mailboxes.lose(PeerLost(src, "it has ended its training; no more messages come from it"))
        connection.close()

    def _background(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        """A task ended: what it raised fails the run, unless it is a peer's loss, which is told where it matters."""
        self._tasks.discard(task)
        self._readers.discard(task)
        error = None if task.cancelled() else task.exception()  # exception() of a cancelled task raises
        if error is not None and not isinstance(error, PeerLost) and not self.failed.done():
            self.failed.set_exception(error)
