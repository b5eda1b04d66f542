"""TCP_INFO of a real connection, whole and cut off: a field is there with its value, or absent."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.trace.propagation import tcp_info

SENT_BYTES = 100_000


@pytest.fixture(scope="module")
def raw() -> Iterator[bytes]:
    """Of a connection over which SENT_BYTES have gone, and come."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sending:
        receiving, _ = server.accept()
        with receiving:
            sending.sendall(bytes(SENT_BYTES))
            receiving.recv(SENT_BYTES, socket.MSG_WAITALL)
            receiving.sendall(b"all")
            sending.recv(3, socket.MSG_WAITALL)  # with which the acknowledgement of all came
            yield sending.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, tcp_info.LENGTH)


def test_what_was_sent_is_counted(raw: bytes) -> None:
    told = tcp_info.decode(raw)
    assert told["state"] == 1
    if told["bytes_sent"] is None:
        pytest.skip("a kernel before 4.19")
    acked, sent = told["bytes_acked"], told["bytes_sent"]
    assert acked is not None and SENT_BYTES <= acked <= SENT_BYTES + 1  # the SYN counts
    assert sent == SENT_BYTES
    assert told["bytes_received"] == 3
    assert told["unacked_segments"] == told["retransmissions"] == told["notsent_bytes"] == 0
    assert told["snd_mss_bytes"] and told["min_rtt_us"] is not None and told["options"] is not None
    assert tcp_info.segment_header_bytes(told["options"]) in {54, 66}


@given(length=st.integers(min_value=0, max_value=tcp_info.LENGTH + 64))
def test_a_shorter_struct_lacks_its_last_fields_and_no_other(raw: bytes, length: int) -> None:
    whole, cut = (
        tcp_info.decode(raw.ljust(tcp_info.LENGTH + 64, b"\0")),
        tcp_info.decode(raw.ljust(400, b"\0")[:length]),
    )
    for name, (offset, kind) in tcp_info.FIELDS.items():
        assert cut[name] == (whole[name] if offset + int(kind[1]) <= length else None)


def test_fields_do_not_overlap() -> None:
    used = sorted((offset, offset + int(kind[1])) for offset, kind in tcp_info.FIELDS.values())
    assert all(end <= start for (_, end), (start, _) in pairwise(used))
