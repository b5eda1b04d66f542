"""Door for connections that come in: each is challenged beside the others; members are let in, strangers turned away.

A stranger costs one of :data:`MOST_AT_ONCE` places for at most ten seconds, and a line in the log for the first few.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from e2c_dl.worlds.live import handshake
from e2c_dl.worlds.live.handshake import Introduction, Refused
from e2c_dl.worlds.live.sockets import SocketOptions, close_soon, tune

MOST_AT_ONCE = 256
_LOGGED = 20
_LOG = logging.getLogger(__name__)  # what is warned of goes to standard error, which a worker keeps as worker.log


class Door:
    """Accepts from ``listening`` for rank ``dst`` of ``size`` until closed; used in one running event loop.

    ``admit(connection, src)`` takes over a connection that has proven to come from rank ``src``, one for which
    ``due(src)`` holds. ``turned_away`` counts the others, ``reason`` is the last one's.
    """

    def __init__(
        self, listening: socket.socket, *, channel: str, dst: int, size: int, key: bytes, options: SocketOptions,
        due: Callable[[int], bool], admit: Callable[[socket.socket, int], None],
    ) -> None:  # fmt: skip
        self.turned_away = 0
        self.reason = ""
        self._listening = listening
        self._channel, self._dst, self._size = channel, dst, size
        self._key = key
        self._options = options
        self._due, self._admit = due, admit
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._challenging: set[asyncio.Task[None]] = set()
        self.accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Listen no more, and drop whoever has not proven anything yet."""
        for task in (self.accepting, *self._challenging):
            task.cancel()
        close_soon(self._listening)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._places.acquire()
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except ConnectionError:  # it was gone before it was accepted
                self._places.release()
                continue
            task = loop.create_task(self._challenge(connection))
            self._challenging.add(task)
            task.add_done_callback(self._challenged)

    async def _challenge(self, connection: socket.socket) -> None:
        try:
            tune(connection, self._options)
            met = await handshake.challenge(connection, self._key)
            expected = Introduction(channel=self._channel, src=met.src, dst=self._dst, size=self._size)
            if met != expected or met.src >= self._size:
                raise Refused(f"rank {met.src} of {met.size} looks for rank {met.dst} ({met.channel}) at this address")
            if not self._due(met.src):
                raise Refused(f"rank {met.src} is here already")
            await handshake.welcome(connection)
            self._admit(connection, met.src)
        except (Refused, OSError, EOFError, asyncio.TimeoutError) as error:
            self._turn_away(str(error) or "it did not introduce itself in time")
            connection.close()
        except asyncio.CancelledError:
            close_soon(connection)
            raise

    def _challenged(self, task: asyncio.Task[None]) -> None:
        self._challenging.discard(task)
        self._places.release()

    def _turn_away(self, reason: str) -> None:
        self.turned_away += 1
        self.reason = reason
        if self.turned_away <= _LOGGED:
            last = "; later ones are only counted" if self.turned_away == _LOGGED else ""
            _LOG.warning("a connection was turned away: %s%s", reason, last)
