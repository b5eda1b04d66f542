"""Frames as a TAP device with offloads hands them over: how much of the wire one occupies, and how to cut it smaller.

With TCP segmentation offload the kernel hands over one frame of up to 64 KB and says into which segments a network card
would cut it. On the wire every segment carries its own copy of the headers::

    | vnet header 10 | Ethernet 14 | IP | TCP | payload                          |   one GSO frame, in memory
                      \\______headers_______/ |segment|segment|segment| ... |rest|   segment_bytes each
    wire_bytes = segments * headers_bytes + payload_bytes                            no FCS, no preamble, no padding

A frame without segmentation is one segment. Only TCP over IPv4 and IPv6 comes segmented: the TAP offers nothing else.
The layout of the vnet header is ``struct virtio_net_hdr`` (linux/virtio_net.h), in the machine's byte order.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

VNET_BYTES = 10
ETHERNET_BYTES = 14

NEEDS_CSUM = 1  # flags: the checksum field so far holds the sum over the pseudo header only
GSO_NONE, GSO_TCPV4, GSO_TCPV6 = 0, 1, 4

VNET = struct.Struct("=BBHHHH")
"""flags, gso_type, hdr_len, gso_size, csum_start, csum_offset (both offsets from the start of the Ethernet header)."""

_TCP_FIN_PSH = 0x09
_TCP_CHECKSUM = 16  # offset in the TCP header


class FrameShape(NamedTuple):
    """What a frame is on the wire. ``segment_bytes`` is the payload of every segment but the last."""

    headers_bytes: int  # Ethernet, IP and TCP: repeated by every segment; of a frame that is one segment: 0
    payload_bytes: int  # the rest
    segment_bytes: int
    segments: int

    def wire_bytes(self, first: int, count: int) -> int:
        """Bytes on the wire of segments ``first`` .. ``first + count - 1``."""
        begin = first * self.segment_bytes
        end = min(begin + count * self.segment_bytes, self.payload_bytes)
        return count * self.headers_bytes + end - begin


def shape(buffer: bytes) -> FrameShape:
    """What ``buffer`` (vnet header and frame) is on the wire.

    Raises: ValueError when it is too short, or asks for a segmentation that the TAP does not offer.
    """
    size = len(buffer) - VNET_BYTES
    if size < ETHERNET_BYTES:
        raise ValueError(f"{len(buffer)} bytes are no frame")
    if buffer[1] == GSO_NONE:
        return FrameShape(0, size, size, 1)
    flags, gso_type, _, segment_bytes, csum_start, _ = VNET.unpack_from(buffer)
    if gso_type not in (GSO_TCPV4, GSO_TCPV6) or not flags & NEEDS_CSUM or segment_bytes == 0:
        raise ValueError(f"segmentation of type {gso_type:#x} with flags {flags:#x} was not offered")
    if csum_start < ETHERNET_BYTES + 20 or size < csum_start + 20:
        raise ValueError(f"no TCP header at byte {csum_start} of a frame of {size} bytes")
    headers = csum_start + (buffer[VNET_BYTES + csum_start + 12] >> 4) * 4
    payload = size - headers
    if payload <= 0:
        raise ValueError(f"headers of {headers} bytes in a frame of {size} bytes")
    return FrameShape(headers, payload, segment_bytes, -(-payload // segment_bytes))


def cut(buffer: bytes, form: FrameShape, first: int, count: int) -> bytes:
    """A frame of its own with segments ``first`` .. ``first + count - 1`` of ``buffer``, ``form`` being its shape.

    Lengths, IP identification and checksum, TCP sequence number and flags (FIN and PSH belong to the last segment) and
    the sum over the pseudo header become what the kernel itself would have sent. The whole frame is returned as it is.
    """
    if count == form.segments:
        return buffer
    begin = first * form.segment_bytes
    end = min(begin + count * form.segment_bytes, form.payload_bytes)
    body = VNET_BYTES + form.headers_bytes
    head = bytearray(buffer[:body])
    gso_type, tcp = head[1], VNET_BYTES + VNET.unpack_from(head)[4]
    if count == 1:  # one segment: nothing is left for the kernel to cut
        VNET.pack_into(head, 0, head[0], GSO_NONE, 0, 0, *VNET.unpack_from(head)[4:])
    if gso_type == GSO_TCPV4:
        _rewrite_ipv4(head, first, end - begin)
    else:
        # IPv6 counts its payload without its own header: Ethernet's 14 and its 40 bytes come off.
        struct.pack_into("!H", head, VNET_BYTES + ETHERNET_BYTES + 4, form.headers_bytes - 54 + end - begin)
    _rewrite_tcp(head, tcp, begin, last=end == form.payload_bytes)
    struct.pack_into("!H", head, tcp + _TCP_CHECKSUM, _pseudo_sum(head, gso_type, body - tcp + end - begin))
    return bytes(head) + buffer[body + begin : body + end]


def internet_sum(data: bytes) -> int:
    """Ones' complement sum of 16-bit words, folded, not complemented. Source: RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _rewrite_ipv4(head: bytearray, first: int, payload_bytes: int) -> None:
    """Total length, identification (the kernel counts it up by one per segment) and checksum, in place."""
    ip = VNET_BYTES + ETHERNET_BYTES
    identification = struct.unpack_from("!H", head, ip + 4)[0]
    length = len(head) - ip + payload_bytes
    struct.pack_into("!HH", head, ip + 2, length, (identification + first) & 0xFFFF)
    struct.pack_into("!H", head, ip + 10, 0)  # its own checksum counts as 0 (RFC 791)
    header = bytes(head[ip : ip + (head[ip] & 0x0F) * 4])
    struct.pack_into("!H", head, ip + 10, ~internet_sum(header) & 0xFFFF)


def _rewrite_tcp(head: bytearray, tcp: int, begin: int, *, last: bool) -> None:
    """Sequence number and flags, in place. ``begin``: where in the payload of the whole this piece starts."""
    sequence = struct.unpack_from("!I", head, tcp + 4)[0]
    struct.pack_into("!I", head, tcp + 4, (sequence + begin) & 0xFFFFFFFF)
    if not last:
        head[tcp + 13] &= ~_TCP_FIN_PSH & 0xFF


def _pseudo_sum(head: bytearray, gso_type: int, tcp_bytes: int) -> int:
    """What the kernel expects in the checksum field of a frame that NEEDS_CSUM: addresses, protocol and length."""
    ip = VNET_BYTES + ETHERNET_BYTES
    addresses = head[ip + 12 : ip + 20] if gso_type == GSO_TCPV4 else head[ip + 8 : ip + 40]
    return internet_sum(bytes(addresses) + struct.pack("!IHH", tcp_bytes, 0, 6))
