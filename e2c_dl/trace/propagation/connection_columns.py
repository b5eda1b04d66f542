"""The table of connections, version 2: one row per sample of TCP_INFO, decoded, columns that explain themselves.

::

    rank  host    peer_rank  local           remote          iteration  time_ns    bytes_acked  srtt_us ...  raw
    2     edge-3  3          10.0.0.3:40112  10.0.0.4:29500  17         812450113  51200000     10250        <232 bytes>

Units and descriptions stand in each field's metadata; what the kernel did not tell is null. ``raw`` is the struct as
the kernel gave it, from which all counters can be decoded again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from e2c_dl.trace.columns import NAMES
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.trace.propagation.tcp_info import FIELDS, NO_RTT

VERSION = 2  # 1: own time, cookie, iteration, family and raw alone
_WIDTHS = {"u1": pa.uint8(), "u4": pa.uint32(), "u8": pa.uint64()}

COUNTERS: Mapping[str, tuple[str, str]] = {  # field of TCP_INFO -> unit, description
    "state": ("", "state of the connection, as the kernel numbers them; 1: established"),
    "options": ("bits", "bit 0: segments carry time stamps"),
    "rate_is_limited_by_sender": ("bits", "bit 0: the delivery rate was measured while the program sent too little"),
    "snd_mss_bytes": ("bytes", "payload of a full segment that is sent"),
    "unacked_segments": ("segments", "on their way, or lost"),
    "lost_segments": ("segments", "of those on their way, held for lost now"),
    "last_data_sent_ms": ("ms", "since data was last sent"),
    "last_ack_received_ms": ("ms", "since the last acknowledgement came"),
    "path_mtu_bytes": ("bytes", "largest packet of the path"),
    "srtt_us": ("us", "round trip, smoothed"),
    "rttvar_us": ("us", "variation of the round trip"),
    "snd_cwnd_segments": ("segments", "congestion window"),
    "retransmissions": ("segments", "sent again, since the connection began"),
    "bytes_acked": ("bytes", "payload that the other end has, since the connection began"),
    "bytes_received": ("bytes", "payload that came from the other end, since the connection began"),
    "segments_out": ("segments", "that left, since the connection began: data, acknowledgements, retransmissions"),
    "segments_in": ("segments", "that came, since the connection began"),
    "notsent_bytes": ("bytes", "in the send buffer, not sent yet"),
    "min_rtt_us": ("us", "least round trip of the last minutes"),
    "data_segments_in": ("segments", "with payload, that came since the connection began"),
    "data_segments_out": ("segments", "with payload, that left since the connection began"),
    "delivery_rate_bytes_per_s": ("bytes/s", "of the latest round trip in which something was acknowledged"),
    "busy_us": ("us", "data was on its way or waited to be sent, since the connection began; in steps of a jiffy"),
    "rwnd_limited_us": ("us", "of busy_us: the receiver's window was full"),
    "sndbuf_limited_us": ("us", "of busy_us: the send buffer was full"),
    "delivered_segments": ("segments", "that arrived at the other end, since the connection began"),
    "bytes_sent": ("bytes", "payload that left since the connection began, retransmissions included"),
    "bytes_retransmitted": ("bytes", "payload that was sent again, since the connection began"),
    "receive_out_of_order_segments": ("segments", "that came out of order, since the connection began"),
}


class Ends(Protocol):
    """Between whom a connection is."""

    @property
    def local(self) -> tuple[str, int]: ...
    @property
    def remote(self) -> tuple[str, int]: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def host(self) -> str | None: ...


def _field(name: str, kind: pa.DataType, unit: str, description: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"description": description, "unit": unit})


SCHEMA = pa.schema(
    [
        _field("rank", pa.int32(), "", "number of the worker whose socket it is"),
        _field("host", NAMES, "", "name of the host that the worker ran on"),
        _field("peer_rank", pa.int32(), "", "worker at the other end; null: none that is known", nullable=True),
        _field("peer_host", NAMES, "", "its host; null: none that is known", nullable=True),
        _field("local", NAMES, "", "this end's address and port"),
        _field("remote", NAMES, "", "the other end's address and port"),
        _field("iteration", pa.int32(), "", "the one that the sample ends or lies in; null: none", nullable=True),
        _field("time_ns", pa.int64(), "ns since training began, reference clock", "when it was taken"),
        *(_field(name, _WIDTHS[FIELDS[name][1]], *COUNTERS[name], nullable=True) for name in FIELDS),
        _field("family", pa.uint16(), "", "of the addresses: 2 IPv4, 10 IPv6"),
        _field("cookie", pa.uint64(), "", "the kernel's number of the connection"),
        _field("own_time_ns", pa.int64(), "ns, the host's own clock", "time_ns before alignment"),
        _field("raw", pa.binary(), "", "struct tcp_info as the kernel gave it"),
    ]
)


def to_table(
    rank: int, host: str, own: Mapping[str, Sequence[Any] | npt.NDArray[Any]], ends: Sequence[Ends], *,
    clock: ClockAlignment | None, origin_ns: int | None,
) -> pa.Table:  # fmt: skip
    """The table of the samples ``own``: time_ns (own clock), cookie, iteration, family, raw; ``ends`` of each.

    ``origin_ns``: when training began, on the reference clock; None: with the first sample.
    """
    own_ns = np.asarray(own["time_ns"], dtype=np.int64)
    at_ns = (clock or ClockAlignment()).align(own_ns)
    began_ns = origin_ns if origin_ns is not None else int(at_ns[0]) if len(at_ns) else 0
    iterations = np.asarray(own["iteration"])
    columns: dict[str, Any] = {
        "rank": [rank] * len(ends),
        "host": [host] * len(ends),
        "peer_rank": [end.rank if end.rank is not None and 0 <= end.rank < 1 << 15 else None for end in ends],
        "peer_host": [end.host for end in ends],
        "local": [_address(end.local) for end in ends],
        "remote": [_address(end.remote) for end in ends],
        "iteration": pa.array(iterations, pa.int32(), mask=iterations < 0),
        "time_ns": at_ns - began_ns,
        **_decoded(list(own["raw"])),
        **{name: own[name] for name in ("family", "cookie", "raw")},
        "own_time_ns": own_ns,
    }
    return pa.table([_array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def _decoded(raws: Sequence[bytes]) -> dict[str, pa.Array]:
    """Every field of all ``raws``; null where a struct ends before it."""
    values = {name: np.zeros(len(raws), dtype=kind) for name, (_, kind) in FIELDS.items()}
    missing = {name: np.ones(len(raws), dtype=bool) for name in FIELDS}
    lengths = np.array([len(raw) for raw in raws])
    for length in np.unique(lengths[lengths > 0]):
        rows = np.flatnonzero(lengths == length).tolist()
        block = np.frombuffer(b"".join(raws[row] for row in rows), dtype=np.uint8).reshape(-1, length)
        for name, (offset, kind) in FIELDS.items():
            end = offset + np.dtype(kind).itemsize
            if end <= length:
                values[name][rows] = np.ascontiguousarray(block[:, offset:end]).view(kind)[:, 0]
                missing[name][rows] = False
    missing["min_rtt_us"] |= values["min_rtt_us"] == NO_RTT
    return {name: pa.array(values[name], mask=missing[name]) for name in FIELDS}


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def _address(end: tuple[str, int]) -> str:
    return f"[{end[0]}]:{end[1]}" if ":" in end[0] else f"{end[0]}:{end[1]}"
