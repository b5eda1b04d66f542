"""Connections that a library opens while its script trains: what they carried before they were found is not lost."""

from __future__ import annotations

import struct
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, Trace
from e2c_dl.trace.places import recorded
from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.propagation.counters import decoded
from e2c_dl.trace.propagation.flows import with_flows
from e2c_dl.trace.propagation.samples import Connection, Samples, read_samples
from e2c_dl.trace.propagation.sockets import SocketSampler
from e2c_dl.trace.propagation.sockets.own import Told

S = 10**9
RATE = 1_000_000  # bytes that each connection carries in each iteration, of a second


class Opened:
    """Two connections to rank 1, the second of which is opened in iteration 3."""

    def __init__(self) -> None:
        self.connections = [
            Connection(cookie=cookie, local=("10.0.0.1", cookie), remote=("10.0.0.2", cookie), rank=1, host="b")
            for cookie in (1, 2)
        ]
        self.carried = [500, 0]
        self.there = 1
        self._told = 0

    def rescan(self) -> list[Connection]:
        found, self._told = self.connections[self._told : self.there], self.there
        return found

    def read(self, *, ends: bool = False) -> list[Told]:
        return [
            (one.cookie.to_bytes(8, "little"), 2, counted(carried))
            for one, carried in zip(self.connections[: self._told], self.carried, strict=False)
        ]

    def small(self, cookies: Collection[int]) -> None:
        """None is."""


def counted(carried: int) -> bytes:
    made = bytearray(tcp_info.LENGTH)
    for name in ("bytes_acked", "bytes_sent"):
        struct.pack_into("=Q", made, tcp_info.FIELDS[name][0], carried)
    for name, value in (("srtt_us", 5000), ("min_rtt_us", 5000), ("snd_cwnd_segments", 10), ("snd_mss_bytes", 1000)):
        struct.pack_into("=I", made, tcp_info.FIELDS[name][0], value)
    return bytes(made)


def sampled(folder: Path, cap_bytes: int | None, source: Opened | None = None) -> Samples:
    """Seven iterations; new connections are looked for where the fifth begins."""
    own = recorded(folder, "a")
    own.folder.path.mkdir(parents=True)
    source, now_ns = source or Opened(), 0
    with SocketSampler(
        own.connections_raw.path, rank=0, host="a", source=source, rate_hz=0, clock=lambda: now_ns,
        flush_every_s=60, cap_bytes=cap_bytes, rank_of=lambda _: (1, "b"),
    ) as sampler:  # fmt: skip
        for number in range(8):
            if number in (2, 4):
                sampler._scan_due_s = 0.0
            sampler.iteration(number)
            source.there = 2 if number >= 3 else 1
            source.carried = [count + RATE * (each < source.there) for each, count in enumerate(source.carried)]
            now_ns += S
    found = read_samples(own)
    assert found is not None
    return found


def trained() -> Trace:
    spans = np.zeros(8, dtype=SPAN)
    spans["phase"], spans["iteration"] = Phase.ITERATION, range(8)
    spans["start_ns"] = spans["posted_ns"] = np.arange(8) * S
    spans["end_ns"] = spans["start_ns"] + S
    ranks = [
        RankTrace(rank=rank, host=host, layer="edge", spans=spans, clock=ClockAlignment())
        for rank, host in ((0, "a"), (1, "b"))
    ]
    return Trace(ranks=tuple(ranks), facts={})


@pytest.mark.parametrize("cap_bytes", [None, 20_000])
def test_what_it_carried_before_it_was_found_is_of_the_link(tmp_path: Path, cap_bytes: int | None) -> None:
    link = with_flows(trained(), [sampled(tmp_path, cap_bytes)]).connections.between(0, 1)
    assert link is not None and link.connections == 2
    assert link.total["acked_bytes"][0] == link.since_birth["acked_bytes"] - 500 == 8 * RATE + 5 * RATE
    if cap_bytes is None:
        assert link.per_iteration["acked_bytes"][:2] == pytest.approx([RATE, RATE])
        # It was not there yet at 2 s, and was looked at first at 4 s.
        assert link.per_iteration["acked_bytes"][2:4] == pytest.approx([1.5 * RATE, 1.5 * RATE], rel=0.05)
    assert link.per_iteration["acked_bytes"].sum() == pytest.approx(13 * RATE)
    assert np.nanmin(link.per_iteration["min_rtt_s"]) == np.nanmin(link.per_iteration["srtt_s"]) == 0.005
    assert np.nanmax(link.per_iteration["window_bytes"]) == 10_000


def test_before_there_is_a_connection_nothing_is_counted_or_measured() -> None:
    for length in (100, tcp_info.LENGTH):
        (told,) = decoded([tcp_info.unborn(length)])
        assert np.isnan(told["srtt_us"]) and np.isnan(told["min_rtt_us"])
        assert told["retransmissions"] == 0 or length == 100


class Copied(Opened):
    """Its connections are found again by other descriptors, as ``dup`` makes them, each time they are looked for."""

    def rescan(self) -> list[Connection]:
        self._told = 0
        return super().rescan()


@pytest.mark.parametrize("cap_bytes", [None, 20_000])
def test_a_connection_that_is_found_again_is_told_as_if_it_was_not(tmp_path: Path, cap_bytes: int | None) -> None:
    once, again = sampled(tmp_path / "once", cap_bytes), sampled(tmp_path / "again", cap_bytes, Copied())
    for name in ("time_ns", "cookie", "iteration"):
        assert getattr(again, name).tolist() == getattr(once, name).tolist()
    assert again.connections == once.connections
