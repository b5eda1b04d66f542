"""Frames, which a connection carries after its handshake: each a fixed header and then a segment of a payload.

::

    magic 4 | type 1 | dtype 1 | kind 16 | iteration 4 | bucket 4 | step 4 | seq 8 | payload 8 | segment 4 | raw ...

    | MESSAGE 0  segment ........ | MESSAGE 1 (urgent, whole) | MORE 0  segment ........ | MORE 0 ... | GOODBYE 2 |

Little-endian. MESSAGEs are numbered from 0 in the order in which they begin; each announces its whole payload and
brings its first segment. MORE brings the next segment of a message that has begun. In between, others may begin and
end: that is how urgent ones overtake. A connection ends with GOODBYE. Nothing is unpickled.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Message, Vector

MAGIC = b"E2CD"
KIND_BYTES = 16

MOST_UNFINISHED = 64  # messages of one connection that have begun and not ended

_HEADER = struct.Struct(f"<4sBB{KIND_BYTES}siiiqqI")  # "<": no padding, whatever the machine
HEADER_BYTES = _HEADER.size
_DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 2: np.dtype("<f8")}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_NO_PAYLOAD = 0  # not the same as an empty payload


class FrameType(IntEnum):
    """What a frame is for."""

    MESSAGE = 1
    MORE = 2
    GOODBYE = 3


class FrameError(TrainingError):
    """Bytes that are no frame of this program, or of another run."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """A frame without its segment. ``dtype`` is None if there is no payload; an empty vector is a payload, too."""

    type: FrameType
    kind: str
    iteration: int = -1
    bucket: int = -1
    step: int = -1
    seq: int = 0
    dtype: np.dtype[Any] | None = None
    payload_bytes: int = 0  # of the whole message
    segment_bytes: int = 0  # that follow this header

    def pack(self) -> bytes:
        code = _NO_PAYLOAD if self.dtype is None else _CODES[self.dtype]
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
        if kind_of_frame not in FrameType.__members__.values() or (code != _NO_PAYLOAD and code not in _DTYPES):
            raise FrameError(f"a frame is of unknown type {kind_of_frame} or dtype {code}; run one version everywhere")
        dtype = _DTYPES.get(code)
        if not 0 <= payload_bytes <= largest_payload_bytes or payload_bytes % (dtype.itemsize if dtype else 1):
            raise FrameError(f"a frame announces {payload_bytes} bytes; at most {largest_payload_bytes} are accepted")
        if dtype is None and payload_bytes:  # there would be no vector to fill
            raise FrameError(f"a frame announces {payload_bytes} bytes of no dtype; run one version everywhere")
        if segment_bytes > payload_bytes or (payload_bytes and not segment_bytes):
            raise FrameError(f"a frame brings {segment_bytes} bytes of {payload_bytes}; run one version everywhere")
        return Header(
            type=FrameType(kind_of_frame), kind=_text(kind), iteration=iteration, bucket=bucket, step=step, seq=seq,
            dtype=dtype, payload_bytes=payload_bytes, segment_bytes=segment_bytes,
        )  # fmt: skip


def header_of(message: Message, seq: int) -> Header:
    """The header that ``message`` begins with, if all of it travels in one segment.

    Raises: FrameError if the message cannot be sent as it is.
    """
    payload = message.payload
    # a zero byte would be lost: the kind is padded with them, and stripped
    if not message.kind.isascii() or len(message.kind) > KIND_BYTES or "\0" in message.kind:
        raise FrameError(f"message kind {message.kind!r}: write at most {KIND_BYTES} ASCII characters")
    if payload is not None and (payload.dtype not in _CODES or not payload.flags.c_contiguous or payload.ndim != 1):
        raise FrameError(
            f"message {message.kind!r}: its payload is {payload.dtype} of shape {payload.shape}; "
            "send a contiguous flat vector of float32 or float64"
        )
    payload_bytes = 0 if payload is None else payload.nbytes
    return Header(
        type=FrameType.MESSAGE, kind=message.kind, iteration=message.iteration, bucket=message.bucket,
        step=message.step, seq=seq, dtype=None if payload is None else payload.dtype,
        payload_bytes=payload_bytes, segment_bytes=payload_bytes,
    )  # fmt: skip


def message_of(header: Header, payload: Vector | None, src: int) -> Message:
    """The message that came from ``src`` under ``header``."""
    return Message(
        kind=header.kind, iteration=header.iteration, bucket=header.bucket, step=header.step, payload=payload, src=src
    )


def _text(kind: bytes) -> str:
    try:
        return kind.rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError as error:
        raise FrameError(f"a frame is of kind {kind!r}, which is not ASCII; run one version everywhere") from error
