"""Measuring back, for real: probes, trains and TCP on loopback, and the program that hosts run."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys

import msgspec
import pytest

from e2c_dl.emulation.measuring import stream
from e2c_dl.emulation.measuring.datagrams import OVERHEAD_BYTES, Arrival, Packet, PacketKind
from e2c_dl.emulation.measuring.main import main
from e2c_dl.emulation.measuring.measured import Measured, RateFrom
from e2c_dl.emulation.measuring.packet_train import TrainResult
from e2c_dl.emulation.measuring.prober import Prober, Sent
from e2c_dl.emulation.measuring.quick import frame_rate, measure_link, overload
from e2c_dl.emulation.measuring.responder import Responder
from e2c_dl.emulation.measuring.thorough import measure_thoroughly, share
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Link
from e2c_dl.units import FULL_FRAME_BYTES


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


def test_a_thorough_look_at_an_unshaped_link_has_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WINDOW_S": 0.2, "HEAD_S": 0.05, "TCP_WINDOW_S": 0.2, "LOSS_FRAMES": 1000}.items():
        monkeypatch.setattr(f"e2c_dl.emulation.measuring.thorough.{name}", value)
    with Responder("127.0.0.1", 0) as responder:
        where = {"src_address": "127.0.0.1", "dst_address": "127.0.0.1", "port": responder.port}
        seen = measure_thoroughly(**where, there=Link(), back=Link(), cap_bps=5e6)  # type: ignore[arg-type]
        part = share(**where, offered_bps=2e6, begin_s=0.0, seconds=0.2)  # type: ignore[arg-type]
    assert seen.thorough and seen.rate_is_floor and seen.loss == 0 and seen.reordered == 0 and seen.pings == 101
    assert seen.rate_from is RateFrom.TCP and seen.goodput_bps is not None and seen.rate_bps > 5e6
    assert seen.round_trip_interval_s is not None
    assert seen.round_trip_interval_s[0] <= seen.round_trip_s <= seen.round_trip_interval_s[1]
    assert part.rate_bps > 0 and part.interval_bps[0] <= part.rate_bps <= part.interval_bps[1]
    assert msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(seen))), Measured) == seen


def test_tcp_strangers_are_left_alone_and_a_silent_peer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PATIENCE_S", 0.2)
    with Responder("127.0.0.1", 0) as responder:
        with socket.create_connection(("127.0.0.1", responder.port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n".ljust(24))
            stranger.settimeout(60)
            assert stranger.recv(10) == b""
    with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(EmulationError, match="TCP to 127"):
        stream.send("127.0.0.1", deaf.getsockname(), head_s=0.0, window_s=0.1, clamp_bytes=1 << 16)


@pytest.mark.parametrize(
    ("request_text", "status", "said"),
    [
        ("{", 2, "not JSON"),
        ("[]", 2, "is a JSON object"),
        ("{}", 2, "lacks 'there'"),
        ('{"how": "slowly"}', 2, "write thorough, quick or share"),
        ('{"how": "quick", "there": {"rate": 1}, "back": {}}', 1, "link: "),
        ('{"how": "quick", "there": {}, "back": {}, "speed": 1}', 2, "does not fit"),
        (
            '{"there": {}, "back": {}, "src_address": "192.0.2.1", "dst_address": "192.0.2.2", "port": 9}',
            1,
            "Cannot assign",
        ),
    ],
)
def test_the_prober_says_what_is_wrong_with_a_request(
    request_text: str, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(request_text))
    assert main(["measure"]) == status
    assert said in json.loads(capsys.readouterr().out)["error"]


def test_the_prober_needs_neither_numpy_nor_click() -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('numpy', 'torch', 'click', 'yaml', 'rich')));"
        "import e2c_dl.emulation.measuring.main;"
        "print(sorted(m for m in sys.modules if m.startswith('e2c_dl.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "e2c_dl.scenario" not in done.stdout


class Batched:
    """A prober whose frames were all held back by the receiver's core, and then came within nanoseconds."""

    peer = "198.19.0.2:1"

    def train(self, frame_bytes: int, pace_bps: float, frames: int, head_s: float) -> tuple[Sent, TrainResult]:
        return Sent(frames, pace_bps, False), TrainResult(arrived=frames, blocks_ns=(93.0,) * 20)


def test_a_link_of_no_rate_is_not_seen_to_carry_more_than_was_sent() -> None:
    """As once 130464 Gbit/s."""
    found = frame_rate(Batched(), Link(), 300e6, head_s=0.1, window_s=0.6, tries=3)  # type: ignore[arg-type]
    assert found == (300e6, (300e6, 300e6), True)


class Behind(Prober):
    """A prober whose questions stand behind a queue that takes 12 s: of 1000 full frames, at 1 Mbit/s."""

    asked = 0

    def _send(self, datagram: bytes) -> bool:
        self.asked += (packet := Packet.decode(datagram)) is not None and packet.kind is PacketKind.END
        return False

    def _await(self, kind: PacketKind, train: int, number: int) -> tuple[Arrival, Packet] | None:
        if self.asked * self._patience_s < 12.0:
            return None
        body = TrainResult(arrived=1000).encode()
        return Arrival(body, 0, ("198.19.0.2", 1), 0), Packet(kind, train, number, 0, body)


def test_a_link_far_slower_than_asked_for_is_measured_behind_its_own_queue() -> None:
    with socket.socket() as unused:
        _, found = Behind(unused, ("198.19.0.2", 1), patience_s=0.5).train(1514, 1e8, 2, 0.0)
    assert found.arrived == 1000


NO_HOST = ("240.0.0.1", 9)  # of a class of addresses that no host may have: nothing can be sent there


def test_where_there_is_no_way_to_a_peer_the_prober_says_so_and_a_responder_goes_on() -> None:
    with pytest.raises(EmulationError, match=r"240\.0\.0\.1:9: Invalid argument; is its data address right"):
        measure_link(src_address="127.0.0.1", dst_address=NO_HOST[0], port=NO_HOST[1], there=Link(), back=Link())
    with Responder("127.0.0.1", 0) as responder:
        responder._answer(Arrival(Packet(PacketKind.PING, 1, 1, 0).encode(), 0, NO_HOST, 0))


def test_a_link_that_loses_pings_has_a_share_all_the_same() -> None:
    class Losing(Responder):
        """What it hears first of a ping is lost, and so is every second answer to one."""

        heard = 0

        def _answer(self, arrival: Arrival) -> None:
            packet = Packet.decode(arrival.datagram)
            if packet is not None and packet.kind is PacketKind.PING:
                self.heard += 1
                if self.heard % 2:
                    return
            super()._answer(arrival)

    with Losing("127.0.0.1", 0) as responder:
        where = {"src_address": "127.0.0.1", "dst_address": "127.0.0.1", "port": responder.port}
        assert share(**where, offered_bps=2e6, begin_s=0.0, seconds=0.2).rate_bps > 0  # type: ignore[arg-type]


def test_tcp_is_asked_for_no_larger_window_than_it_has() -> None:
    with Responder("127.0.0.1", 0) as responder:
        for asked in (3 << 30, 5 << 30):  # what 100 Gbit/s need over 0.12 s, and over 0.2 s
            seen = stream.send("127.0.0.1", ("127.0.0.1", responder.port), head_s=0, window_s=0.1, clamp_bytes=asked)
            assert seen.rate_bps > 0


class Slow(Responder):
    """Behind a link of ``rate_bps`` that lets ``at_once_bytes`` pass before it holds to that."""

    free_ns, rate_bps, at_once_bytes = 0.0, 1e5, 0

    def _answer(self, arrival: Arrival) -> None:
        packet = Packet.decode(arrival.datagram)
        if packet is not None and packet.kind in (PacketKind.DATA, PacketKind.PONG):
            self.free_ns = (
                max(self.free_ns, arrival.at_ns) + (len(arrival.datagram) + OVERHEAD_BYTES) * 8e9 / self.rate_bps
            )
            late_ns = self.free_ns - self.at_once_bytes * 8e9 / self.rate_bps
            arrival = arrival._replace(at_ns=max(arrival.at_ns, round(late_ns)))
        super()._answer(arrival)


@pytest.mark.parametrize("at_once_bytes", [2 * FULL_FRAME_BYTES, 0])  # HTB's, the relay's
@pytest.mark.parametrize("rate_bps", [1e5, 0.7e5])  # what was asked for, and less
def test_what_a_slow_link_lets_pass_at_once_is_not_taken_for_its_rate(
    monkeypatch: pytest.MonkeyPatch, at_once_bytes: int, rate_bps: float
) -> None:
    monkeypatch.setattr(Slow, "at_once_bytes", at_once_bytes)
    monkeypatch.setattr(Slow, "rate_bps", rate_bps)
    with Slow("127.0.0.1", 0) as responder:
        where = {"src_address": "127.0.0.1", "dst_address": "127.0.0.1", "port": responder.port}
        seen = measure_link(**where, there=Link(rate_bps=1e5), back=Link())  # type: ignore[arg-type]
    assert seen.rate_bps == pytest.approx(rate_bps, rel=0.03) and not seen.rate_is_floor


def test_the_slowest_link_is_measured_by_enough_frames() -> None:
    frame_bytes, pace_bps, frames = overload(Link(rate_bps=1e3), 3e8, 0.7)
    assert (frame_bytes, pace_bps, frames) == (200, 1200, 12)
