"""Segmented TCP frames as the kernel hands them over, drawn by hypothesis, and a receiver that takes them apart."""

from __future__ import annotations

import ipaddress
import struct

from hypothesis import strategies as st

from e2c_dl.emulation.relay.frames import GSO_TCPV4, GSO_TCPV6, VNET

ETHERNET = bytes.fromhex("020000000002020000000001")
FIN, SYN, PSH, ACK = 1, 2, 8, 16


def ones_complement(data: bytes) -> int:
    """The checksum that completes ``data``, word by word; written apart from the code under test."""
    total = 0
    for i in range(0, len(data), 2):
        total += data[i] << 8 | (data[i + 1] if i + 1 < len(data) else 0)
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def pseudo(version: int, src: bytes, dst: bytes, size: int) -> bytes:
    return src + dst + (struct.pack("!BBH", 0, 6, size) if version == 4 else struct.pack("!II", size, 6))


def ip_header(version: int, src: bytes, dst: bytes, identification: int, options: bytes, size: int) -> bytes:
    if version == 6:
        return struct.pack("!IHBB", 0x60000000, size, 6, 64) + src + dst
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH", 0x40 | words, 0, words * 4 + size, identification, 0x4000, 64, 6, 0)
    head += src + dst + options
    return head[:10] + struct.pack("!H", ones_complement(head)) + head[12:]


def gso_frame(version, payload, segment, sequence=1, identification=7, flags=ACK, ip_options=b"", tcp_options=b""):
    """A buffer as the kernel hands it over: partial checksum over the pseudo header of the whole."""
    src = ipaddress.ip_address("198.19.0.1" if version == 4 else "fd00::1").packed
    dst = ipaddress.ip_address("198.19.0.2" if version == 4 else "fd00::2").packed
    size = 20 + len(tcp_options) + len(payload)
    partial = 0xFFFF - ones_complement(pseudo(version, src, dst, size))
    tcp = struct.pack("!HHIIBBHHH", 4000, 5000, sequence, 99, (5 + len(tcp_options) // 4) << 4, flags, 512, partial, 0)
    ip = ip_header(version, src, dst, identification, ip_options, size)
    kind = GSO_TCPV4 if version == 4 else GSO_TCPV6
    vnet = VNET.pack(1, kind, 14 + len(ip) + size - len(payload), segment, 14 + len(ip), 16)
    return vnet + ETHERNET + (b"\x08\x00" if version == 4 else b"\x86\xdd") + ip + tcp + tcp_options + payload


class Parsed:
    """A buffer taken apart again, with its checksums completed and verified as a receiver would."""

    def __init__(self, buffer: bytes) -> None:
        self.flags, self.gso_type, _, self.gso_size, start, offset = VNET.unpack_from(buffer)
        frame = buffer[10:]
        version = frame[14] >> 4
        ip = frame[14:start]
        self.ip_ok = True
        if version == 4:
            self.ip_ok = ones_complement(ip) == 0 and struct.unpack_from("!H", ip, 2)[0] == len(frame) - 14
            self.identification = struct.unpack_from("!H", ip, 4)[0]
            src, dst = ip[12:16], ip[16:20]
        else:
            self.ip_ok = struct.unpack_from("!H", ip, 4)[0] == len(frame) - 54
            self.identification = 0
            src, dst = ip[8:24], ip[24:40]
        tcp = bytearray(frame[start:])
        tcp[offset : offset + 2] = struct.pack("!H", ones_complement(bytes(tcp)))
        # What the card writes must satisfy who checks it: the sum over pseudo header and segment is all ones.
        self.tcp_ok = ones_complement(pseudo(version, src, dst, len(tcp)) + bytes(tcp)) == 0
        self.sequence, self.tcp_flags = struct.unpack_from("!I", tcp, 4)[0], tcp[13]
        self.payload = bytes(tcp[(tcp[12] >> 4) * 4 :])


@st.composite
def frames(draw):
    segment = draw(st.integers(1, 300))
    size = draw(st.integers(1, 12 * segment))
    words = st.integers(0, 5).map(lambda n: bytes(range(4 * n)))
    version = draw(st.sampled_from((4, 6)))
    return gso_frame(
        version,
        draw(st.randoms(use_true_random=False)).randbytes(size),
        segment,
        sequence=draw(st.integers(0, 2**32 - 1)),
        identification=draw(st.integers(0, 2**16 - 1)),
        flags=draw(st.sampled_from((ACK, ACK | PSH, ACK | PSH | FIN))),
        ip_options=draw(words) if version == 4 else b"",
        tcp_options=draw(words),
    )
