"""The values of emulation: tc commands, compute plans, fidelity, rounds of measuring, probes on loopback."""

from __future__ import annotations

import json
import socket

import pytest

from e2c_dl.emulation import tc
from e2c_dl.emulation.compute import RELAY_CORES, Method, plan
from e2c_dl.emulation.fidelity import LinkFidelity, Measured
from e2c_dl.emulation.measure import asked_round_trip_s, measure_link, rounds
from e2c_dl.emulation.probes import HEADER, PING_FRAME_BYTES, Arrival, Kind, Packet, TrainResult
from e2c_dl.emulation.responder import Responder, Train
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Host, Link, Pair, Topology


def topology(links: dict[Pair, Link]) -> Topology:
    names = sorted({name for pair in links for name in pair} | {"a"})
    hosts = (Host(name=n, layer="edge", service="Trainer", service_id=n, role=n, rank=i) for i, n in enumerate(names))
    return Topology(hosts=tuple(hosts), links=links)


ADDRESSES = {"a": "198.19.0.1", "b": "198.19.0.2", "c": "198.19.0.3"}


def test_tc_renders_the_whole_interface_at_once_in_the_order_of_names() -> None:
    links = {
        ("a", "c"): Link(rate_bps=8e6),
        ("b", "a"): Link(rate_bps=1e6),
        ("a", "b"): Link(rate_bps=100e6, delay_s=0.025, loss=0.015),
    }
    rendered = [" ".join(command) for command in tc.commands(topology(links), "a", "eth1", ADDRESSES)]
    assert rendered == [
        "tc qdisc replace dev eth1 root handle 2: pfifo",
        "tc qdisc replace dev eth1 root handle 1: htb default 0",
        "tc class add dev eth1 parent 1: classid 1:1 htb rate 100000000bit ceil 100000000bit "
        "burst 12500 cburst 12500 quantum 1514",
        "tc qdisc add dev eth1 parent 1:1 handle 11: netem delay 25000us loss 1.5% limit 1000",
        "tc filter add dev eth1 parent 1: protocol ip prio 1 u32 match ip dst 198.19.0.2/32 flowid 1:1",
        "tc class add dev eth1 parent 1: classid 1:2 htb rate 8000000bit ceil 8000000bit "
        "burst 3028 cburst 3028 quantum 1514",
        "tc qdisc add dev eth1 parent 1:2 handle 12: pfifo limit 1000",
        "tc filter add dev eth1 parent 1: protocol ip prio 1 u32 match ip dst 198.19.0.3/32 flowid 1:2",
        "ip link set dev eth1 gso_max_segs 3",
    ]


def test_tc_sizes_netems_queue_by_the_bandwidth_delay_product() -> None:
    def limit(link: Link) -> str:
        commands = tc.commands(topology({("a", "b"): link}), "a", "eth1", ADDRESSES)
        return next(command[-1] for command in commands if "netem" in command)

    assert limit(Link(rate_bps=1514 * 8 * 10000, delay_s=0.1)) == "4000"
    assert limit(Link(rate_bps=1e6, delay_s=0.1)) == "1000"
    assert int(limit(Link(delay_s=0.1))) > 100_000


def test_tc_needs_netem_only_for_delay_and_loss() -> None:
    assert not tc.needs_netem(topology({("a", "b"): Link(rate_bps=1e6)}))
    assert tc.needs_netem(topology({("a", "b"): Link(delay_s=0.001)}))
    assert tc.needs_netem(topology({("a", "b"): Link(loss=0.1)}))


def test_tc_class_ids_are_hexadecimal_and_a_host_without_links_is_only_emptied() -> None:
    links = {("a", f"h{i:02}"): Link(rate_bps=1e6) for i in range(12)}
    addresses = {f"h{i:02}": f"198.19.0.{i + 10}" for i in range(12)}
    rendered = [" ".join(command) for command in tc.commands(topology(links), "a", "eth1", addresses)]
    assert any("198.19.0.21/32 flowid 1:c" in command for command in rendered)
    assert len(tc.commands(topology(links), "h01", "eth1", addresses)) == 1
    with pytest.raises(EmulationError, match="h00 has no data address"):
        tc.commands(topology(links), "a", "eth1", {})


def test_compute_takes_quota_where_every_host_can_have_its_core() -> None:
    chosen = plan(4, {"a": 1.0, "b": 2.0, "c": 1.0}, "auto", None)
    assert (chosen.method, chosen.oversubscribed) == (Method.QUOTA, False)
    assert dict(chosen.cores) == {"a": 1.0, "b": 0.5, "c": 1.0}
    assert not chosen.speed


def test_compute_sleeps_where_cores_are_short_and_never_asks_for_more_than_there_are() -> None:
    factors = {f"h{i}": 1.0 for i in range(5)} | {"slow": 3.0}
    chosen = plan(2, factors, "auto", None)
    assert (chosen.method, chosen.oversubscribed, dict(chosen.cores)) == (Method.SLEEP, False, {})
    assert chosen.speed["h0"] == pytest.approx(1.5 / 6)
    assert chosen.speed["h0"] / chosen.speed["slow"] == pytest.approx(3.0)
    assert sum(chosen.speed.values()) + RELAY_CORES <= 2


def test_compute_by_asked_cores() -> None:
    factors = dict.fromkeys("abcdef", 1.0)
    assert plan(2, factors, "auto", 0.25).method is Method.QUOTA
    assert plan(2, factors, "auto", 0.26).method is Method.SLEEP
    assert plan(2, factors, "quota", 0.5).oversubscribed
    assert dict(plan(2, factors, "quota", 0.5).cores) == dict.fromkeys(factors, 0.5)
    as_much = plan(2, factors, "quota", None)
    assert not as_much.oversubscribed
    assert sum(as_much.cores.values()) == pytest.approx(1.5)
    assert plan(2, factors, "sleep", 0.1).speed["a"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("cores", "factor", "method", "said"),
    [(0.5, 1.0, "auto", "larger machine"), (2, 0.0, "auto", "a has factor 0"), (2, 1.0, "cgroup", "unknown method")],
)
def test_compute_refuses_what_cannot_be(cores: float, factor: float, method: str, said: str) -> None:
    with pytest.raises(EmulationError, match=said):
        plan(cores, {"a": factor}, method, None)


def row(asked: Link, **measured: object) -> LinkFidelity:
    values = {
        "rate_bps": asked.rate_bps or 3e8,
        "rate_is_floor": False,
        "round_trip_s": 0.05,
        "round_trip_spread_s": 0.0,
        "pings": 21,
        "loss": asked.loss,
        "loss_samples": 200,
    }
    seen = Measured(**{**values, **measured})  # type: ignore[arg-type]
    return LinkFidelity(src="a", dst="b", designed=asked, asked=asked, asked_round_trip_s=0.05, measured=seen)


ASKED = Link(rate_bps=1e7, delay_s=0.025)


@pytest.mark.parametrize(
    ("asked", "measured", "deviations", "caveats"),
    [
        (ASKED, {}, [], []),
        (ASKED, {"rate_bps": 9.6e6}, [], []),
        (ASKED, {"rate_bps": 9.4e6}, ["a -> b: 9.4 Mbit/s measured, 10 Mbit/s asked (-6.0%)"], []),
        (
            ASKED,
            {"rate_bps": 1.2e7, "rate_is_floor": True},
            ["a -> b: at least 12 Mbit/s measured, 10 Mbit/s asked (+20.0%)"],
            [],
        ),
        (ASKED, {"round_trip_s": 0.0524}, [], []),
        (ASKED, {"round_trip_s": 0.053}, ["a -> b: round trip 53.00 ms measured, 50.00 ms asked (+3.00 ms)"], []),
        (ASKED, {"loss": 0.02}, ["a -> b: loss 2.00% measured over 200 frames, 0.00% asked"], []),
        (Link(rate_bps=1e9, loss=0.1), {"rate_bps": 3e8, "rate_is_floor": True, "loss": 0.15}, [], [
            "a -> b: 1000 Mbit/s asked, seen to carry 300 Mbit/s; the measurement did not go higher"
        ]),
        (Link(), {}, [], []),
    ],
)  # fmt: skip
def test_fidelity_says_what_is_off(
    asked: Link, measured: dict[str, object], deviations: list[str], caveats: list[str]
) -> None:
    checked = row(asked, **measured)
    assert (list(checked.deviations()), list(checked.caveats())) == (deviations, caveats)
    assert LinkFidelity.from_json(json.loads(json.dumps(checked.to_json()))) == checked


def test_fidelity_of_what_nobody_measured() -> None:
    unmeasured = LinkFidelity(src="a", dst="b", designed=ASKED, asked=ASKED, asked_round_trip_s=0.05, measured=None)
    assert (unmeasured.deviations(), unmeasured.caveats()) == ((), ("a -> b: not measured",))
    assert LinkFidelity.from_json(unmeasured.to_json()) == unmeasured
    with pytest.raises(EmulationError, match=r"links\.json"):
        LinkFidelity.from_json({"src": "a"})


def test_rounds_measure_every_link_once_and_no_host_twice_at_a_time() -> None:
    links = [(a, b) for a in "abcdef" for b in "abcdef" if a != b]
    planned = rounds(links)
    assert sorted(link for members in planned for link in members) == sorted(links)
    for members in planned:
        hosts = [host for link in members for host in link]
        assert len(hosts) == len(set(hosts))
    assert rounds(reversed(links)) == planned
    ring = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    assert len(rounds(ring)) == 2
    assert rounds([]) == []


def test_a_ping_takes_both_delays_and_its_own_time_on_both_links() -> None:
    there, back = Link(rate_bps=PING_FRAME_BYTES * 8 * 100, delay_s=0.02), Link(delay_s=0.03)
    assert asked_round_trip_s(there, back) == pytest.approx(0.05 + 0.01)


def arrivals(times_ms: list[float], overflowed: dict[int, int] | None = None) -> list[Arrival]:
    lost = overflowed or {}
    return [Arrival(b"", round(t * 1e6), ("x", 1), lost.get(i, 0)) for i, t in enumerate(times_ms)]


def counted(train: list[Arrival], head_ms: float) -> TrainResult:
    trained = Train(train[0], round(head_ms * 1e6))
    for arrival in train:
        trained.add(arrival)
    return trained.result()


def test_a_train_is_timed_after_its_head_start() -> None:
    burst = [0.001 * i for i in range(50)]
    result = counted(arrivals(burst + [10.0 + i for i in range(41)]), head_ms=5)
    assert (result.arrived, result.frame_ns) == (91, 1e6)


def test_a_stall_does_not_change_what_a_train_measures() -> None:
    times = [float(i) for i in range(200)]
    stalled = times[:100] + [t + 50 for t in times[100:]]
    assert counted(arrivals(stalled), head_ms=0).frame_ns == 1e6


def test_frames_that_overflowed_the_sockets_buffer_count_as_arrived() -> None:
    kept = [t for t in range(100) if t % 2 == 0]
    train = arrivals([float(t) for t in kept], {i: i for i in range(len(kept))})
    result = counted(train, head_ms=0)
    assert (result.arrived, result.overflowed, result.frame_ns) == (99, 49, 1e6)


def test_too_short_a_train_has_no_rate() -> None:
    assert counted(arrivals([0.0, 1.0]), head_ms=0).frame_ns == 0


def test_packets_survive_the_wire_and_others_are_not_ours() -> None:
    sent = Packet(Kind.DATA, 5, 6, -7)
    assert Packet.decode(sent.encode(100)) == sent._replace(body=bytes(100 - HEADER.size))
    assert Packet.decode(b"") is None
    assert Packet.decode(b"x" * 60) is None
    assert Packet.decode(b"e2cP" + bytes(HEADER.size)) is None
    assert TrainResult.decode(b"short") is None


def test_an_unshaped_link_measures_as_a_floor_and_strangers_are_passed_over() -> None:
    with Responder("127.0.0.1", 0) as responder:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(b"who is there?", ("127.0.0.1", responder.port))
        seen = measure_link(
            src_address="127.0.0.1",
            dst_address="127.0.0.1",
            port=responder.port,
            there=Link(),
            back=Link(),
            cap_bps=5e6,
        )
        with pytest.raises(EmulationError, match=r"cannot listen on 127\.0\.0\.1"):
            Responder("127.0.0.1", responder.port)
    assert seen.rate_is_floor
    assert seen.pings == 21
    assert seen.loss == 0
    assert 0 < seen.round_trip_s < 1
