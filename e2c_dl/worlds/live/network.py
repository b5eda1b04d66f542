"""All connections of one rank: one TCP connection per directed link, opened by its source.

::

    listening    an address is known, others may connect
    connect()    the strategy's links are open, both ways; other links open when they are first used
    close()      every link has said goodbye, both ways          abort()  peers see this rank lost
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Message
from e2c_dl.trace.recorder import Recorder
from e2c_dl.worlds.live.incoming import greeted, hello, receive_all
from e2c_dl.worlds.live.mailbox import Mailboxes
from e2c_dl.worlds.live.outgoing import Outgoing
from e2c_dl.worlds.live.pending import seen
from e2c_dl.worlds.live.sockets import SocketOptions, listener, tune

CONNECT_WITHIN_S = 60.0
GOODBYE_WITHIN_S = 10.0
_RETRY_S = 0.2
_ATTEMPT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a rank listens for messages."""

    host: str
    port: int


class Network:
    """Sends from and receives for one rank. Made and used in one running event loop.

    ``failed`` resolves with an exception if something broke that is no single peer's loss, such as the trace's disk.
    ``congestion_control`` holds what is in force on the links that this rank opened, by destination rank.

    Raises: TrainingError if ``address`` cannot be listened on.
    """

    def __init__(
        self, address: str, port: int = 0, *, rank: int, size: int, token: str, recorder: Recorder,
        largest_payload_bytes: int, options: SocketOptions | None = None,
    ) -> None:  # fmt: skip
        self.rank, self.size = rank, size
        self.mailboxes = Mailboxes()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failed.add_done_callback(seen)
        self.congestion_control: dict[int, str] = {}
        self._token = token
        self._recorder = recorder
        self._largest_payload_bytes = largest_payload_bytes
        self._options = options or SocketOptions()
        self._addresses: Sequence[Address] = ()
        self._outgoing: dict[int, Outgoing] = {}
        self._opening: dict[int, asyncio.Task[Outgoing]] = {}
        self._accepted: list[socket.socket] = []
        self._incoming: set[int] = set()  # sources of links that are open, or were
        self._arrived = asyncio.Event()  # set at each new incoming link
        self._departed: set[int] = set()  # sources that said goodbye
        self._strangers: list[str] = []  # why connections were turned away
        self._tasks: set[asyncio.Task[Any]] = set()
        self._readers: set[asyncio.Task[Any]] = set()
        try:
            self._listener = listener(address, port)
        except OSError as error:
            raise TrainingError(f"{address}:{port}: cannot listen there: {error.strerror}; free the port") from error
        self._background(self._accept())

    @property
    def address(self) -> Address:
        """Where it listens."""
        host, port = self._listener.getsockname()[:2]
        return Address(host=host, port=port)

    async def connect(
        self, addresses: Sequence[Address], links: Sequence[tuple[int, int]], within_s: float = CONNECT_WITHIN_S
    ) -> None:
        """Open all ``links`` from this rank, and wait for all to it. ``addresses`` are by rank. Raises: PeerLost."""
        self._addresses = addresses
        awaited = {src for src, dst in links if dst == self.rank}
        deadline = asyncio.get_running_loop().time() + within_s
        await asyncio.gather(*(self._open(dst, within_s) for src, dst in links if src == self.rank))
        while missing := awaited - self._incoming:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), deadline - asyncio.get_running_loop().time())
            except asyncio.TimeoutError as error:
                turned_away = f"; turned away: {self._strangers[-1]}" if self._strangers else ""
                raise PeerLost(min(missing), f"it did not connect within {within_s:.0f} s{turned_away}") from error

    def post(self, dst: int, message: Message, priority: int, posted_ns: int, task: int) -> asyncio.Future[int]:
        """Queue ``message`` for ``dst``; resolves to its number on the link when its last byte has left."""
        if dst == self.rank or not 0 <= dst < self.size:
            raise TrainingError(f"rank {self.rank} cannot send to rank {dst} in a world of {self.size}; send to a peer")
        if dst in self._outgoing:
            return self._outgoing[dst].post(message, priority, posted_ns, task)
        return self._background(self._post_when_open(dst, message, priority, posted_ns, task))

    async def close(self) -> None:
        """Say goodbye on all links, wait until all peers have, and close. Raises: PeerLost if one does not."""
        await asyncio.gather(*(outgoing.close() for outgoing in self._outgoing.values()))
        if self._readers:
            await asyncio.wait(self._readers, timeout=GOODBYE_WITHIN_S)
        silent = sorted(self._incoming - self._departed)
        self.abort()
        if silent:
            raise PeerLost(silent[0], f"it did not say goodbye within {GOODBYE_WITHIN_S:.0f} s")

    def abort(self) -> None:
        """Close everything as it is. A second call does nothing."""
        for task in (*self._tasks, *self._readers, *self._opening.values()):
            task.cancel()
        for outgoing in self._outgoing.values():
            outgoing.abort()
        for connection in (self._listener, *self._accepted):
            connection.close()
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
        return await asyncio.shield(self._opening[dst])

    async def _connect(self, dst: int, within_s: float) -> Outgoing:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while True:
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                await self._introduce(connection, dst)
                break
            except (OSError, asyncio.TimeoutError) as error:
                connection.close()
                if loop.time() > deadline:
                    at = f"{self._addresses[dst].host}:{self._addresses[dst].port}"
                    raise PeerLost(dst, f"{at} could not be reached within {within_s:.0f} s: {error}") from error
                await asyncio.sleep(_RETRY_S)
        outgoing = Outgoing(connection, src=self.rank, dst=dst, recorder=self._recorder, on_lost=self._lose)
        for task in outgoing.tasks:
            task.add_done_callback(self._finished)
        self._outgoing[dst] = outgoing
        return outgoing

    async def _introduce(self, connection: socket.socket, dst: int) -> None:
        loop = asyncio.get_running_loop()
        self.congestion_control[dst] = tune(connection, self._options)
        address = self._addresses[dst]
        await asyncio.wait_for(loop.sock_connect(connection, (address.host, address.port)), _ATTEMPT_S)
        await loop.sock_sendall(connection, hello(self._token, src=self.rank, dst=dst, size=self.size))

    async def _accept(self) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            self._accepted.append(connection)
            reader = asyncio.get_running_loop().create_task(self._serve(connection))
            self._readers.add(reader)
            reader.add_done_callback(self._finished)

    async def _serve(self, connection: socket.socket) -> None:
        """One incoming connection from its hello to its end; strangers are turned away.

        If this rank fails, the connection stays open until :meth:`abort`: it shall first tell the others why.
        """
        try:
            tune(connection, self._options)
            src = await greeted(connection, token=self._token, rank=self.rank, size=self.size)
            if src in self._incoming:
                raise TrainingError(f"rank {src} connected twice")
        except (TrainingError, OSError, EOFError, asyncio.TimeoutError) as error:
            self._strangers.append(str(error) or type(error).__name__)  # if a peer is missing, connect() says so
            connection.close()
            return
        self._incoming.add(src)
        self._arrived.set()
        try:
            await receive_all(
                connection, src=src, dst=self.rank, largest_payload_bytes=self._largest_payload_bytes,
                mailboxes=self.mailboxes, recorder=self._recorder,
            )  # fmt: skip
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
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, PeerLost) and not self.failed.done():
            self.failed.set_exception(error)
