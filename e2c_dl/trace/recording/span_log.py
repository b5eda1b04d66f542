"""Spans in a log (:mod:`e2c_dl.trace.recording.log`): its header says whose they are, its frames hold records of SPAN.

::

    header    {"trace": "spans", "version": 2, "rank": 3, "host": "fog-1", "layer": "fog", "dtype": [...]}
    frames    kind 1, each of up to 32 records of 64 bytes; from the virtual world of up to 1,000
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from e2c_dl import codec, typed
from e2c_dl.beneath import LARGE_BYTES, Place, placed
from e2c_dl.errors import ArchiveError
from e2c_dl.trace import earlier
from e2c_dl.trace.check import SpansFacts
from e2c_dl.trace.model import NOTHING_LOST, RECORD_BYTES, SPAN, Lost, Phase, Spans
from e2c_dl.trace.recording.frames import HEADER, MOST_PAYLOAD, SYNC, Frames, Scanner, framed

VERSION = 2  # 1: raw records one after another, see e2c_dl.trace.earlier
SPANS = 1  # kind of their frames
_PER_FRAME = MOST_PAYLOAD // RECORD_BYTES


class _Header(SpansFacts, frozen=True, kw_only=True):
    """The header of a log of spans."""

    trace: str
    version: int
    dtype: list[tuple[str, str]]


def header(rank: int, host: str, layer: str) -> dict[str, Any]:
    """What the log of a rank begins with."""
    dtype = [list(field) for field in SPAN.descr]
    return {"trace": "spans", "version": VERSION, "rank": rank, "host": host, "layer": layer, "dtype": dtype}


def opening(rank: int, host: str, layer: str) -> bytes:
    """The beginning of such a file, for who writes files without a Log."""
    return framed(HEADER, msgspec.json.encode(header(rank, host, layer)), number=0, records=0) * 2


def frames(records: bytes, *, number: int, per_frame: int = _PER_FRAME) -> bytes:
    """Frames of ``records``, whole records of SPAN; the first is the ``number``th of its file."""
    step = per_frame * RECORD_BYTES
    pieces = (records[begin : begin + step] for begin in range(0, len(records), step))
    return b"".join(
        framed(SPANS, piece, number=number + index * per_frame, records=len(piece) // RECORD_BYTES)
        for index, piece in enumerate(pieces)
    )


def facts(found: Mapping[str, Any], where: str, lost: Lost = NOTHING_LOST) -> SpansFacts:
    """Whose spans follow the header ``found``. Raises: ArchiveError."""
    try:
        known = typed.convert(dict(found), _Header)
    except msgspec.ValidationError as error:
        raise ArchiveError(f"{where}: the header of the trace: {error}; {codec.DAMAGED}") from error
    if known.trace != "spans" or known.version != VERSION or known.dtype != SPAN.descr:
        raise ArchiveError(
            f"{where}: holds {known.trace!r:.40} of version {known.version}, laid out otherwise; "
            "read it with the program that wrote it"
        )
    return SpansFacts(rank=known.rank, host=known.host, layer=known.layer, lost=lost)


def spans_of(payloads: list[tuple[int, bytes]]) -> Spans:
    """The spans of frames, in their order."""
    content = b"".join(payload for kind, payload in payloads if kind == SPANS and len(payload) % RECORD_BYTES == 0)
    spans: Spans = np.frombuffer(content, dtype=SPAN).copy()  # a buffer's view is read-only
    return spans


def read_spans(path: Path | Place) -> tuple[SpansFacts, Spans, bool]:
    """(whose spans, with what of them is lost; spans in the order of recording; complete) of a spans.bin.

    A trace is *complete* if it holds its TRAINING span, which a rank records only when its last iteration has ended,
    and nothing after that is torn.

    Raises: ArchiveError, if ``path`` cannot be read or is not such a file.
    """
    content = placed(path).read(LARGE_BYTES)
    if content.startswith(earlier.MAGIC[: max(1, len(content))]):
        return earlier.raw_spans(content, str(path))
    scanner = Scanner()
    found = scanner.result(scanner.feed(content, last=True))
    if found.header is None:
        raise ArchiveError(f"{path}: {_unread(content)}")
    spans = spans_of(list(found.frames))
    complete = not found.torn and bool(np.any(spans["phase"] == Phase.TRAINING))
    return facts(found.header, str(path), lost_of(found)), spans, complete


def lost_of(found: Frames) -> Lost:
    """What a log of spans lost, and what it left out by design. A torn end alone is how a killed rank's trace ends."""
    damaged = found.lost_frames - found.torn
    return Lost(
        spans=max(0, damaged),
        damaged_bytes=0 if found.torn and damaged == 0 else found.lost_bytes,
        dropped=found.dropped,
    )


def _unread(content: bytes) -> str:
    if SYNC[:3] in content:
        return "cannot read the trace: no copy of its header is whole; its spans belong to nobody"
    if SYNC.startswith(content):
        return "cannot read the trace: it is cut off inside its header; the rank ended before it trained"
    return "not a trace: it is no log of spans; name a spans.bin of a run"
