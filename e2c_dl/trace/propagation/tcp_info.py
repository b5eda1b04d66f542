"""What Linux tells of one TCP connection: ``struct tcp_info``, of any length, by field.

::

    getsockopt(IPPROTO_TCP, TCP_INFO), INET_DIAG_INFO   -> raw bytes, as long as the kernel's struct
    field(raw, "bytes_acked")                           -> a number, or None where the struct ends before the field

The struct only ever grew at its end, so that a field is where it always was. Counters are of this end's sending, since
the connection began, unless a field says otherwise. Offsets: ``include/uapi/linux/tcp.h``; numbers are in the order of
this machine's bytes. What is newer than the last field is not looked at.
Imports the standard library alone, for programs that are sent to a host.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType

FIELDS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "state": (0, "u1"),  # 1: established
        "options": (5, "u1"),  # bit 0: segments carry time stamps
        "rate_is_limited_by_sender": (7, "u1"),  # bit 0: delivery_rate was measured while the program sent too little
        "snd_mss_bytes": (16, "u4"),  # payload of a full segment that is sent
        "unacked_segments": (24, "u4"),  # on their way, or lost
        "lost_segments": (32, "u4"),  # of those, held for lost now
        "last_data_sent_ms": (44, "u4"),  # since then
        "last_ack_received_ms": (56, "u4"),  # since then
        "path_mtu_bytes": (60, "u4"),
        "srtt_us": (68, "u4"),  # round trip, smoothed
        "rttvar_us": (72, "u4"),
        "snd_cwnd_segments": (80, "u4"),
        "retransmissions": (100, "u4"),  # segments sent again
        "bytes_acked": (120, "u8"),  # payload that the other end has
        "bytes_received": (128, "u8"),  # payload that came from the other end
        "segments_out": (136, "u4"),  # all that left: data, acknowledgements, retransmissions
        "segments_in": (140, "u4"),
        "notsent_bytes": (144, "u4"),  # in the send buffer, never sent yet
        "min_rtt_us": (148, "u4"),  # of the last minutes (tcp_min_rtt_wlen); all bits set: none was measured
        "data_segments_in": (152, "u4"),
        "data_segments_out": (156, "u4"),
        "delivery_rate_bytes_per_s": (160, "u8"),  # of the latest round trip in which something was acknowledged
        "busy_us": (168, "u8"),  # time in which data was on its way or waited to be sent; in steps of a jiffy
        "rwnd_limited_us": (176, "u8"),  # of busy_us: the receiver's window was full
        "sndbuf_limited_us": (184, "u8"),  # of busy_us: the send buffer was
        "delivered_segments": (192, "u4"),
        "bytes_sent": (200, "u8"),  # payload that left, retransmissions included
        "bytes_retransmitted": (208, "u8"),
        "receive_out_of_order_segments": (224, "u4"),
    }
)
"""Name -> (offset in bytes, type). A unit is the last word of a name that needs one."""

LENGTH = max(offset + int(kind[1]) for offset, kind in FIELDS.values())
"""Bytes that hold all of FIELDS: what to ask getsockopt for."""

JIFFY_NS = 4_000_000
"""The step of busy_us and its kin where the kernel's HZ is 250, as distributions have it; 1 to 10 ms elsewhere."""

_STRUCTS = {
    name: struct.Struct(f"={offset}x{ {'u1': 'B', 'u4': 'I', 'u8': 'Q'}[kind] }")
    for name, (offset, kind) in FIELDS.items()
}
NO_RTT = 0xFFFFFFFF  # min_rtt_us, before one was measured


def field(raw: bytes, name: str) -> int | None:
    """The field ``name`` of FIELDS in ``raw``; None: the kernel does not tell."""
    one = _STRUCTS[name]
    if len(raw) < one.size:
        return None
    value = int(one.unpack_from(raw)[0])
    return None if name == "min_rtt_us" and value == NO_RTT else value


def decode(raw: bytes) -> dict[str, int | None]:
    """Every field of FIELDS in ``raw``; None: the kernel does not tell."""
    return {name: field(raw, name) for name in FIELDS}


def unborn(length: int) -> bytes:
    """So many bytes of a connection that is not there yet: it has counted nothing, and measured nothing."""
    made = bytearray(length)
    offset, kind = FIELDS["min_rtt_us"]
    if length >= offset + int(kind[1]):
        struct.pack_into("=I", made, offset, NO_RTT)
    return bytes(made)


def segment_header_bytes(options: int, *, version: int = 4) -> int:
    """Ethernet, IP and TCP headers of a segment: 66 bytes with time stamps over IPv4.

    Selective acknowledgements, which only segments after a loss carry, are left out.
    """
    timestamps = 12 if options & 1 else 0
    return 14 + (40 if version == 6 else 20) + 20 + timestamps
