"""Handshake by which two processes of one run make sure of each other, and the door that lets in only those who can.

::

    who connects                                                who accepts
      HELLO    channel, src, dst, size, nonce a    ---------->
               <----------    nonce b, HMAC(key, "accept" | HELLO | b)
      HMAC(key, "connect" | HELLO | b)             ---------->
               <----------    one byte: welcome

Both prove that they hold the run's key, and for which channel, ranks and world size; nonces are drawn anew for every
connection, so what was overheard proves nothing later, and the two labels keep an answer from being sent back. What a
stranger can make this side do is bounded: read 50 bytes, compute one HMAC-SHA256, wait ten seconds. The :class:`Door`
challenges all who come beside each other: a stranger costs one of :data:`MOST_AT_ONCE` places for that long, and a line
in the log for the first few.

Not covered: secrecy, and what is done to the bytes of a connection after its beginning. Training data, gradients and
models travel in the clear; run where the network itself is trusted, or through a tunnel.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from e2c_dl.errors import TrainingError
from e2c_dl.worlds.live.sockets import SocketOptions, close_soon, exactly, tune

WITHIN_S = 10.0  # for all of it: a stranger that says nothing holds its place no longer
KEY_BYTES = 32  # the least that is accepted
DATA, CONTROL = "data", "control"

MOST_AT_ONCE = 256
_LOGGED = 20
_LOG = logging.getLogger(__name__)  # what is warned of goes to standard error, which a worker keeps as worker.log

_MAGIC = b"E2CA"  # looked at first: for another program that talks to this port, no proof is computed
_NONCE_BYTES = _PROOF_BYTES = 32
_HELLO = struct.Struct(f"<4s8sHHH{_NONCE_BYTES}s")
_WELCOME = b"\x01"


class Refused(TrainingError):
    """The other end of a connection did not show that it belongs to this run."""


@dataclass(frozen=True, kw_only=True)
class Introduction:
    """What a connection is for: from rank ``src`` to rank ``dst`` of ``size``, on a channel (data, control)."""

    channel: str
    src: int
    dst: int
    size: int

    def hello(self, nonce: bytes) -> bytes:
        return _HELLO.pack(_MAGIC, self.channel.encode("ascii"), self.src, self.dst, self.size, nonce)


async def introduce(connection: socket.socket, own: Introduction, key: bytes) -> None:
    """Prove over a fresh ``connection`` who this is, and have the other end prove itself.

    Raises: Refused, OSError, EOFError, asyncio.TimeoutError.
    """
    await asyncio.wait_for(_introduce(connection, own, key), WITHIN_S)


async def challenge(connection: socket.socket, key: bytes) -> Introduction:
    """Who connected, proven; :func:`welcome` is still to be said. Raises: as :func:`introduce`."""
    return await asyncio.wait_for(_challenge(connection, key), WITHIN_S)


async def welcome(connection: socket.socket) -> None:
    """Let who was challenged go on. Raises: OSError."""
    await asyncio.get_running_loop().sock_sendall(connection, _WELCOME)


async def _introduce(connection: socket.socket, own: Introduction, key: bytes) -> None:
    loop = asyncio.get_running_loop()
    hello = own.hello(secrets.token_bytes(_NONCE_BYTES))
    await loop.sock_sendall(connection, hello)
    answer = await exactly(connection, _NONCE_BYTES + _PROOF_BYTES)
    nonce, proof = answer[:_NONCE_BYTES], answer[_NONCE_BYTES:]
    # not ==, whose time tells how much of a proof is right
    if not hmac.compare_digest(proof, _proof(key, b"accept", hello, nonce)):
        raise Refused("who listens there does not hold this run's key; end the other run, or free the port")
    await loop.sock_sendall(connection, _proof(key, b"connect", hello, nonce))  # after its: a stranger gets none
    if await exactly(connection, len(_WELCOME)) != _WELCOME:
        raise Refused("who listens there did not say welcome; run one version everywhere")


async def _challenge(connection: socket.socket, key: bytes) -> Introduction:
    hello = await exactly(connection, _HELLO.size)
    introduction = parsed(hello)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    await asyncio.get_running_loop().sock_sendall(connection, nonce + _proof(key, b"accept", hello, nonce))
    proof = await exactly(connection, _PROOF_BYTES)  # who connects proves last, over a nonce that it did not choose
    if not hmac.compare_digest(proof, _proof(key, b"connect", hello, nonce)):
        raise Refused(f"who calls itself rank {introduction.src} does not hold this run's key")
    return introduction


def parsed(hello: bytes) -> Introduction:
    """What ``hello`` claims. Raises: Refused if it is no HELLO."""
    magic, channel, src, dst, size, _ = _HELLO.unpack(hello)
    if magic != _MAGIC:
        raise Refused(f"it begins with {magic!r}: another program talks to this port")
    names = {name.encode("ascii").ljust(8, b"\0"): name for name in (DATA, CONTROL)}  # struct pads with zeros
    if channel not in names:
        raise Refused(f"it asks for channel {channel!r}; run one version everywhere")
    return Introduction(channel=names[channel], src=src, dst=dst, size=size)


def _proof(key: bytes, label: bytes, hello: bytes, nonce: bytes) -> bytes:
    return hmac.digest(key, label + b"\0" + hello + nonce, "sha256")  # the label: no accept passes for a connect


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
            await self._places.acquire()  # before accepting: who finds no place waits in the kernel's backlog
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except ConnectionError:  # it was gone before it was accepted
                self._places.release()
                continue
            task = loop.create_task(self._challenge(connection))  # beside the others: a silent one holds up nobody
            self._challenging.add(task)  # the event loop holds tasks weakly: one that nobody refers to may be collected
            task.add_done_callback(self._challenged)

    async def _challenge(self, connection: socket.socket) -> None:
        try:
            tune(connection, self._options)  # keep-alive and time-outs are each end's own
            met = await challenge(connection, self._key)
            expected = Introduction(channel=self._channel, src=met.src, dst=self._dst, size=self._size)
            if met != expected or met.src >= self._size:  # what it claims is proven; that it means this rank is not
                raise Refused(f"rank {met.src} of {met.size} looks for rank {met.dst} ({met.channel}) at this address")
            if not self._due(met.src):  # one connection per link: a second would break the order of messages
                raise Refused(f"rank {met.src} is here already")
            await welcome(connection)
            self._admit(connection, met.src)
        except (Refused, OSError, EOFError, asyncio.TimeoutError) as error:
            self._turn_away(str(error) or "it did not introduce itself in time")  # a TimeoutError has no text
            connection.close()  # at once: only this task has waited on it
        except asyncio.CancelledError:
            close_soon(connection)  # the loop still watches its descriptor, whose number a new socket might get
            raise

    def _challenged(self, task: asyncio.Task[None]) -> None:
        self._challenging.discard(task)
        self._places.release()

    def _turn_away(self, reason: str) -> None:
        self.turned_away += 1
        self.reason = reason
        if self.turned_away <= _LOGGED:  # who keeps knocking must not fill the disk
            last = "; later ones are only counted" if self.turned_away == _LOGGED else ""
            _LOG.warning("a connection was turned away: %s%s", reason, last)
