"""Handshake by which two processes of one run make sure of each other before all else: challenge and response.

::

    who connects                                                who accepts
      HELLO    channel, src, dst, size, nonce a    ---------->
               <----------    nonce b, HMAC(key, "accept" | HELLO | b)
      HMAC(key, "connect" | HELLO | b)             ---------->
               <----------    one byte: welcome

Both prove that they hold the run's key, and for which channel, ranks and world size; nonces are drawn anew for every
connection, so what was overheard proves nothing later, and the two labels keep an answer from being sent back. What a
stranger can make this side do is bounded: read 50 bytes, compute one HMAC-SHA256, wait ten seconds.

Not covered: secrecy, and what is done to the bytes of a connection after its beginning. Training data, gradients and
models travel in the clear; run where the network itself is trusted, or through a tunnel.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import struct
from dataclasses import dataclass

from e2c_dl.errors import TrainingError
from e2c_dl.worlds.live.sockets import exactly

WITHIN_S = 10.0
KEY_BYTES = 32  # the least that is accepted
DATA, CONTROL = "data", "control"

_MAGIC = b"E2CA"
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
    if not hmac.compare_digest(proof, _proof(key, b"accept", hello, nonce)):
        raise Refused("who listens there does not hold this run's key; end the other run, or free the port")
    await loop.sock_sendall(connection, _proof(key, b"connect", hello, nonce))
    if await exactly(connection, len(_WELCOME)) != _WELCOME:
        raise Refused("who listens there did not say welcome; run one version everywhere")


async def _challenge(connection: socket.socket, key: bytes) -> Introduction:
    hello = await exactly(connection, _HELLO.size)
    introduction = parsed(hello)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    await asyncio.get_running_loop().sock_sendall(connection, nonce + _proof(key, b"accept", hello, nonce))
    proof = await exactly(connection, _PROOF_BYTES)
    if not hmac.compare_digest(proof, _proof(key, b"connect", hello, nonce)):
        raise Refused(f"who calls itself rank {introduction.src} does not hold this run's key")
    return introduction


def parsed(hello: bytes) -> Introduction:
    """What ``hello`` claims. Raises: Refused if it is no HELLO."""
    magic, channel, src, dst, size, _ = _HELLO.unpack(hello)
    if magic != _MAGIC:
        raise Refused(f"it begins with {magic!r}: another program talks to this port")
    names = {name.encode("ascii").ljust(8, b"\0"): name for name in (DATA, CONTROL)}
    if channel not in names:
        raise Refused(f"it asks for channel {channel!r}; run one version everywhere")
    return Introduction(channel=names[channel], src=src, dst=dst, size=size)


def _proof(key: bytes, label: bytes, hello: bytes, nonce: bytes) -> bytes:
    return hmac.digest(key, label + b"\0" + hello + nonce, "sha256")
