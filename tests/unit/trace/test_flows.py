"""FLOW spans and link tables from samples: of connections whose truth is known, and of real ones."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, Spans, Trace
from e2c_dl.trace.places import CONNECTIONS_RAW
from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.propagation.counters import decoded, united
from e2c_dl.trace.propagation.flows import with_flows
from e2c_dl.trace.propagation.peers import peer_ranks
from e2c_dl.trace.propagation.samples import Connection, Samples
from e2c_dl.trace.propagation.sockets import SocketSampler
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.trace.store import read_trace

MS = 1_000_000
RATE = 1000  # bytes per ms, of the simulated connection
ENDS = (("10.0.0.1", 40000), ("10.0.0.2", 50000))


def raw(**fields: int) -> bytes:
    content = bytearray(tcp_info.LENGTH)
    for name, value in fields.items():
        offset, kind = tcp_info.FIELDS[name]
        struct.pack_into({"u1": "=B", "u4": "=I", "u8": "=Q"}[kind], content, offset, value)
    return bytes(content)


def told(at_ms: int, busy: Sequence[tuple[int, int]], limited: float = 0.0) -> bytes:
    """TCP_INFO of a connection that sends RATE while ``busy`` (ms), its time told in whole jiffies.

    For that share of the time its receiver's window is full.
    """
    used = sum(max(0, min(at_ms, end) - start) for start, end in busy)
    sends = any(start < at_ms < end for start, end in busy)
    last = max((min(at_ms, end) for start, end in busy if start <= at_ms), default=0)
    return raw(
        bytes_acked=used * RATE, bytes_sent=used * RATE, segments_out=used, busy_us=used // 4 * 4000,
        unacked_segments=int(sends), delivery_rate_bytes_per_s=RATE * 1000, srtt_us=1000, min_rtt_us=500,
        last_ack_received_ms=at_ms - last, options=1, rwnd_limited_us=round(used * limited) * 1000,
    )  # fmt: skip


def samples(rank: int, at_ms: Sequence[int], raws: Sequence[bytes], **more: object) -> Samples:
    local, remote = ENDS if rank == 0 else ENDS[::-1]
    fields: dict[str, object] = {
        "rank": rank, "host": f"h{rank}", "time_ns": np.array(at_ms, dtype=np.int64) * MS,
        "cookie": np.full(len(at_ms), 7 + rank, dtype=np.uint64), "iteration": np.full(len(at_ms), -1, dtype=np.int32),
        "family": np.full(len(at_ms), 2, dtype=np.uint16), "raw": tuple(raws), "lost": 0,
        "connections": {7 + rank: Connection(cookie=7 + rank, local=local, remote=remote)},
    }  # fmt: skip
    return Samples(**{**fields, **more})  # type: ignore[arg-type]


def iterations(*edges_ms: int) -> Spans:
    spans = np.zeros(len(edges_ms) - 1, dtype=SPAN)
    spans["phase"], spans["iteration"] = Phase.ITERATION, np.arange(len(spans))
    spans["start_ns"], spans["end_ns"] = np.array(edges_ms[:-1]) * MS, np.array(edges_ms[1:]) * MS
    return spans


def trace(*of_ranks: Spans, clock: ClockAlignment | None = None) -> Trace:
    return Trace(
        ranks=tuple(
            RankTrace(rank=rank, host=f"h{rank}", layer="all", spans=spans, clock=clock or ClockAlignment())
            for rank, spans in enumerate(of_ranks)
        ),
        facts={},
    )


def flows(found: Trace, rank: int = 0) -> Spans:
    spans = found.ranks[rank].spans
    return spans[spans["phase"] == Phase.FLOW]


NOTHING = iterations(0)
other_end = samples(1, [0, 1000], [raw(), raw()])


def test_busy_times_are_told_from_samples_around_them() -> None:
    busy = [(105, 185), (300, 420)]
    at_ms = [0, 50, 150, 200, 250, 350, 400, 500]
    found = with_flows(trace(NOTHING, NOTHING), [samples(0, at_ms, [told(at, busy) for at in at_ms]), other_end])
    spans = flows(found)
    assert spans["nbytes"].tolist() == [80 * RATE, 120 * RATE]
    assert np.abs(spans["start_ns"] // MS - [105, 300]).max() <= 4
    assert np.abs(spans["end_ns"] // MS - [185, 420]).max() <= 4
    assert set(zip(spans["src"], spans["dst"], strict=True)) == {(0, 1)}
    (link,) = found.connections.data
    assert link.total["acked_bytes"].tolist() == [200 * RATE]
    assert link.total["wire_bytes"].tolist() == [200 * (RATE + 66)]
    assert link.since_birth["wire_bytes"] == found.connections.wire_bytes[0] == 200 * (RATE + 66)


def test_iterations_cut_flows_and_get_their_share() -> None:
    busy, at_ms = [(50, 250)], list(range(0, 400, 20))
    rank = trace(iterations(0, 100, 200, 300), NOTHING)
    found = with_flows(rank, [samples(0, at_ms, [told(at, busy) for at in at_ms]), other_end])
    spans = flows(found)
    assert spans["iteration"].tolist() == [0, 1, 2]
    assert spans["end_ns"][:-1].tolist() == spans["start_ns"][1:].tolist() == [100 * MS, 200 * MS]
    (link,) = found.connections.data
    assert np.abs(link.per_iteration["acked_bytes"] - [50 * RATE, 100 * RATE, 50 * RATE]).max() <= 4 * RATE
    assert link.per_iteration["acked_bytes"].sum() == pytest.approx(200 * RATE)
    assert np.nanmax(np.abs(link.bytes_per_busy_s / (RATE * 1000) - 1)) < 0.1
    assert link.per_iteration["delivery_rate_bps"].tolist() == [8000 * RATE] * 3


def test_samples_name_iterations_where_no_span_does() -> None:
    busy, at_ms = [(10, 190)], [0, 100, 200]
    numbered = samples(0, at_ms, [told(at, busy) for at in at_ms], iteration=np.array([-1, 0, 1], dtype=np.int32))
    (link,) = with_flows(trace(NOTHING, NOTHING), [numbered, other_end]).connections.data
    assert link.per_iteration["iteration"].tolist() == [0, 1]
    assert np.abs(link.per_iteration["acked_bytes"] - 90 * RATE).max() <= 4 * RATE


@given(
    st.lists(st.integers(1, 200), min_size=2, max_size=12),
    st.lists(st.integers(1, 90), min_size=2, max_size=40),
    st.lists(st.integers(1, 300), max_size=6),
    st.integers(-(10**6), 10**6),
)
def test_no_byte_is_lost_and_spans_do_not_overlap(
    lengths: list[int], gaps: list[int], edges: list[int], offset_ns: int
) -> None:
    turns = np.cumsum(lengths).tolist()
    busy = list(zip(turns[::2], turns[1::2], strict=False))
    at_ms = [0, *np.cumsum(gaps).tolist()]
    clock = ClockAlignment(offset_ns=offset_ns)
    rank = trace(iterations(*[0, *np.cumsum(edges).tolist()]), NOTHING, clock=clock)
    raws = [told(at, busy) for at in at_ms]
    found = with_flows(rank, [samples(0, at_ms, raws), other_end])
    spans = flows(found)
    acked = tcp_info.field(raws[-1], "bytes_acked")
    assert spans["nbytes"].sum() == pytest.approx(acked, abs=len(spans))
    assert (spans["start_ns"] <= spans["end_ns"]).all()
    assert (spans["start_ns"][1:] >= spans["end_ns"][:-1]).all()
    if len(spans):
        assert spans["start_ns"][0] >= offset_ns
        assert spans["end_ns"][-1] <= at_ms[-1] * MS + offset_ns
    for link in found.connections.links:
        assert link.per_iteration["acked_bytes"].sum() <= acked + 1e-6
        assert (link.per_iteration["busy_ns"] <= link.per_iteration["end_ns"] - link.per_iteration["start_ns"]).all()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=12))
def test_a_union_covers_what_its_parts_do(parts: list[tuple[int, int]]) -> None:
    intervals = np.array([(start, start + length) for start, length in parts], dtype=np.int64).reshape(-1, 2)
    covered = {at for start, end in intervals for at in range(start, end)}
    merged = united(intervals, gap_ns=0)
    assert {at for start, end in merged for at in range(start, end)} == covered
    assert (merged[1:, 0] > merged[:-1, 1]).all()


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_many_are_decoded_as_each_is(raws: list[bytes]) -> None:
    table = decoded(raws)
    assert len(table) == len(raws)
    for row, one in zip(table, raws, strict=True):
        for name, value in tcp_info.decode(one).items():
            assert np.isnan(row[name]) if value is None else row[name] == float(value)


@given(st.lists(st.tuples(st.integers(0, 3000), st.binary(max_size=260)), max_size=20))
def test_any_samples_give_a_table(rows: list[tuple[int, bytes]]) -> None:
    rows.sort(key=lambda row: row[0])
    hostile = samples(0, [at for at, _ in rows], [one for _, one in rows])
    found = with_flows(trace(iterations(0, 100, 2000), NOTHING), [hostile, other_end])
    assert (flows(found)["end_ns"] >= flows(found)["start_ns"]).all()


def test_two_connections_of_a_pair_are_one_link() -> None:
    at_ms = [0, 100, 200]
    one = [told(at, [(10, 110)], limited=0.3) for at in at_ms]
    two = [told(at, [(50, 150)], limited=0.3) for at in at_ms]
    ends = (("10.0.0.1", 40001), ("10.0.0.2", 50000))
    both = samples(
        0, [at for at in at_ms for _ in "ab"], [raws for pair in zip(one, two, strict=True) for raws in pair],
        cookie=np.array([7, 9] * 3, dtype=np.uint64),
        connections={number: Connection(cookie=number, local=pair[0], remote=pair[1])
                     for number, pair in ((7, ENDS), (9, ends))},
    )  # fmt: skip
    far = samples(1, [0], [raw()], connections={
        8: Connection(cookie=8, local=ENDS[1], remote=ENDS[0]),
        10: Connection(cookie=10, local=ends[1], remote=ends[0]),
    })  # fmt: skip
    (link,) = with_flows(trace(NOTHING, NOTHING), [both, far]).connections.data
    assert link.connections == 2
    assert link.total["acked_bytes"].tolist() == [200 * RATE]
    assert link.total["busy_ns"][0] / MS == pytest.approx(140, abs=10)
    assert link.total["rwnd_limited_ns"][0] == pytest.approx(0.3 * link.total["busy_ns"][0], rel=0.05)  # of it
    assert link.total["delivery_rate_bps"][0] == 2 * 8000 * RATE  # at 100 ms both were under way


def test_what_is_not_known_is_said() -> None:
    at_ms = [0, 100, 200]
    raws = [told(at, [(10, 110)]) for at in at_ms]
    alone = with_flows(trace(NOTHING, NOTHING), [samples(0, at_ms, raws, lost=3, dropped=5)])
    assert alone.connections.links == ()
    text = " ".join(alone.connections.limitations)
    assert "h1: its sockets were not looked at" in text
    assert "h0: 3 samples of its sockets are lost" in text
    assert "h0: for lack of room, 5 samples of its sockets were left out" in text
    assert "rank 0 to 10.0.0.2:50000: 0.1 MB" in text
    reduced = iterations(0, 100)
    reduced["phase"], reduced["kind"], reduced["nbytes"] = Phase.COLLECTIVE, 1, 10_000_000
    hidden = with_flows(trace(reduced, NOTHING), [samples(0, at_ms, raws), other_end])
    assert "all-reduces moved 10.0 MB, the ranks' sockets 0.1" in hidden.connections.limitations[-1]


def test_a_rank_that_left_nothing_is_known_by_what_others_recorded() -> None:
    at_ms = [0, 100, 200]
    known = Connection(cookie=7, local=ENDS[0], remote=ENDS[1], rank=1)
    alone = samples(0, at_ms, [told(at, [(10, 110)]) for at in at_ms], connections={7: known})
    (link,) = with_flows(trace(NOTHING, NOTHING), [alone]).connections.data
    assert (link.src, link.dst) == (0, 1)


def test_the_same_loopback_address_on_two_hosts_is_two_connections() -> None:
    def of(rank: int, machine: str, port: int, other: int) -> Samples:
        ends = Connection(cookie=1, local=("127.0.0.1", port), remote=("127.0.0.1", other))
        return samples(
            rank, [0], [raw()], cookie=np.array([1], dtype=np.uint64), connections={1: ends}, machine=machine
        )

    of_all = [of(0, "a", 1, 2), of(1, "a", 2, 1), of(2, "b", 1, 2), of(3, "b", 2, 1)]
    assert peer_ranks(of_all) == {(0, 1): 1, (1, 1): 0, (2, 1): 3, (3, 1): 2}


def test_a_connection_whose_ends_have_one_address_is_within_a_machine() -> None:
    at_ms = [0, 100, 200]
    for remote, within in (("127.0.0.1", True), ("127.0.0.2", False)):
        ends = Connection(cookie=7, local=("127.0.0.1", 1), remote=(remote, 2), rank=1)
        alone = samples(0, at_ms, [told(at, [(10, 110)]) for at in at_ms], connections={7: ends})
        found = with_flows(trace(NOTHING, NOTHING), [alone]).connections
        assert [link.within_machine for link in found.data] == [found.wire_bytes[0] == 0] == [within]


def test_replies_and_rendezvous_are_no_data() -> None:
    at_ms = [0, 500, 1000]
    back = samples(1, at_ms, [told(at, [(10, 12)]) for at in at_ms])
    found = with_flows(trace(NOTHING, NOTHING), [samples(0, at_ms, [told(at, [(0, 900)]) for at in at_ms]), back])
    assert [(link.src, link.dst, link.is_data) for link in found.connections.links] == [(0, 1, True), (1, 0, False)]
    assert len(flows(found, 1)) == 0


def test_messages_that_were_recorded_are_not_told_twice() -> None:
    at_ms = [0, 100, 200]
    sent = iterations(0, 100)
    sent["phase"] = Phase.SEND
    own = samples(0, at_ms, [told(at, [(10, 110)]) for at in at_ms])
    found = with_flows(trace(sent, NOTHING), [own, other_end])
    assert len(flows(found)) == 0
    assert len(found.connections.data) == 1


def test_an_older_kernel_tells_bytes_alone() -> None:
    at_ms = [0, 100, 200]
    cut = [told(at, [(10, 110)])[:128] for at in at_ms]
    found = with_flows(trace(NOTHING, NOTHING), [samples(0, at_ms, cut), other_end])
    assert any("does not tell how long" in text for text in found.connections.limitations)
    assert flows(found)["nbytes"].sum() == 100 * RATE
    assert np.isnan(found.connections.data[0].total["wire_bytes"][0])


def test_what_a_host_left_is_read_with_its_spans(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as first:
        second = server.accept()[0]
        for rank in (0, 1):
            (tmp_path / f"hosts/h{rank}").mkdir(parents=True)
        recorders = [
            Recorder(tmp_path / f"hosts/h{rank}/spans.bin", rank=rank, host=f"h{rank}", layer="a") for rank in (0, 1)
        ]
        samplers = [
            SocketSampler(tmp_path / f"hosts/h{rank}" / CONNECTIONS_RAW, rank=rank, host=f"h{rank}", rate_hz=0)
            for rank in (0, 1)
        ]
        for iteration in (0, 1):
            start_ns = recorders[0].clock()
            samplers[0].iteration(iteration)
            first.sendall(bytes(10**5))
            second.recv(10**5, socket.MSG_WAITALL)
            recorders[0].record(Phase.ITERATION, start_ns, start_ns, recorders[0].clock(), iteration=iteration)
        for each in (*samplers, *recorders):
            each.close()
        second.close()
    (tmp_path / "hosts/h1" / CONNECTIONS_RAW).write_bytes(b"damaged")
    found = read_trace(tmp_path)
    assert any("h1/connections.bin" in text and "left out" in text for text in found.connections.limitations)
