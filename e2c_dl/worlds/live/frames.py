"""Frames, which a connection carries after its handshake: each a fixed header and then a segment of a payload.

::

    magic 4 | type 1 | dtype 1 | kind 16 | iteration 4 | bucket 4 | step 4 | seq 8 | payload 8 | segment 4 | raw ...

    | MESSAGE 0  segment ........ | MESSAGE 1 (urgent, whole) | MORE 0  segment ........ | MORE 0 ... | GOODBYE 2 |

Little-endian. MESSAGEs are numbered from 0 in the order in which they begin; each announces its whole payload and
brings its first segment. MORE brings the next segment of a message that has begun. In between, others may begin and
end: that is how urgent ones overtake. A connection ends with GOODBYE. Nothing is unpickled.

A payload of several arrays begins with a table of their types and lengths (e2c_dl.strategies.seam.messages): it is
looked at when all of it is there, and refused if it does not add up.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Array, Message, Payload
from e2c_dl.strategies.seam.messages import (
    DTYPES,
    ENTRY_BYTES,
    MOST_ARRAYS,
    TABLE_BYTES,
    fault_of,
    padded_bytes,
    size_bytes,
)

MAGIC = b"E2CD"
KIND_BYTES = 16

MOST_UNFINISHED = 64  # messages of one connection that have begun and not ended

_HEADER = struct.Struct(f"<4sBB{KIND_BYTES}siiiqqI")  # "<": no padding, whatever the machine
HEADER_BYTES = _HEADER.size
_DTYPES: dict[int, np.dtype[Any]] = dict(enumerate(DTYPES, 1))
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_NO_PAYLOAD = 0  # not the same as an empty payload
_SEVERAL = 255  # arrays, behind their table
_BYTES = np.dtype("u1")
_ENTRY = np.dtype("<i8")  # every number in the table


class FrameType(IntEnum):
    """What a frame is for."""

    MESSAGE = 1
    MORE = 2
    GOODBYE = 3


class FrameError(TrainingError):
    """Bytes that are no frame of this program, or of another run."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """A frame without its segment. ``dtype`` is None if there is no payload; an empty vector is a payload, too.

    Of ``several`` arrays it is that of bytes.
    """

    type: FrameType
    kind: str
    iteration: int = -1
    bucket: int = -1
    step: int = -1
    seq: int = 0
    dtype: np.dtype[Any] | None = None
    several: bool = False
    payload_bytes: int = 0  # of the whole message
    segment_bytes: int = 0  # that follow this header

    def pack(self) -> bytes:
        code = _SEVERAL if self.several else _NO_PAYLOAD if self.dtype is None else _CODES[self.dtype]
        kind = self.kind.encode("ascii")
        return _HEADER.pack(
            MAGIC, self.type, code, kind, self.iteration, self.bucket, self.step, self.seq, self.payload_bytes,
            self.segment_bytes,
        )  # fmt: skip

    @staticmethod
    def unpack(content: bytes | bytearray | memoryview, largest_payload_bytes: int) -> Header:
        """The header in ``content`` (HEADER_BYTES long).

        Raises: FrameError if it is none, or announces more than ``largest_payload_bytes``.
        """
        fields = _HEADER.unpack(content)
        magic, kind_of_frame, code, kind, iteration, bucket, step, seq, payload_bytes, segment_bytes = fields
        if magic != MAGIC:  # first: of a stranger's bytes, no other field means anything
            raise FrameError(f"a frame begins with {magic!r}, not {MAGIC!r}; is another program talking to this port?")
        if kind_of_frame not in FrameType.__members__.values() or code not in (_NO_PAYLOAD, _SEVERAL, *_DTYPES):
            raise FrameError(f"a frame is of unknown type {kind_of_frame} or dtype {code}; run one version everywhere")
        dtype = _BYTES if code == _SEVERAL else _DTYPES.get(code)
        if not 0 <= payload_bytes <= largest_payload_bytes or payload_bytes % (dtype.itemsize if dtype else 1):
            raise FrameError(f"a frame announces {payload_bytes} bytes; at most {largest_payload_bytes} are accepted")
        if dtype is None and payload_bytes:  # there would be no vector to fill
            raise FrameError(f"a frame announces {payload_bytes} bytes of no dtype; run one version everywhere")
        if segment_bytes > payload_bytes or (payload_bytes and not segment_bytes):
            raise FrameError(f"a frame brings {segment_bytes} bytes of {payload_bytes}; run one version everywhere")
        return Header(
            type=FrameType(kind_of_frame), kind=_text(kind), iteration=iteration, bucket=bucket, step=step, seq=seq,
            dtype=dtype, several=code == _SEVERAL, payload_bytes=payload_bytes, segment_bytes=segment_bytes,
        )  # fmt: skip


def header_of(message: Message, seq: int) -> Header:
    """The header that ``message`` begins with, if all of it travels in one segment.

    Raises: FrameError if the message cannot be sent as it is.
    """
    payload = message.payload
    # a zero byte would be lost: the kind is padded with them, and stripped
    if not message.kind.isascii() or len(message.kind) > KIND_BYTES or "\0" in message.kind:
        raise FrameError(f"message kind {message.kind!r}: write at most {KIND_BYTES} ASCII characters")
    fault = fault_of(payload)
    if fault is not None:
        raise FrameError(f"message {message.kind!r}: {fault}")
    payload_bytes = size_bytes(payload)
    dtype = None if payload is None else _BYTES if isinstance(payload, tuple) else payload.dtype
    return Header(
        type=FrameType.MESSAGE, kind=message.kind, iteration=message.iteration, bucket=message.bucket,
        step=message.step, seq=seq, dtype=dtype, several=isinstance(payload, tuple),
        payload_bytes=payload_bytes, segment_bytes=payload_bytes,
    )  # fmt: skip


def message_of(header: Header, payload: Array | None, src: int) -> Message:
    """The message that came from ``src`` under ``header``; several arrays are views of ``payload``.

    Raises: FrameError if their table does not fit it.
    """
    arrays = several_of(payload) if header.several and payload is not None else payload
    return Message(
        kind=header.kind, iteration=header.iteration, bucket=header.bucket, step=header.step, payload=arrays, src=src
    )


def contents(payload: Payload | None) -> list[memoryview]:
    """The bytes of ``payload`` as they travel, piece by piece; views of the arrays, not copies."""
    if payload is None:
        return []
    if not isinstance(payload, tuple):
        return [_raw(payload)]
    table = [len(payload), *(number for array in payload for number in (_CODES[array.dtype], array.nbytes))]
    pieces = [_raw(np.array(table, dtype=_ENTRY))]
    for array in payload:
        pieces += [_raw(array), memoryview(bytes(padded_bytes(array.nbytes) - array.nbytes))]
    return [piece for piece in pieces if len(piece)]


def several_of(payload: Array) -> tuple[Array, ...]:
    """The arrays in the bytes ``payload``: views of it. Raises: FrameError, if its table does not fit it."""
    count = int(payload[:TABLE_BYTES].view(_ENTRY)[0]) if len(payload) >= TABLE_BYTES else -1
    begin = TABLE_BYTES + count * ENTRY_BYTES
    if not 0 <= count <= MOST_ARRAYS or begin > len(payload):
        raise FrameError(f"a table of {count} arrays in {len(payload)} bytes; run one version everywhere")
    arrays: list[Array] = []
    for code, nbytes in payload[TABLE_BYTES:begin].view(_ENTRY).reshape(count, 2).tolist():
        dtype = _DTYPES.get(code)
        if dtype is None or not 0 <= nbytes <= len(payload) - begin or nbytes % dtype.itemsize:
            raise FrameError(
                f"an array of {nbytes} bytes of dtype {code} in {len(payload)}; run one version everywhere"
            )
        arrays.append(payload[begin : begin + nbytes].view(dtype))
        begin += padded_bytes(nbytes)
    if begin != len(payload):
        raise FrameError(f"arrays end at {begin} of {len(payload)} bytes; run one version everywhere")
    return tuple(arrays)


def _raw(array: Array) -> memoryview:
    return array.data.cast("B") if array.nbytes else memoryview(b"")  # an empty one cannot be cast


def _text(kind: bytes) -> str:
    try:
        return kind.rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError as error:
        raise FrameError(f"a frame is of kind {kind!r}, which is not ASCII; run one version everywhere") from error
