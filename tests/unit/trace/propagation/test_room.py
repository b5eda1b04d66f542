"""A file of samples at its cap: the last counters of every connection are in it, whatever else is left out."""

from __future__ import annotations

import struct

import pytest
from told_sockets import counted

from e2c_dl.trace.propagation.samples import SAMPLE, packed
from e2c_dl.trace.propagation.sockets.room import Room
from e2c_dl.trace.propagation.tcp_info import FIELDS


def sample(at_ns: int, cookie: int, acked: int) -> bytes:
    raw = bytearray(counted())
    struct.pack_into("=Q", raw, FIELDS["bytes_acked"][0], acked)
    return packed(at_ns, cookie, 0, 2, bytes(raw))


@pytest.mark.parametrize("connections", [1, 40, 128])
def test_the_last_of_each_connection_is_written(connections: int) -> None:
    """Every tenth iteration is slow; one connection moves no more once the cap is reached."""
    cap_bytes, iterations = 1 << 18, 1500
    dropped: list[int] = []
    room = Room(cap_bytes, dropped.append)
    written, carried, now_ns = [], {}, 0
    for iteration in range(iterations):
        now_ns += 300 if iteration % 10 == 0 else 100
        moved = [each for each in range(connections + 1) if each or iteration < 1200]
        carried |= dict.fromkeys(moved, iteration)
        written += room.offer([sample(now_ns, each, iteration) for each in moved], now_ns, ends=True)
    written += room.end()
    told: dict[int, int] = {}
    for one in written:
        told[SAMPLE.unpack_from(one)[1]] = struct.unpack_from("=Q", one, SAMPLE.size + FIELDS["bytes_acked"][0])[0]
    assert told == carried
    assert sum(map(len, written)) <= cap_bytes
    assert sum(dropped) + len(written) == iterations * connections + 1200


def test_of_an_iteration_that_hangs_samples_are_written_though_it_never_ends() -> None:
    room = Room(1 << 16, lambda _: None)
    for iteration in range(1, 200):
        kept = room.offer([sample(100 * iteration, 0, iteration)], 100 * iteration, ends=True)
    assert not kept
    looks = [room.offer([sample(at_ns, 0, at_ns)], at_ns, ends=False) for at_ns in (20_000, 20_049, 20_050, 20_060)]
    assert [len(each) for each in looks] == [0, 0, 4, 1], "with the last of those before it"
