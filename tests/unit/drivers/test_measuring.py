"""Measuring back, the values: fidelity, rounds, what links are expected to look like, trains of frames."""

from __future__ import annotations

import dataclasses
import json
import random
import statistics

import pytest

from e2c_dl.emulation.link_values import link_from_json, link_to_json
from e2c_dl.emulation.measuring import expected
from e2c_dl.emulation.measuring.datagrams import HEADER, PING_FRAME_BYTES, Arrival, Packet, PacketKind
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured, RateFrom, fraction_interval, median_interval
from e2c_dl.emulation.measuring.packet_train import PacketTrain, TrainResult, out_of_order
from e2c_dl.emulation.measuring.quick import requested_round_trip_s, rounds
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Bottleneck, BurstLoss, Distribution, Host, Link, Topology


def row(requested: Link, **measured: object) -> LinkFidelity:
    values = {
        "rate_bps": requested.rate_bps or 3e8,
        "rate_is_floor": False,
        "round_trip_s": 0.05,
        "round_trip_spread_s": 0.0,
        "pings": 21,
        "loss": requested.mean_loss,
        "loss_samples": 200,
    }
    seen = Measured(**{**values, **measured})  # type: ignore[arg-type]
    return LinkFidelity(
        src="a", dst="b", designed=requested, requested=requested, requested_round_trip_s=0.05, measured=seen
    )


REQUESTED = Link(rate_bps=1e7, delay_s=0.025)
BURSTY = BurstLoss(good_to_bad=0.05 / 19, bad_to_good=0.05)  # 5 % in the long run, 20 in a row


@pytest.mark.parametrize(
    ("requested", "measured", "deviations", "limitations"),
    [
        (REQUESTED, {}, [], []),
        (REQUESTED, {"rate_bps": 9.6e6}, [], []),
        (REQUESTED, {"rate_bps": 9.4e6}, ["a -> b: 9.40 Mbit/s measured, 10.0 Mbit/s requested (-6.0%)"], []),
        (
            REQUESTED,
            {"rate_bps": 1.2e7, "rate_is_floor": True},
            ["a -> b: at least 12.0 Mbit/s measured, 10.0 Mbit/s requested (+20.0%)"],
            [],
        ),
        (REQUESTED, {"round_trip_s": 0.0524}, [], []),
        (REQUESTED, {"round_trip_s": 0.053},
         ["a -> b: round trip 53.00 ms measured, 50.00 ms requested (+3.00 ms)"], []),
        (REQUESTED, {"loss": 0.02}, ["a -> b: loss 2.00% measured over 200 frames, 0.00% requested"], []),
        (Link(rate_bps=1e9, loss=0.1), {"rate_bps": 3e8, "rate_is_floor": True, "loss": 0.15}, [], [
            "a -> b: 1.00 Gbit/s requested, seen to carry 300 Mbit/s; the measurement did not go higher"
        ]),
        (Link(), {}, [], []),
        (REQUESTED, {"loss": 0.003, "loss_samples": 10_000, "thorough": True}, [
            "a -> b: loss 0.30% measured over 10000 frames, 0.00% requested"
        ], []),
        (REQUESTED, {"loss": 0.002, "loss_samples": 10_000, "thorough": True}, [], []),
        (Link(loss=0.05), {"loss": 0.057, "loss_samples": 10_000, "thorough": True}, [], []),  # by chance, 1 in 1000
        (Link(loss=0.05), {"loss": 0.065, "loss_samples": 10_000, "thorough": True}, [
            "a -> b: loss 6.50% measured over 10000 frames, 5.00% requested"
        ], []),
        (Link(burst=BURSTY), {"loss": 0.065, "loss_samples": 10_000, "thorough": True}, [], []),  # fewer tell less
        (Link(delay_s=0.02, jitter_s=0.005), {"delay_spread_s": 0.0095, "thorough": True}, [
            "a -> b: delays spread over 9.50 ms between quartiles, 5.00 ms requested by its jitter"
        ], []),
    ],
)  # fmt: skip
def test_fidelity_says_what_is_off(
    requested: Link, measured: dict[str, object], deviations: list[str], limitations: list[str]
) -> None:
    checked = row(requested, **measured)
    assert (list(checked.deviations()), list(checked.limitations())) == (deviations, limitations)
    assert LinkFidelity.from_json(json.loads(json.dumps(checked.to_json()))) == checked


def test_fidelity_of_what_nobody_measured() -> None:
    unmeasured = LinkFidelity(
        src="a", dst="b", designed=REQUESTED, requested=REQUESTED, requested_round_trip_s=0.05, measured=None
    )
    assert (unmeasured.deviations(), unmeasured.limitations()) == ((), ("a -> b: not measured",))
    assert LinkFidelity.from_json(unmeasured.to_json()) == unmeasured
    failed = dataclasses.replace(unmeasured, failed="nobody answered")
    assert (failed.deviations(), LinkFidelity.from_json(failed.to_json())) == (("a -> b: nobody answered",), failed)
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


@pytest.mark.parametrize("size", [2, 3, 4, 6, 7, 15, 16])
def test_all_pairs_are_a_tournament(size: int) -> None:
    hosts = [f"h{number:02}" for number in range(size)]
    planned = rounds((a, b) for a in hosts for b in hosts if a != b)
    assert len(planned) == 2 * (size - 1 + size % 2)  # the least: of an odd number one rests
    assert sum(map(len, planned)) == size * (size - 1)


def test_links_of_a_bottleneck_are_measured_one_after_the_other() -> None:
    links = [("a", "b"), ("c", "d"), ("e", "f")]
    uplink = Bottleneck(name="uplink", rate_bps=1e6, links=(("a", "b"), ("c", "d")))
    assert rounds(links) == [links]
    assert rounds(links, [uplink]) == [[("a", "b"), ("e", "f")], [("c", "d")]]


def test_a_ping_takes_both_delays_and_its_own_time_on_both_links() -> None:
    there, back = Link(rate_bps=PING_FRAME_BYTES * 8 * 100, delay_s=0.02), Link(delay_s=0.03)
    assert requested_round_trip_s(there, back) == pytest.approx(0.05 + 0.01)


def arrivals(times_ms: list[float], overflowed: dict[int, int] | None = None) -> list[Arrival]:
    lost = overflowed or {}
    return [Arrival(b"", round(t * 1e6), ("x", 1), lost.get(i, 0)) for i, t in enumerate(times_ms)]


def counted(train: list[Arrival], head_ms: float) -> TrainResult:
    trained = PacketTrain()
    for number, arrival in enumerate(train):
        trained.add(arrival, Packet(PacketKind.DATA, 1, number, 0))
    return trained.result(len(train), round(head_ms * 1e6))


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


@pytest.mark.parametrize(("kept", "delay_growth", "passed"), [(1, 0.0, 1.0), (2, 0.0, 0.5), (1, 0.25, 0.8)])
def test_a_train_tells_whether_a_queue_grew_or_frames_were_lost(kept: int, delay_growth: float, passed: float) -> None:
    """Of a sender that stalled half way: what it did not send says nothing of the link."""
    train = PacketTrain()
    for number in range(0, 1000, kept):
        sent_ns = 1000 * number + (500_000 if number >= 500 else 0)
        arrival = Arrival(b"", sent_ns + round(delay_growth * sent_ns), ("x", 1), 0)
        train.add(arrival, Packet(PacketKind.DATA, 1, number, sent_ns))
    assert train.result(1000, 0).passed == pytest.approx(passed, rel=0.01)


def test_jitter_does_not_make_a_fast_link_the_limit() -> None:
    draw, train = random.Random(1), PacketTrain()
    frames = [(1000 * n + round(1e8 + draw.gauss(0, 2e5)), n) for n in range(4000)]
    for at_ns, number in sorted(frames):
        train.add(Arrival(b"", at_ns, ("x", 1), 0), Packet(PacketKind.DATA, 1, number, 1000 * number))
    assert train.result(4000, 800_000).passed == pytest.approx(1.0, abs=0.025)


@pytest.mark.parametrize("said", [b'{"arrived":Infinity,"blocks_ns":[],"spreads_ns":[]}', b"[" * 100_000])
def test_what_no_train_says_is_not_understood(said: bytes) -> None:
    assert TrainResult.decode(said) is None


def test_too_short_a_train_has_no_rate() -> None:
    assert counted(arrivals([0.0, 1.0]), head_ms=0).frame_ns == 0


def test_packets_survive_the_wire_and_others_are_not_ours() -> None:
    sent = Packet(PacketKind.DATA, 5, 6, -7)
    assert Packet.decode(sent.encode(100)) == sent._replace(body=bytes(100 - HEADER.size))
    assert Packet.decode(b"") is None
    assert Packet.decode(b"x" * 60) is None
    assert Packet.decode(b"e2cP" + bytes(HEADER.size)) is None
    assert Packet.decode(Packet(PacketKind.DATA, 5, 6, -(2**63)).encode()) is None, "no difference to it is told"
    assert TrainResult.decode(b"short") is None


def test_a_row_of_an_older_archive_can_be_read() -> None:
    old = {
        "src": "a", "dst": "b", "requested_round_trip_s": 0.05,
        "designed": {"rate_bps": 1e7, "delay_s": 0.025, "loss": 0.0},
        "requested": {"rate_bps": 1e7, "delay_s": 0.025, "loss": 0.0},
        "measured": {"rate_bps": 1e7, "rate_is_floor": False, "round_trip_s": 0.05, "round_trip_spread_s": 1e-4,
                     "pings": 21, "loss": 0.0, "loss_samples": 200},
    }  # fmt: skip
    read = LinkFidelity.from_json(old)
    assert read.deviations() == () and read.requested == REQUESTED
    assert read.measured is not None and not read.measured.thorough and read.measured.rate_from is RateFrom.UDP


def test_jitter_is_expected_and_a_median_that_is_off_by_chance_is_no_deviation() -> None:
    there = Link(rate_bps=1e7, delay_s=0.025, jitter_s=0.01, distribution=Distribution.NORMAL)
    topology = Topology(hosts=(), links={("a", "b"): there, ("b", "a"): Link(delay_s=0.025)})
    seen = row(there).measured
    assert seen is not None
    fidelity = LinkFidelity.of("a", "b", designed=topology, requested=topology, measured=seen)
    assert fidelity.requested_round_trip_spread_s == pytest.approx(0.01349, rel=0.03)
    assert dataclasses.replace(fidelity, measured=dataclasses.replace(seen, round_trip_s=0.058)).deviations() == ()
    assert len(dataclasses.replace(fidelity, measured=dataclasses.replace(seen, round_trip_s=0.07)).deviations()) == 1
    sure = dataclasses.replace(seen, pings=1000, round_trip_s=0.055)
    assert len(dataclasses.replace(fidelity, measured=sure).deviations()) == 1


@pytest.mark.parametrize("distribution", list(Distribution))
def test_expected_delays_have_the_distributions_mean_and_spread(distribution: Distribution) -> None:
    delays_s = expected.one_way_s(Link(delay_s=0.1, jitter_s=0.01, distribution=distribution))
    deviation_s = {Distribution.UNIFORM: 0.01 / 3**0.5}.get(distribution, 0.01)
    assert statistics.mean(delays_s) == pytest.approx(0.1, rel=0.01)
    assert statistics.pstdev(delays_s) == pytest.approx(deviation_s, rel=0.2)  # the pareto's tail is long
    assert min(expected.one_way_s(Link(delay_s=0.001, jitter_s=0.01, distribution=distribution))) >= 0


def test_expected_bursts_follow_the_chain() -> None:
    assert expected.burst_frames(Link(burst=BURSTY)) == pytest.approx(20)
    assert expected.burst_frames(Link(loss=0.2)) == pytest.approx(1.25)
    assert expected.burst_frames(Link()) == 0
    assert expected.burst_frames(Link(down=True)) == float("inf")
    alike = BurstLoss(good_to_bad=0.3, bad_to_good=0.7, loss_in_bad=0.1, loss_in_good=0.1)
    assert expected.burst_frames(Link(burst=alike)) == pytest.approx(expected.burst_frames(Link(loss=0.1)))
    assert expected.independent(1000, Link(burst=alike)) == pytest.approx(1000)
    assert expected.independent(10_000, Link(burst=BURSTY)) == pytest.approx(10_000 / 37, rel=0.05)


def test_a_bottleneck_limits_its_links_and_is_shared_evenly() -> None:
    hosts = tuple(Host(name=n, layer="l", service="s", service_id=n, role=n, rank=i) for i, n in enumerate("abcd"))
    links = {("a", "d"): Link(rate_bps=2e6), ("b", "d"): Link(), ("c", "d"): Link(rate_bps=50e6)}
    shared = Bottleneck(name="uplink", rate_bps=10e6, links=tuple(sorted(links)))
    topology = Topology(hosts=hosts, links=links, bottlenecks=(shared,))
    assert [expected.alone(topology, *pair).rate_bps for pair in sorted(links)] == [2e6, 10e6, 10e6]
    assert expected.shares(topology, shared, 12e6) == {("a", "d"): 2e6, ("b", "d"): 5e6, ("c", "d"): 5e6}
    assert expected.alone(topology, "d", "a") == Link()


def test_links_survive_json() -> None:
    link = Link(rate_bps=1e6, jitter_s=0.1, distribution=Distribution.PARETO, burst=BURSTY, reorder=0.1, queue_bytes=9)
    assert link_from_json(json.loads(json.dumps(link_to_json(link)))) == link
    assert link_from_json({}) == Link()
    for wrong in ([], {"rate": 1}, {"distribution": "gauss"}, {"burst": {}}):
        with pytest.raises(EmulationError, match="link: "):
            link_from_json(wrong)


def test_intervals_hold_what_they_promise() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(400):
        low, high = median_interval([draw.gauss(0, 1) for _ in range(20)])
        held += low <= 0 <= high
    assert held >= 370  # 95 % of 400 are 380
    assert median_interval([3.0]) == (3.0, 3.0) and median_interval([1.0, 2.0]) == (1.0, 2.0)
    assert fraction_interval(0, 10_000)[0] == 0 and fraction_interval(0, 10_000)[1] == pytest.approx(3.8e-4, rel=0.02)
    low, high = fraction_interval(500, 10_000)
    assert (low, high) == (pytest.approx(0.0459, abs=1e-3), pytest.approx(0.0544, abs=1e-3))


def test_a_train_tells_losses_in_a_row_order_and_spread() -> None:
    trained = PacketTrain()
    for number in (0, 1, 4, 3, 8, 5, 9):
        trained.add(Arrival(b"", 1000 * number, ("x", 1), 0), Packet(PacketKind.DATA, 1, number, 0))
    result = trained.result(10, 0)
    assert (result.arrived, result.lost_runs, result.lost_in_runs, result.reordered) == (7, 2, 3, 2)
    assert out_of_order(range(9)) == 0 and out_of_order([]) == 0 and out_of_order([3, 2, 1]) == 2
    assert TrainResult.decode(result.encode()) == result
    assert PacketTrain().result(10, 0) == TrainResult()
    spread, draw = PacketTrain(), random.Random(1)
    for number in range(2000):
        late_ns = draw.randrange(10_000_000) + number * 100  # clocks that drift apart do not count
        spread.add(
            Arrival(b"", number * 1000 + late_ns, ("x", 1), 0), Packet(PacketKind.DATA, 1, number, number * 1000)
        )
    assert statistics.median(spread.result(2000, 0).spreads_ns) == pytest.approx(5e6, rel=0.1)


def test_answers_that_are_none_are_passed_over() -> None:
    good = TrainResult().encode()
    assert TrainResult.decode(good) == TrainResult()
    for wrong in (b"", b"[]", b"{}", good.replace(b"arrived", b"strange"), good.replace(b"[]", b"[null]")):
        assert TrainResult.decode(wrong) is None
