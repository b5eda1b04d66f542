"""Frames: how a log lies in its file, so that damage costs what it hits and no more, and is counted.

::

    frame     | SYNC | kind u16 | records u16 | number u32 | length u32 | crc32 u32 | payload |
                4 bytes           in payload    of the first             of all that stands between, and the payload

    file      HEADER HEADER  frame  frame ... frame  DROPPED frame ...  HEADER END
              JSON, twice                            told before          once more; END is there if it was closed
                                                     what follows them

Records are numbered from 0, so that what is missing between two frames is known to the record. A reader that meets
bytes which are no frame looks for the next SYNC whose checksum holds. It checks at most :data:`MOST_CHECKED` times as
many bytes as the file has: a file made to cost time does not.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import msgspec

from e2c_dl import typed

SYNC = b"\xabE2\x01"  # its last byte is the version of this layout
HEAD = struct.Struct("<4sHHIII")
COVERED = struct.Struct("<HHII")  # of HEAD, what the checksum covers
HEADER, DROPPED, END = 0, 0xFFFE, 0xFFFF
"""Kinds of the log's own frames, which hold no record; 1 ... 0xFFFD are for records."""

MOST_PAYLOAD = 1 << 16
MOST_CHECKED = 8
_TOTAL = struct.Struct("<Q")


@dataclass(frozen=True, kw_only=True)
class Frames:
    """What a log holds. A record is what one ``append`` was given."""

    header: dict[str, Any] | None
    """None: no copy of it is readable."""
    frames: tuple[tuple[int, bytes], ...]
    """(kind, payload): of a log with ``record_bytes`` a payload is of several records, else of one."""
    lost_frames: int
    """Records known to be missing, by their numbers; a torn end is one at least."""
    lost_bytes: int
    """That belong to no readable frame."""
    torn: bool
    """It ends inside a frame: its writer was killed while it wrote, or the file was cut off."""
    dropped: int
    """Records that its writer left out on purpose, as far as it came to say so."""
    ended: bool
    """It was closed, and its end is there."""

    @property
    def whole(self) -> bool:
        """Whether nothing that it held is missing."""
        return not (self.lost_frames or self.lost_bytes or self.torn)


def framed(kind: int, payload: bytes, *, number: int, records: int = 1) -> bytes:
    """One frame. ``payload`` is of at most MOST_PAYLOAD bytes."""
    fields = (kind, records, number & 0xFFFFFFFF, len(payload))
    checksum = zlib.crc32(payload, zlib.crc32(COVERED.pack(*fields)))
    return HEAD.pack(SYNC, *fields, checksum) + payload


def told_dropped(total: int, *, number: int) -> bytes:
    """The frame that says how many records were left out so far."""
    return framed(DROPPED, _TOTAL.pack(total), number=number, records=0)


@dataclass(kw_only=True)
class Scanner:
    """Reads frames from pieces of a file in their order.

    ::

        scanner.feed(b"...")              frames that are whole so far
        scanner.feed(b"...", last=True)   the rest; what is still no frame is lost
    """

    header: dict[str, Any] | None = None
    lost_frames: int = 0
    lost_bytes: int = 0
    torn: bool = False
    dropped: int = 0
    ended: bool = False
    _rest: bytes = b""
    _next: int = 0  # number of the next record
    _budget: int = field(default=1 << 20)  # bytes whose checksum may still turn out wrong

    def feed(self, content: bytes, *, last: bool = False) -> list[tuple[int, bytes]]:
        """(kind, payload) of the records' frames that ``content`` completed."""
        data = self._rest + content if self._rest else content
        self._budget += MOST_CHECKED * len(content)
        found: list[tuple[int, bytes]] = []
        at = 0
        while (begin := data.find(SYNC, at)) >= 0:
            self.lost_bytes += begin - at
            at, after = begin, self._after(data, begin)
            if after is None and not last:
                break  # the rest of this frame is still to come
            if after is None or after == begin or not self._take(data, begin, after, found):
                at = begin + len(SYNC)
                self.lost_bytes += len(SYNC)
                self.torn |= after is None
            else:
                at = after
        self._keep(data, at, begin, last=last)
        return found

    def _after(self, data: bytes, begin: int) -> int | None:
        """Where the frame that begins there ends; ``begin``: it is none; None: it goes on after ``data``."""
        if len(data) - begin < HEAD.size:
            return None
        length: int = HEAD.unpack_from(data, begin)[4]
        if length > MOST_PAYLOAD or self._budget <= 0:
            return begin
        after = begin + HEAD.size + length
        return after if after <= len(data) else None

    def _take(self, data: bytes, begin: int, after: int, found: list[tuple[int, bytes]]) -> bool:
        """Whether the frame is as it was written; if so, it is counted, and added to ``found`` if it holds records."""
        _, kind, records, number, length, checksum = HEAD.unpack_from(data, begin)
        payload = data[begin + HEAD.size : after]
        if zlib.crc32(payload, zlib.crc32(COVERED.pack(kind, records, number, length))) != checksum:
            self._budget -= length
            return False
        if kind == HEADER:
            return self._take_header(payload)
        self.lost_frames += max(0, number - self._next)
        self._next = number + records
        self.torn = False  # what seemed torn was damaged: there is more behind it
        if kind == DROPPED and length == _TOTAL.size:
            self.dropped = _TOTAL.unpack(payload)[0]
        elif kind == END:
            self.ended = True
        else:
            found.append((kind, payload))
        return True

    def _take_header(self, payload: bytes) -> bool:
        try:
            header = typed.decode(payload, dict[str, Any])
        except msgspec.DecodeError:  # with a right checksum: no log of ours
            return False
        self.header = self.header or header
        return True

    def _keep(self, data: bytes, at: int, begin: int, *, last: bool) -> None:
        """Keep what may be the beginning of a frame; at the end of the file, count it as lost."""
        if begin < 0 and not last:  # no SYNC left, but perhaps the beginning of one
            kept = next((size for size in range(len(SYNC) - 1, 0, -1) if data.endswith(SYNC[:size])), 0)
            kept = min(kept, len(data) - at)
            self.lost_bytes += len(data) - at - kept
            at = len(data) - kept
        self._rest = b"" if last else data[at:]
        if last:
            partial = any(data[at:].endswith(SYNC[:size]) for size in range(1, len(SYNC)))
            self.torn |= partial
            self.lost_bytes += len(data) - at
            self.lost_frames += self.torn

    def result(self, frames: list[tuple[int, bytes]]) -> Frames:
        """What was read, once all was fed."""
        return Frames(
            header=self.header, frames=tuple(frames), lost_frames=self.lost_frames, lost_bytes=self.lost_bytes,
            torn=self.torn, dropped=self.dropped, ended=self.ended,
        )  # fmt: skip
