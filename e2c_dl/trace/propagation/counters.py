"""The counters of one connection as curves over time, from its samples: when it sent, and how much until when.

::

    sample k-1            sample k                         a jiffy is the step of busy time, 4 ms as a rule
       idle ......[#######]  busy     start = t_k - its busy time
       busy [#######]......  idle     end = t_(k-1) + its busy time
       busy [#####]...[####] busy     less busy than the time between: nobody knows where the gap lies; in the middle
       idle ...[####]......  idle     end = when the last acknowledgement came

What a counter rose by between two samples it rose by while the connection was busy, evenly. From when a connection was
not there yet to the first look at it, which may be some seconds, it is held to have been busy as much in each tenth of
a second: nobody knows when it was opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.propagation.tcp_info import FIELDS, JIFFY_NS, LENGTH, NO_RTT

Times = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

COUNTERS = ("bytes_acked", "bytes_sent", "bytes_retransmitted", "segments_out", "retransmissions")
LIMITED = ("rwnd_limited_us", "sndbuf_limited_us")
_EVENLY_NS = 100_000_000  # from a connection's birth to the first look at it
_DECODED = np.dtype([(name, "f8") for name in FIELDS])


@dataclass(frozen=True, kw_only=True, eq=False)
class Curves:
    """What one connection counted. ``at_ns`` never falls; ``values``: a curve of its length per counter, and wire."""

    at_ns: Times
    values: dict[str, Numbers]
    busy_ns: Times
    """(n, 2): begin and end of each interval in which it was busy, in order."""


def decoded(raws: Sequence[bytes]) -> npt.NDArray[Any]:
    """One row per entry of ``raws``, one float64 column per field of TCP_INFO; NaN: the kernel does not tell.

    Counters above 2**53, nine million gigabytes, are rounded.
    """
    found = np.full(len(raws), np.nan, dtype=_DECODED)
    lengths = np.fromiter(map(len, raws), dtype=np.int64, count=len(raws))
    padded = b"".join(raw[:LENGTH].ljust(LENGTH, b"\0") for raw in raws)
    table = np.frombuffer(padded, dtype=np.uint8).reshape(len(raws), LENGTH)
    for name, (offset, kind) in FIELDS.items():
        end = offset + int(kind[1])
        values = np.ascontiguousarray(table[:, offset:end]).view(f"={kind}")[:, 0]
        found[name] = np.where(lengths >= end, values, np.nan)
    found["min_rtt_us"][found["min_rtt_us"] == NO_RTT] = np.nan
    found["srtt_us"][found["srtt_us"] == 0] = np.nan  # none was measured
    return found


def under_way(told: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether each sample of :func:`decoded` found data on its way, or waiting to be sent."""
    return np.asarray((told["unacked_segments"] > 0) | (told["notsent_bytes"] > 0))


def curves(at_ns: Times, told: npt.NDArray[Any], *, ip_version: int) -> Curves:
    """The curves of one connection's samples, at least one: ``told``, as decoded, at ``at_ns``, which never falls."""
    at_ns, told = _evenly_from_birth(at_ns, told)
    values = {name: _rising(told[name], FIELDS[name][1]) for name in (*COUNTERS, *LIMITED)}
    options = int(np.nan_to_num(told["options"][-1]))
    values["wire_bytes"] = values["bytes_sent"] + values["segments_out"] * tcp_info.segment_header_bytes(
        options, version=ip_version
    )
    pieces, busy = _pieces(at_ns, told, np.diff(values["bytes_acked"]))
    lengths = pieces[:, 1::2] - pieces[:, ::2]
    total = lengths.sum(axis=1)
    share = np.divide(lengths[:, 0], total, out=np.full(len(total), 0.5), where=total > 0)
    return Curves(
        at_ns=np.maximum.accumulate(np.concatenate([at_ns[:1], pieces.ravel(), at_ns[-1:]])),
        values={name: _on_knots(curve, share) for name, curve in values.items()},
        busy_ns=united(pieces[busy].reshape(-1, 2)),
    )


def _evenly_from_birth(at_ns: Times, told: npt.NDArray[Any]) -> tuple[Times, npt.NDArray[Any]]:
    """The samples; where the first one is of before the connection was there, some evenly between it and the next."""
    if len(told) < 2 or told["state"][0] != 0 or told["bytes_acked"][0] + told["segments_out"][0] != 0:
        return at_ns, told
    between = min(int(at_ns[1] - at_ns[0]) // _EVENLY_NS, 1000)
    made = np.full(between, np.nan, dtype=told.dtype)
    shares = np.arange(1, between + 1) / (between + 1)
    for name in (*COUNTERS, *LIMITED, "busy_us"):
        made[name] = shares * told[name][1]
    made_ns = at_ns[0] + np.rint(shares * float(at_ns[1] - at_ns[0])).astype(np.int64)
    return np.concatenate([at_ns[:1], made_ns, at_ns[1:]]), np.concatenate([told[:1], made, told[1:]])


def _pieces(at_ns: Times, told: npt.NDArray[Any], acked: Numbers) -> tuple[Times, npt.NDArray[np.bool_]]:
    """Per pair of neighbouring samples (begin, end, begin, end) of the two pieces of its time, and whether it was busy.

    One that was not may still have sent acknowledgements: its pieces are all of the time.
    """
    begin, end = at_ns[:-1], at_ns[1:]
    whole = end - begin
    sends = under_way(told)
    sent, sending = sends[:-1], sends[1:]
    used = np.diff(told["busy_us"]) * 1e3
    used = np.where(np.isnan(used), np.where(sent | sending | (acked > 0), whole, 0), used)
    # What was acknowledged took a part of a jiffy at least; what was sent in this very time, a round trip.
    trip = np.where(sent, 0, np.nan_to_num(told["min_rtt_us"][1:]) * 1e3)
    used = np.where(acked > 0, np.maximum(used, np.minimum(np.maximum(trip, JIFFY_NS // 2), whole)), used)
    used = np.where(sent & sending & (used >= whole - 2 * JIFFY_NS), whole, used)
    length = np.clip(used, 0, whole).astype(np.int64)
    answered = end - (np.nan_to_num(told["last_ack_received_ms"][1:]) * 1e6).astype(np.int64)
    answered = np.clip(answered, begin + length, end)
    busy = length > 0
    length = np.where(busy, length, whole)
    last = np.where(sending | ~busy, end, np.where(sent, begin + length, answered))
    first = np.where(sent & busy, begin, last - length)
    half = length // 2
    return np.stack([first, first + half, last - (length - half), last], axis=1), busy


def _on_knots(curve: Numbers, share: Numbers) -> Numbers:
    """``curve``, which has a value per sample, at the knots between: ``share`` of each rise in the first piece."""
    before, after = curve[:-1], curve[1:]
    middle = before + (after - before) * share
    between = np.stack([before, middle, middle, after], axis=1).ravel()
    return np.concatenate([curve[:1], between, curve[-1:]])


def united(intervals: Times, gap_ns: int = JIFFY_NS) -> Times:
    """The union of ``intervals`` (n, 2), in order; gaps of at most ``gap_ns``, below what can be told, are closed."""
    kept = intervals[intervals[:, 1] > intervals[:, 0]]
    if not len(kept):
        return kept
    kept = kept[np.argsort(kept[:, 0], kind="stable")]
    until = np.maximum.accumulate(kept[:, 1])
    begins = np.concatenate([[True], kept[1:, 0] > until[:-1] + gap_ns])
    ends = np.concatenate([begins[1:], [True]])
    return np.stack([kept[begins, 0], until[ends]], axis=1)


def at(curve_ns: Times, curve: Numbers, asked_ns: Times) -> Numbers:
    """The curve at ``asked_ns``: straight between its knots, flat beyond them."""
    base = curve_ns[0]  # differences are exact as floats
    return np.asarray(np.interp(asked_ns - base, curve_ns - base, curve), dtype=np.float64)


def _rising(counter: Numbers, kind: str) -> Numbers:
    """``counter`` since its first sample, gone on where it wrapped.

    A fall is none: of two looks at the same time, the one with the later time may have been taken first.
    """
    rise = np.diff(counter)
    if kind == "u4":
        rise = (rise + 2.0**31) % 2.0**32 - 2.0**31
    return np.asarray(np.maximum.accumulate(np.concatenate([counter[:1] * 0, np.cumsum(rise)])))
