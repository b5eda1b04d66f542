"""Laws of cutting frames, against independent computations."""

from __future__ import annotations

from gso_frames import FIN, PSH, Parsed, frames
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.emulation.relay.frames import cut, shape


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
