"""Messages: every SEND of one rank joined to the RECEIVE of another, times on the reference clock.

::

    src   posted .. send_start ===== send_end                       the kernel has taken the last byte
    dst                       recv_start ========= recv_end         the last byte is there
                  |<------------- on its way ------------->|

``send_end`` says when the sender's kernel took the bytes, which may be long before they leave; what a link did is told
by ``recv_end``. A message is known by (src, dst, seq); one that lacks a half (a run broke off) is counted, not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import AnalysisError
from e2c_dl.trace.model import Phase, RankTrace, Spans, Trace

MESSAGE: np.dtype[Any] = np.dtype(
    [
        ("posted_ns", "<i8"),  # when the sending task asked for it
        ("send_start_ns", "<i8"),
        ("send_end_ns", "<i8"),
        ("recv_start_ns", "<i8"),
        ("recv_end_ns", "<i8"),
        ("nbytes", "<i8"),  # on the stream, header included
        ("seq", "<i8"),  # on its link, from 0
        ("iteration", "<i4"),
        ("bucket", "<i2"),
        ("src", "<i2"),  # rank
        ("dst", "<i2"),
    ]
)

MessageArray = npt.NDArray[Any]
"""A one-dimensional structured array of :data:`MESSAGE`."""

_SEQ_BITS = 32


@dataclass(frozen=True, kw_only=True)
class Messages:
    """``joined`` is sorted by (src, dst, seq). ``unreceived`` and ``unsent`` are the spans that found no partner."""

    joined: MessageArray
    unreceived: Spans  # SEND spans: still on their way when the trace ends, or never arrived
    unsent: Spans  # RECEIVE spans whose SEND is not in the trace

    @property
    def unmatched(self) -> int:
        return len(self.unreceived) + len(self.unsent)

    def by_link(self) -> dict[tuple[int, int], MessageArray]:
        """(src rank, dst rank) -> its messages by seq; views of ``joined``; keys sorted."""
        src, dst = self.joined["src"], self.joined["dst"]
        starts = np.flatnonzero((np.diff(src, prepend=-1) != 0) | (np.diff(dst, prepend=-1) != 0))
        stops = np.append(starts, len(self.joined))[1:]
        return {
            (int(src[start]), int(dst[start])): self.joined[start:stop]
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        }


@dataclass(frozen=True)
class Conservation:
    """Totals that one directed link took in and gave out; equal, unless the run broke off."""

    src: int
    dst: int
    sent_messages: int
    sent_bytes: int
    received_messages: int
    received_bytes: int


def join(trace: Trace) -> Messages:
    """All messages of ``trace``. Raises: AnalysisError, if a rank names one message twice."""
    with ThreadPoolExecutor(1) as beside:  # NumPy works in both
        others = beside.submit(_sorted, trace, Phase.RECEIVE, "dst")
        sends, send_keys = _sorted(trace, Phase.SEND, "src")
        receives, receive_keys = others.result()
    unreceived, unsent = sends[:0].copy(), receives[:0].copy()
    if not np.array_equal(send_keys, receive_keys):
        _, s, r = np.intersect1d(send_keys, receive_keys, assume_unique=True, return_indices=True)
        unreceived, unsent = np.delete(sends, s), np.delete(receives, r)
        sends, receives = sends[s], receives[r]
    joined = np.empty(len(sends), dtype=MESSAGE)
    for name in ("seq", "src", "dst", "iteration", "bucket", "nbytes", "posted_ns"):
        joined[name] = sends[name]
    joined["send_start_ns"], joined["send_end_ns"] = sends["start_ns"], sends["end_ns"]
    joined["recv_start_ns"], joined["recv_end_ns"] = receives["start_ns"], receives["end_ns"]
    return Messages(joined=joined, unreceived=unreceived, unsent=unsent)


def conservation(trace: Trace) -> tuple[Conservation, ...]:
    """Sent beside received, per directed link, sorted by (src, dst)."""
    sent = {(rank, dst): total for rank, dst, total in _totals(trace, Phase.SEND, "src", "dst")}
    received = {(src, rank): total for rank, src, total in _totals(trace, Phase.RECEIVE, "dst", "src")}
    return tuple(
        Conservation(src, dst, *sent.get((src, dst), (0, 0)), *received.get((src, dst), (0, 0)))
        for src, dst in sorted(sent.keys() | received.keys())
    )


def _totals(trace: Trace, phase: Phase, own: str, other: str) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """(rank, the other end, (messages, bytes)) of the spans of ``phase`` whose ``own`` end recorded them."""
    for rank in trace.ranks:
        rows = _own_rows(rank, phase, own)
        index = rank.spans[other][rows].astype(np.int64) + 1  # -1: none
        counts = np.bincount(index)
        totals = np.zeros(len(counts), dtype=np.int64)
        np.add.at(totals, index, rank.spans["nbytes"][rows])  # bincount would weight in floats
        for end in np.flatnonzero(counts).tolist():
            yield rank.rank, end - 1, (int(counts[end]), int(totals[end]))


def _own_rows(rank: RankTrace, phase: Phase, own: str) -> npt.NDArray[np.int32]:
    """The places of the spans of ``phase`` whose ``own`` end is the rank that recorded them."""
    rows = rank.rows(phase)
    return np.asarray(rows[rank.spans[own][rows] == rank.rank])


def _sorted(trace: Trace, phase: Phase, own: str) -> tuple[Spans, npt.NDArray[np.int64]]:
    """All spans of ``phase`` whose ``own`` end recorded them, by (src, dst, seq); and the keys that sort them."""
    spans = np.concatenate([np.take(rank.spans, _own_rows(rank, phase, own)) for rank in trace.ranks])
    of_spans = keys(spans)
    order = np.argsort(of_spans, kind="stable")
    spans, of_spans = np.take(spans, order), of_spans[order]
    repeated = np.flatnonzero(np.diff(of_spans) == 0)
    if len(repeated):
        row = spans[repeated[0]]
        raise AnalysisError(
            f"trace: {phase.name} of message {row['seq']} from rank {row['src']} to {row['dst']} is recorded twice; "
            "the archive mixes two runs or is damaged: run e2c-dl verify on it"
        )
    return spans, of_spans


def keys(spans: Spans | Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """(src, dst, seq) as one number that sorts like the triple."""
    pair = (spans["src"].astype(np.int64) << 15) | spans["dst"].astype(np.int64)  # ranks are 16 bits with a sign
    return np.asarray((pair << _SEQ_BITS) | spans["seq"])
