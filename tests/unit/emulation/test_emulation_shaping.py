"""Shaping one link and switching between hosts, by hand-computed examples."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from relay_wire import A_TO_B, ARP, IP, Wire, frame, mac

from e2c_dl.emulation.relay.config import RelayConfig
from e2c_dl.emulation.relay.frames import VNET, internet_sum, shape
from e2c_dl.emulation.relay.report import RelayReport, limitations
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Bottleneck, BurstLoss, Distribution, Link, Pair, default_queue_bytes

BROADCAST = "ff:ff:ff:ff:ff:ff"
SLOW: dict[Pair, Link] = {A_TO_B: Link(rate_bps=1e6, delay_s=0.01)}
DATA = frame(mac(2))


def test_frames_follow_each_other_on_the_link_and_then_travel() -> None:
    wire = Wire({A_TO_B: Link(rate_bps=1e6, delay_s=0.025)}).at(2.0).send(DATA).send(DATA).until(9.0)
    wire.send(DATA).until(10.0)
    # The third found the link idle, which gave no credit.
    assert wire.times_s == pytest.approx([2.0 + 0.008 + 0.025, 2.0 + 0.016 + 0.025, 9.0 + 0.008 + 0.025])


def test_a_full_queue_drops_the_tail_and_drains() -> None:
    wire = Wire({A_TO_B: Link(rate_bps=1e6, queue_bytes=2500)})
    for _ in range(4):
        wire.send(DATA)
    assert wire.row()["dropped_queue"] == 2
    wire.at(0.008).send(DATA).until(1.0)
    assert (len(wire.handed), wire.row()["dropped_queue"]) == (3, 2)


def test_without_a_rate_what_is_on_its_way_is_limited() -> None:
    wire = Wire({A_TO_B: Link(delay_s=1.0, queue_bytes=2500)}).send(DATA).send(DATA).send(DATA)
    assert wire.row()["dropped_queue"] == 1
    wire.until(1.0).send(DATA).until(3.0)
    assert len(wire.handed) == 3


def test_loss_is_as_often_as_asked_and_by_seed() -> None:
    def lost(seed: int) -> list[bool]:
        wire, seen = Wire({A_TO_B: Link(loss=0.1)}, seed=seed), []
        for number in range(20000):
            before = len(wire.handed)
            wire.send(DATA).at(float(number))
            seen.append(len(wire.handed) == before)
        return seen

    first = lost(1)
    assert first == lost(1) != lost(2)
    assert sum(first) == pytest.approx(2000, abs=5 * 42)  # five standard deviations
    both = sum(a and b for a, b in pairwise(first))
    assert both == pytest.approx(200, abs=5 * 15)  # independent: no bursts


def test_queue_default_is_a_thousand_frames_or_twice_the_product() -> None:
    assert default_queue_bytes(1e6, 0.01) == 1000 * 1514
    assert default_queue_bytes(1e9, 0.1) == 2 * 1e9 * 0.2 / 8


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="no frame"):
        shape(bytes(20))
    for vnet in (VNET.pack(1, 3, 54, 1448, 34, 16), VNET.pack(0, 1, 54, 1448, 34, 16), VNET.pack(1, 1, 54, 0, 34, 16)):
        with pytest.raises(ValueError, match="not offered"):
            shape(vnet + bytes(3000))
    with pytest.raises(ValueError, match="no TCP header"):
        shape(VNET.pack(1, 1, 54, 1448, 2990, 16) + bytes(3000))


def test_the_sum_of_rfc_1071s_example() -> None:
    assert internet_sum(bytes.fromhex("0001f203f4f5f6f7")) == 0xDDF2


def test_a_shaped_pair_waits_and_the_way_back_does_not() -> None:
    wire = Wire(SLOW)
    wire.switch.forward(0, frame(mac(2)))
    wire.switch.forward(1, frame(mac(1)))
    assert [dst for _, dst, _ in wire.handed] == [0]
    assert wire.switch.next_due_s() == pytest.approx(0.018)
    wire.at(0.0179)
    assert len(wire.handed) == 1
    wire.at(0.0185)
    assert [dst for _, dst, _ in wire.handed] == [0, 1]
    ab, ba = wire.switch.report()["links"]
    assert (ab["frames"], ab["segments"], ab["bytes"], ab["timed"], ab["late"]) == (1, 1, 1000, 1, 0)
    assert ab["lateness_max_s"] == ab["lateness_mean_s"] == pytest.approx(0.0005)
    assert (ba["src"], ba["dst"], ba["bytes"], ba["timed"]) == ("b", "a", 1000, 0)


def test_late_deliveries_are_told() -> None:
    wire = Wire(SLOW)
    wire.switch.forward(0, frame(mac(2)))
    wire.at(0.118)
    assert wire.switch.report()["links"][0]["late"] == 1
    assert wire.switch.report()["links"][0]["lateness_max_s"] == pytest.approx(0.1)


def test_arp_and_broadcast_pass_a_full_link_and_count_as_no_data() -> None:
    wire = Wire({A_TO_B: replace(SLOW[A_TO_B], queue_bytes=1514)})
    for _ in range(3):
        wire.switch.forward(0, frame(mac(2)))
    wire.switch.forward(0, frame(BROADCAST, 60, ARP))
    wire.switch.forward(0, frame(mac(2), 60, ARP))
    wire.switch.forward(0, frame(BROADCAST, 60, IP))
    assert [dst for _, dst, _ in wire.handed] == [1, 2, 1, 1, 2]
    report = wire.switch.report()
    assert report["other_frames"] == 3
    assert [(row["frames"], row["bytes"], row["dropped_queue"]) for row in report["links"]] == [(3, 1000, 2)]


def test_unknown_and_malformed_frames_are_dropped_and_counted() -> None:
    wire = Wire()
    wire.switch.forward(0, frame("02:00:00:00:00:77"))
    wire.switch.forward(0, frame(mac(1)))  # to itself
    wire.switch.forward(0, bytes(12))
    wire.switch.forward(0, b"\1\3" + frame(mac(2))[2:])
    assert wire.handed == []
    assert (wire.switch.report()["unknown_frames"], wire.switch.report()["malformed_frames"]) == (2, 2)


def test_what_a_host_does_not_take_is_counted() -> None:
    wire = Wire(SLOW)
    wire.gone = {1, 2}
    wire.switch.forward(0, frame(mac(2)))
    wire.switch.forward(0, frame(mac(3)))
    wire.at(1.0)
    assert [row["dropped_host"] for row in wire.switch.report()["links"]] == [1, 1]


def test_the_configuration_survives_json() -> None:
    everything = Link(
        rate_bps=1e6,
        delay_s=0.01,
        jitter_s=0.001,
        distribution=Distribution.PARETO,
        burst=BurstLoss(good_to_bad=0.01, bad_to_good=0.3),
        reorder=0.1,
        queue_bytes=9000,
        down=True,
    )
    campus = Bottleneck(name="campus", rate_bps=1e6, links=(A_TO_B, ("c", "b")), queue_bytes=4000)
    config = replace(Wire({A_TO_B: everything}, campus).config, control_path="relay.sock")
    assert RelayConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("pair", "change", "said"),
    [
        (A_TO_B, {"rate_bps": 0.0}, "a -> b: rate_bps is 0.0"),
        (A_TO_B, {"rate_bps": float("nan")}, "rate_bps is nan"),
        (A_TO_B, {"delay_s": -1.0}, "delay_s is -1.0"),
        (A_TO_B, {"jitter_s": float("inf")}, "jitter_s is inf"),
        (A_TO_B, {"loss": 1.5}, "loss is 1.5"),
        (A_TO_B, {"reorder": "half"}, "reorder is half"),
        (A_TO_B, {"burst": BurstLoss(good_to_bad=0.1, bad_to_good=0.0)}, "burst.bad_to_good is 0.0"),
        (A_TO_B, {"burst": BurstLoss(good_to_bad=0.1, bad_to_good=0.5), "loss": 0.1}, "loss is 0.1 beside burst"),
        (A_TO_B, {"down": "yes"}, "down is yes"),
        (A_TO_B, {"queue_bytes": 100}, "queue_bytes is 100"),
        (("a", "z"), {}, "z is not a host"),
        (("a", "a"), {}, "no link to itself"),
    ],
)
def test_a_link_that_cannot_be_is_refused(pair: Pair, change: dict[str, object], said: str) -> None:
    with pytest.raises(EmulationError, match=said) as refused:
        Wire({pair: Link(**change)})  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rate_bps": 0.0}, "bottleneck campus: rate_bps is 0.0"),
        ({"links": (("a", "z"),)}, "z is not a host"),
        ({"links": (A_TO_B, A_TO_B)}, "a -> b is in it, and elsewhere"),
        ({"queue_bytes": 10}, "queue_bytes is 10"),
    ],
)
def test_a_bottleneck_that_cannot_be_is_refused(change: dict[str, object], said: str) -> None:
    campus = Bottleneck(name="campus", rate_bps=1e6, links=(A_TO_B,))
    with pytest.raises(EmulationError, match=said):
        Wire(SLOW, replace(campus, **change))  # type: ignore[arg-type]
    with pytest.raises(EmulationError, match="two of this name"):
        Wire(SLOW, campus, replace(campus, links=()))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hosts": [], "links": [{}], "seed": 1, "report_path": "x"}'])
def test_a_configuration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(EmulationError, match=r"to_json\(\)|by name"):
        RelayConfig.from_json(text)


def test_two_of_the_same_are_refused() -> None:
    config = Wire(SLOW).config
    links = json.loads(config.to_json())
    with pytest.raises(EmulationError, match="given twice"):
        RelayConfig.from_json(json.dumps({**links, "links": 2 * links["links"]}))
    with pytest.raises(EmulationError, match="two hosts with the mac"):
        replace(config, hosts=(config.hosts[0], replace(config.hosts[1], mac=mac(1))))


def report_of(wire: Wire, **values: object) -> RelayReport:
    facts = {
        "final": True,
        "seconds": 10.0,
        "cpu_s": 1.0,
        "scheduler": "SCHED_FIFO 1",
        "hosts_lost": [],
        "changes": 0,
        "changes_refused": 0,
        "overruns": {"a": 0},
    }
    return {**wire.switch.report(), **facts, **values}  # type: ignore[typeddict-item]


def test_a_relay_that_kept_up_has_no_limitations_and_one_that_did_not_says_why() -> None:
    wire = Wire(SLOW)
    wire.switch.forward(0, frame(mac(2)))
    wire.at(0.0185)
    assert limitations(report_of(wire), 0.5) == ()
    wire.switch.forward(0, frame(mac(2)))
    wire.at(5.0)
    lost = {"host": "c", "after_s": 3.0, "why": "gone"}
    late, broken = (
        limitations(report_of(wire), 0.5),
        limitations(report_of(wire, final=False, cpu_s=9.0, hosts_lost=[lost], overruns={"a": 9}), 0.5),
    )
    assert len(late) == 1 and "a -> b" in late[0] and "50.0%" in late[0]
    for words, sentence in zip(("lost c", "a: 9 frames", "in order", "a -> b", "0.90 cores"), broken, strict=True):
        assert words in sentence


def test_a_large_frame_is_sent_in_pieces_of_at_most_five_milliseconds() -> None:
    headers, segment = 54, 1448
    tcp = bytes(12) + b"\x50" + bytes(7)
    whole = VNET.pack(1, 1, headers, segment, 34, 16) + frame(mac(2), 34)[10:24] + b"\x45" + bytes(19) + tcp
    whole += bytes(40 * segment)
    wire = Wire({A_TO_B: Link(rate_bps=10e6)}).send(whole).until(1.0)
    # 5 ms at 10 Mbit/s are 6250 bytes: four segments of 1502 bytes on the wire.
    assert [shape(buffer).segments for _, _, buffer in wire.handed] == [4] * 10
    assert wire.times_s == pytest.approx([4 * 1502 * 8 / 10e6 * n for n in range(1, 11)])
    for uncut in (Link(), Link(delay_s=0.1)):
        assert len(Wire({A_TO_B: uncut}).send(whole).until(1.0).handed) == 1
