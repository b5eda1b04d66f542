"""The receiving end of one directed link: frames off a connection, straight into arrays, into the mailboxes.

The source introduces itself with HELLO; until then nothing is believed. After that the only orderly end is GOODBYE.
"""

from __future__ import annotations

import asyncio
import socket

import numpy as np

from e2c_dl.errors import PeerLost
from e2c_dl.strategies.base import Vector
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recorder import Recorder
from e2c_dl.worlds.live.frames import HEADER_BYTES, FrameError, FrameType, Header, message_of
from e2c_dl.worlds.live.mailbox import Mail, Mailboxes

HELLO_WITHIN_S = 10.0
NO_TASK = -2
_WAKE_BYTES = 65536  # on a slow link every segment would wake the loop: wait for this much, or for what is missing


def hello(token: str, *, src: int, dst: int, size: int) -> bytes:
    """The first frame on the connection of link ``src`` -> ``dst`` in the run called ``token``."""
    return Header(type=FrameType.HELLO, kind=token, iteration=src, bucket=dst, step=size).pack()


async def greeted(connection: socket.socket, *, token: str, rank: int, size: int) -> int:
    """The rank that ``connection`` comes from, after its HELLO to ``rank``.

    Raises: FrameError, OSError, EOFError, TimeoutError: it is nobody of this run.
    """
    content = bytearray(HEADER_BYTES)
    await asyncio.wait_for(_fill(connection, memoryview(content)), HELLO_WITHIN_S)
    header = Header.unpack(content, 0)
    if header.type is not FrameType.HELLO or header.kind != token or header.step != size:
        raise FrameError("a connection introduces itself as none of this run; end the other run")
    if header.bucket != rank or not 0 <= header.iteration < size:
        raise FrameError(f"rank {header.iteration} looks for rank {header.bucket} at the address of rank {rank}")
    return header.iteration


async def receive_all(
    connection: socket.socket, *, src: int, dst: int, largest_payload_bytes: int,
    mailboxes: Mailboxes, recorder: Recorder,
) -> None:  # fmt: skip
    """Put every message that comes from ``src`` into ``mailboxes``, until it says goodbye.

    Raises: PeerLost, if the connection ends otherwise; TrainingError, if the trace cannot be written.
    """
    head = bytearray(HEADER_BYTES)
    seq = 0
    try:
        while True:
            await _fill(connection, memoryview(head))
            start_ns = recorder.clock()
            header = Header.unpack(head, largest_payload_bytes)
            if header.seq != seq or header.type is FrameType.HELLO:
                raise FrameError(f"frame {header.seq} of type {header.type.name} came where frame {seq} was due")
            if header.type is FrameType.GOODBYE:
                return
            payload = await _payload(connection, header)
            recorder.record(
                Phase.RECEIVE, start_ns, start_ns, recorder.clock(), task=NO_TASK, iteration=header.iteration,
                bucket=header.bucket, src=src, dst=dst, seq=seq, nbytes=HEADER_BYTES + header.payload_bytes,
            )  # fmt: skip
            mailboxes.put(Mail(message_of(header, payload, src), seq))
            seq += 1
    except EOFError as error:
        raise PeerLost(src, "it closed the connection without goodbye") from error
    except OSError as error:
        raise PeerLost(src, f"the connection from it broke: {error.strerror or error}") from error
    except FrameError as error:
        raise PeerLost(src, f"what it sent makes no sense: {error}") from error


async def _payload(connection: socket.socket, header: Header) -> Vector | None:
    if header.dtype is None:
        return None
    payload: Vector = np.empty(header.payload_bytes // header.dtype.itemsize, dtype=header.dtype)
    if header.payload_bytes:
        await _fill(connection, payload.data.cast("B"))
    return payload


async def _fill(connection: socket.socket, room: memoryview) -> None:
    """Fill ``room`` from ``connection``. Raises: EOFError if it ends before."""
    loop = asyncio.get_running_loop()
    while room:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(len(room), _WAKE_BYTES))
        count = await loop.sock_recv_into(connection, room)
        if not count:
            raise EOFError
        room = room[count:]
