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
        pairs = np.stack([self.joined["src"], self.joined["dst"]], axis=1)
        found, starts = np.unique(pairs, axis=0, return_index=True)
        stops = np.append(starts, len(self.joined))[1:]
        return {
            (int(src), int(dst)): self.joined[start:stop]
            for (src, dst), start, stop in zip(found, starts, stops, strict=True)
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
    sends, send_keys = _sorted(trace, Phase.SEND, "src")
    receives, receive_keys = _sorted(trace, Phase.RECEIVE, "dst")
    place = np.searchsorted(receive_keys, send_keys)
    s = np.flatnonzero(np.append(receive_keys, -1)[place] == send_keys)
    r = place[s]
    joined = np.zeros(len(s), dtype=MESSAGE)
    for name in ("seq", "src", "dst", "iteration", "bucket", "nbytes"):
        joined[name] = sends[name][s]
    joined["posted_ns"] = sends["posted_ns"][s]
    joined["send_start_ns"], joined["send_end_ns"] = sends["start_ns"][s], sends["end_ns"][s]
    joined["recv_start_ns"], joined["recv_end_ns"] = receives["start_ns"][r], receives["end_ns"][r]
    return Messages(joined=joined, unreceived=np.delete(sends, s), unsent=np.delete(receives, r))


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
        spans = _own(rank, phase, own)
        ends, index, counts = np.unique(spans[other], return_inverse=True, return_counts=True)
        totals = np.zeros(len(ends), dtype=np.int64)
        np.add.at(totals, index, spans["nbytes"])  # bincount would weight in floats
        for end, count, total in zip(ends.tolist(), counts.tolist(), totals.tolist(), strict=True):
            yield rank.rank, end, (count, total)


def _own(rank: RankTrace, phase: Phase, own: str) -> Spans:
    """The spans of ``phase`` whose ``own`` end is the rank that recorded them."""
    spans: Spans = rank.spans[rank.spans["phase"] == phase]
    return np.asarray(spans[spans[own] == rank.rank])


def _sorted(trace: Trace, phase: Phase, own: str) -> tuple[Spans, npt.NDArray[np.int64]]:
    """All spans of ``phase`` whose ``own`` end recorded them, by (src, dst, seq); and the keys that sort them."""
    spans = np.concatenate([_own(rank, phase, own) for rank in trace.ranks])
    of_spans = keys(spans)
    order = np.argsort(of_spans, kind="stable")
    spans, of_spans = spans[order], of_spans[order]
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
