"""Laws of cutting frames and of shaping links, against independent computations."""

from __future__ import annotations

import ipaddress
import random
import struct

from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.emulation.frames import GSO_TCPV4, GSO_TCPV6, VNET, cut, shape
from e2c_dl.emulation.shaping import HOLD_S, LinkShaper

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


@st.composite
def cut_frames(draw):
    """(buffer, the counts of segments of consecutive pieces)"""
    buffer = draw(frames())
    left, counts = shape(buffer).segments, []
    while left:
        counts.append(draw(st.integers(1, left)))
        left -= counts[-1]
    return buffer, counts


def pieces(buffer, counts):
    form = shape(buffer)
    firsts = [sum(counts[:i]) for i in range(len(counts))]
    return form, [cut(buffer, form, first, count) for first, count in zip(firsts, counts, strict=True)]


@given(cut_frames())
def test_pieces_are_frames_that_a_receiver_accepts(drawn):
    buffer, counts = drawn
    whole = Parsed(buffer)
    _, parts = pieces(buffer, counts)
    expected_sequence, segments = whole.sequence, 0
    for part, count in zip(parts, counts, strict=True):
        parsed = Parsed(part)
        assert parsed.ip_ok and parsed.tcp_ok and parsed.flags == 1
        assert parsed.sequence == expected_sequence
        if whole.identification or parsed.identification:
            assert parsed.identification == (whole.identification + segments) % 2**16
        assert parsed.tcp_flags == (whole.tcp_flags if part is parts[-1] else whole.tcp_flags & ~(FIN | PSH))
        alone = count == 1 and len(parts) > 1
        assert (parsed.gso_type, parsed.gso_size) == ((0, 0) if alone else (whole.gso_type, whole.gso_size))
        expected_sequence = (expected_sequence + len(parsed.payload)) % 2**32
        segments += count
    assert b"".join(Parsed(part).payload for part in parts) == whole.payload


@given(cut_frames())
def test_cutting_conserves_segments_and_wire_bytes(drawn):
    buffer, counts = drawn
    form, parts = pieces(buffer, counts)
    assert form.segments == -(-len(Parsed(buffer).payload) // form.segment_bytes)
    assert sum(shape(part).segments for part in parts) == form.segments
    on_wire = sum(shape(part).wire_bytes(0, shape(part).segments) for part in parts)
    headers = len(buffer) - 10 - len(Parsed(buffer).payload)
    assert on_wire == form.wire_bytes(0, form.segments) == form.segments * headers + len(Parsed(buffer).payload)


@given(cut_frames(), st.data())
def test_a_piece_of_a_piece_is_a_piece(drawn, data):
    buffer, counts = drawn
    form, parts = pieces(buffer, counts)
    which = data.draw(st.integers(0, len(parts) - 1))
    inner = data.draw(st.integers(0, counts[which] - 1))
    again = cut(parts[which], shape(parts[which]), inner, 1)
    assert again == cut(buffer, form, sum(counts[:which]) + inner, 1)


def shaper(rate_bps=None, delay_s=0.0, loss=0.0, limit_bytes=None, seed=1):
    return LinkShaper(rate_bps=rate_bps, delay_s=delay_s, loss=loss, limit_bytes=limit_bytes, rng=random.Random(seed))


offers = st.lists(st.tuples(st.floats(0, 0.01), frames()), min_size=1, max_size=15)


@given(offers, st.floats(1e4, 1e9), st.floats(0, 0.1), st.sampled_from((0.0, 0.1, 0.9, 1.0)), st.integers(1514, 20000))
def test_a_link_conserves_segments_keeps_order_and_never_beats_its_rate(offered, rate_bps, delay_s, loss, limit_bytes):
    link = shaper(rate_bps, delay_s, loss, limit_bytes)
    now_s = 0.0
    arrivals = []
    for wait_s, buffer in offered:
        now_s += wait_s
        came = link.admit(now_s, buffer)
        assert all(at_s - now_s - delay_s <= limit_bytes * 8 / rate_bps * (1 + 1e-9) + 1e-12 for at_s, _, _ in came)
        arrivals += came
    assert link.frames == len(offered)
    assert sum(shape(b).segments for _, b in offered) == link.segments + link.dropped_loss + link.dropped_queue
    assert sum(segments for _, segments, _ in arrivals) == link.segments
    assert sum(shape(b).wire_bytes(0, shape(b).segments) for _, _, b in arrivals) == link.wire_bytes
    times = [at_s for at_s, _, _ in arrivals]
    assert times == sorted(times)
    if arrivals:
        assert (times[-1] - delay_s) * rate_bps / 8 >= link.wire_bytes * (1 - 1e-9)
    for _, segments, piece in arrivals:
        assert segments == 1 or shape(piece).wire_bytes(0, segments) * 8 / rate_bps <= HOLD_S * (1 + 1e-9)


@given(st.lists(frames(), min_size=1, max_size=10), st.floats(1e5, 1e8), st.floats(0, 0.1))
def test_a_link_that_is_never_idle_carries_exactly_its_rate(buffers, rate_bps, delay_s):
    link = shaper(rate_bps, delay_s)
    arrivals = [arrival for buffer in buffers for arrival in link.admit(5.0, buffer)]
    wire_bytes = sum(shape(b).wire_bytes(0, shape(b).segments) for b in buffers)
    assert abs(arrivals[-1][0] - (5.0 + wire_bytes * 8 / rate_bps + delay_s)) < 1e-9


@given(st.lists(frames(), min_size=1, max_size=10), st.floats(0.01, 0.99), st.integers(0, 100))
def test_which_segments_are_lost_does_not_depend_on_how_they_are_grouped(buffers, loss, seed):
    grouped, single = shaper(loss=loss, seed=seed), shaper(loss=loss, seed=seed)
    together = [p for buffer in buffers for _, _, p in grouped.admit(0.0, buffer)]
    apart = []
    for buffer in buffers:
        form = shape(buffer)
        for segment in range(form.segments):
            apart += [p for _, _, p in single.admit(0.0, cut(buffer, form, segment, 1))]
    assert b"".join(Parsed(p).payload for p in together) == b"".join(Parsed(p).payload for p in apart)
    assert grouped.dropped_loss == single.dropped_loss
