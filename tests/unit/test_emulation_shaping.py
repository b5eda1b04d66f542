"""Shaping one link and switching between hosts, by hand-computed examples."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from e2c_dl.emulation.frames import VNET, internet_sum, shape
from e2c_dl.emulation.relay_config import RelayConfig, RelayHost, RelayLink
from e2c_dl.emulation.relay_report import RelayReport, caveats
from e2c_dl.emulation.shaping import LinkShaper, queue_bytes
from e2c_dl.emulation.switch import Switch
from e2c_dl.errors import EmulationError

IP, ARP = b"\x08\x00", b"\x08\x06"
BROADCAST = "ff:ff:ff:ff:ff:ff"


def mac(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


def frame(dst: str, size: int = 1000, ethertype: bytes = IP) -> bytes:
    """A frame of ``size`` bytes on the wire, with an empty vnet header before it."""
    head = bytes(10) + bytes.fromhex(dst.replace(":", "")) + bytes(6) + ethertype
    return head.ljust(10 + size, b"\0")


def link(**asked: object) -> LinkShaper:
    values = {"rate_bps": None, "delay_s": 0.0, "loss": 0.0, "limit_bytes": None, "rng": random.Random(3)}
    return LinkShaper(**{**values, **asked})  # type: ignore[arg-type]


def test_frames_follow_each_other_on_the_link_and_then_travel() -> None:
    slow = link(rate_bps=1e6, delay_s=0.025)
    first, second = (slow.admit(2.0, frame(mac(2)))[0][0] for _ in range(2))
    assert first == pytest.approx(2.0 + 0.008 + 0.025)
    assert second == pytest.approx(2.0 + 0.016 + 0.025)
    assert slow.admit(9.0, frame(mac(2)))[0][0] == pytest.approx(9.0 + 0.008 + 0.025)  # it was idle: no credit


def test_a_full_queue_drops_the_tail_and_drains() -> None:
    slow = link(rate_bps=1e6, limit_bytes=2500)
    assert [len(slow.admit(0.0, frame(mac(2)))) for _ in range(4)] == [1, 1, 0, 0]
    assert slow.dropped_queue == 2
    assert len(slow.admit(0.008, frame(mac(2)))) == 1


def test_without_a_rate_what_is_on_its_way_is_limited() -> None:
    far = link(delay_s=1.0, limit_bytes=2500)
    came = [far.admit(0.0, frame(mac(2))) for _ in range(3)]
    assert [len(c) for c in came] == [1, 1, 0]
    far.handed_over(came[0][0][2], 1, 0.0, taken=True)
    assert len(far.admit(0.0, frame(mac(2)))) == 1


def test_loss_is_as_often_as_asked_and_by_seed() -> None:
    def lost(seed: int) -> list[bool]:
        lossy = link(loss=0.1, rng=random.Random(seed))
        return [not lossy.admit(0.0, frame(mac(2))) for _ in range(20000)]

    assert lost(1) == lost(1) != lost(2)
    assert sum(lost(1)) == pytest.approx(2000, abs=5 * 42)  # five standard deviations
    both = sum(a and b for a, b in pairwise(lost(1)))
    assert both == pytest.approx(200, abs=5 * 15)  # independent: no bursts


def test_queue_default_is_a_thousand_frames_or_twice_the_product() -> None:
    assert queue_bytes(1e6, 0.01) == 1000 * 1514
    assert queue_bytes(1e9, 0.1) == 2 * 1e9 * 0.2 / 8


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


class Wire:
    """A switch between hosts a, b, c with a clock that is set by hand; what is handed over is kept."""

    def __init__(self, *links: RelayLink) -> None:
        hosts = tuple(
            RelayHost(name=n, netns_pid=1, device="eth1", address=f"198.19.0.{i}/16", mac=mac(i))
            for i, n in enumerate("abc", 1)
        )
        self.config = RelayConfig(hosts=hosts, links=links, seed=1, report_path="report.json")
        self.now_s = 0.0
        self.gone: set[int] = set()
        self.handed: list[tuple[float, int, bytes]] = []
        self.switch = Switch(self.config, lambda: self.now_s, self._write)

    def _write(self, dst: int, buffer: bytes) -> bool:
        self.handed.append((self.now_s, dst, buffer))
        return dst not in self.gone

    def at(self, now_s: float) -> Wire:
        self.now_s = now_s
        self.switch.deliver()
        return self


A_TO_B = RelayLink(src="a", dst="b", rate_bps=1e6, delay_s=0.01, loss=0.0)


def test_a_shaped_pair_waits_and_the_way_back_does_not() -> None:
    wire = Wire(A_TO_B)
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
    wire = Wire(A_TO_B)
    wire.switch.forward(0, frame(mac(2)))
    wire.at(0.118)
    assert wire.switch.report()["links"][0]["late"] == 1
    assert wire.switch.report()["links"][0]["lateness_max_s"] == pytest.approx(0.1)


def test_arp_and_broadcast_pass_a_full_link_and_count_as_no_data() -> None:
    wire = Wire(replace(A_TO_B, limit_bytes=1514))
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
    wire = Wire(A_TO_B)
    wire.gone = {1, 2}
    wire.switch.forward(0, frame(mac(2)))
    wire.switch.forward(0, frame(mac(3)))
    wire.at(1.0)
    assert [row["dropped_host"] for row in wire.switch.report()["links"]] == [1, 1]


def test_the_configuration_survives_json() -> None:
    config = Wire(A_TO_B).config
    assert RelayConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rate_bps": 0.0}, "a -> b: rate_bps is 0.0"),
        ({"rate_bps": float("nan")}, "rate_bps is nan"),
        ({"delay_s": -1.0}, "delay_s is -1.0"),
        ({"loss": 1.5}, "loss is 1.5"),
        ({"limit_bytes": 100}, "limit_bytes is 100"),
        ({"dst": "z"}, "z is not a host"),
        ({"dst": "a"}, "no link to itself"),
    ],
)
def test_a_link_that_cannot_be_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(EmulationError, match=said) as refused:
        Wire(replace(A_TO_B, **change))  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hosts": [], "links": [{}], "seed": 1, "report_path": "x"}'])
def test_a_configuration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(EmulationError, match=r"to_json\(\)"):
        RelayConfig.from_json(text)


def test_two_of_the_same_are_refused() -> None:
    with pytest.raises(EmulationError, match="given twice"):
        Wire(A_TO_B, A_TO_B)
    config = Wire().config
    with pytest.raises(EmulationError, match="two hosts with the mac"):
        replace(config, hosts=(config.hosts[0], replace(config.hosts[1], mac=mac(1))))


def report_of(wire: Wire, **values: object) -> RelayReport:
    facts = {
        "final": True,
        "seconds": 10.0,
        "cpu_s": 1.0,
        "scheduler": "SCHED_FIFO 1",
        "hosts_lost": [],
        "overruns": {"a": 0},
    }
    return {**wire.switch.report(), **facts, **values}  # type: ignore[typeddict-item]


def test_a_relay_that_kept_up_has_no_caveats_and_one_that_did_not_says_why() -> None:
    wire = Wire(A_TO_B)
    wire.switch.forward(0, frame(mac(2)))
    wire.at(0.0185)
    assert caveats(report_of(wire), 0.5) == ()
    wire.switch.forward(0, frame(mac(2)))
    wire.at(5.0)
    lost = {"host": "c", "after_s": 3.0, "why": "gone"}
    late, broken = (
        caveats(report_of(wire), 0.5),
        caveats(report_of(wire, final=False, cpu_s=9.0, hosts_lost=[lost], overruns={"a": 9}), 0.5),
    )
    assert len(late) == 1 and "a -> b" in late[0] and "50.0%" in late[0]
    for words, sentence in zip(("lost c", "a: 9 frames", "in order", "a -> b", "0.90 cores"), broken, strict=True):
        assert words in sentence


def test_a_large_frame_is_sent_in_pieces_of_at_most_five_milliseconds() -> None:
    headers, segment = 54, 1448
    tcp = bytes(12) + b"\x50" + bytes(7)
    whole = VNET.pack(1, 1, headers, segment, 34, 16) + frame(mac(2), 34)[10:24] + b"\x45" + bytes(19) + tcp
    whole += bytes(40 * segment)
    arrivals = link(rate_bps=10e6).admit(0.0, whole)
    # 5 ms at 10 Mbit/s are 6250 bytes: four segments of 1502 bytes on the wire.
    assert [segments for _, segments, _ in arrivals] == [4] * 10
    assert [at_s for at_s, _, _ in arrivals] == pytest.approx([4 * 1502 * 8 / 10e6 * n for n in range(1, 11)])
    assert len(link().admit(0.0, whole)) == len(link(delay_s=0.1).admit(0.0, whole)) == 1
