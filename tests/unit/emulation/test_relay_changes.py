"""Links and bottlenecks that change while frames are on their way, by hand-computed examples; the control socket."""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from relay_wire import A_TO_B, Wire, frame, mac

from e2c_dl.emulation.link_values import links_from_json
from e2c_dl.emulation.relay.control import RelayControl, RelayControlSocket
from e2c_dl.emulation.relay.frames import VNET, shape
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Bottleneck, Link

DATA = frame(mac(2))  # 8 ms at 1 Mbit/s
C_TO_B = ("c", "b")


@pytest.mark.parametrize(("rate_bps", "expected_s"), [(4e6, [0.005, 0.007]), (0.5e6, [0.012, 0.028])])
def test_what_waits_goes_on_at_the_new_rate(rate_bps: float, expected_s: list[float]) -> None:
    wire = Wire({A_TO_B: Link(rate_bps=1e6)}).send(DATA).send(DATA).until(0.004)
    wire.change({A_TO_B: Link(rate_bps=rate_bps)}).until(1.0)
    assert wire.times_s == pytest.approx(expected_s)  # half of the first was left


def test_a_link_that_becomes_unlimited_lets_everything_go_in_order() -> None:
    frames = [frame(mac(2), size) for size in (900, 800, 700)]
    wire = Wire({A_TO_B: Link(rate_bps=1e6)}).send(frames[0]).send(frames[1]).until(0.001)
    wire.change({A_TO_B: Link()}).send(frames[2]).until(1.0)
    assert [buffer for _, _, buffer in wire.handed] == frames
    assert wire.times_s == [0.001] * 3
    assert wire.send(DATA).times_s[-1] == 1.0  # nothing waits any more: straight on


def test_a_shorter_delay_lets_nothing_overtake_and_a_longer_one_counts_for_what_waits() -> None:
    frames = [frame(mac(2), size) for size in (900, 800)]
    shorter = Wire({A_TO_B: Link(delay_s=0.1)}).send(frames[0]).until(0.01)
    shorter.change({A_TO_B: Link(delay_s=0.02)}).send(frames[1]).until(1.0)
    assert [buffer for _, _, buffer in shorter.handed] == frames
    assert shorter.times_s == [0.1, 0.1]
    longer = Wire({A_TO_B: Link(rate_bps=1e6, delay_s=0.01)}).send(DATA).send(DATA).until(0.01)
    longer.change({A_TO_B: Link(rate_bps=1e6, delay_s=0.5)}).until(1.0)
    assert longer.times_s == pytest.approx([0.018, 0.516])  # the first had departed


def test_a_cut_link_loses_what_enters_it_and_nothing_else() -> None:
    normal = Link(rate_bps=1e6, delay_s=0.01)
    wire = Wire({A_TO_B: normal}).send(DATA).send(DATA).change({A_TO_B: Link(rate_bps=1e6, delay_s=0.01, down=True)})
    wire.send(DATA).until(0.02).change({A_TO_B: normal}).send(DATA).until(1.0)
    assert wire.times_s == pytest.approx([0.018, 0.026, 0.038])
    assert (wire.row()["dropped_down"], wire.row()["segments"], wire.row()["frames"]) == (1, 3, 4)


def test_a_large_piece_is_cut_again_when_the_rate_falls() -> None:
    tcp = bytes(12) + b"\x50" + bytes(7)
    whole = VNET.pack(1, 1, 54, 1448, 34, 16) + DATA[10:24] + b"\x45" + bytes(19) + tcp + bytes(40 * 1448)
    wire = Wire({A_TO_B: Link(rate_bps=1e9)}).send(whole)
    wire.change({A_TO_B: Link(rate_bps=10e6)}).until(1.0)
    assert [shape(buffer).segments for _, _, buffer in wire.handed] == [4] * 10
    assert wire.times_s == pytest.approx([4 * 1502 * 8 / 10e6 * n for n in range(1, 11)])
    assert wire.row()["timed"] == 10


def test_links_of_a_bottleneck_take_turns_and_its_rate_changes_for_what_waits() -> None:
    campus = Bottleneck(name="campus", rate_bps=1e6, links=(A_TO_B, C_TO_B))
    wire = Wire({A_TO_B: Link(rate_bps=2e6, delay_s=0.1)}, campus)
    wire.send(DATA).send(DATA).send(DATA, src=2).until(0.016)
    # a's two are through their own link after 4 and 8 ms; c's has no rate of its own, and comes first.
    assert [round(now_s, 6) for now_s in wire.times_s] == [0.008]
    wire.change({}, campus=2e6).until(1.0)
    assert wire.times_s == pytest.approx([0.008, 0.116, 0.12])
    said = wire.switch.report()["bottlenecks"]
    assert [(one["segments"], one["bytes"], one["dropped_queue"]) for one in said] == [(3, 3000, 0)]


def test_a_bottlenecks_queue_is_its_own() -> None:
    campus = Bottleneck(name="campus", rate_bps=1e6, links=(A_TO_B, C_TO_B), queue_bytes=2500)
    wire = Wire({}, campus)
    for _ in range(2):
        wire.send(DATA).at(0.0).send(DATA, src=2).at(0.0)
    assert len(wire.until(1.0).handed) == 2
    rows = [wire.row("a"), wire.row("c")]
    assert [row["dropped_bottleneck"] for row in rows] == [row["segments"] for row in rows] == [1, 1]
    assert wire.switch.report()["bottlenecks"][0]["dropped_queue"] == 2


def test_in_a_full_bottleneck_who_holds_most_makes_room() -> None:
    campus = Bottleneck(name="campus", rate_bps=1e6, links=(A_TO_B, C_TO_B), queue_bytes=3500)
    wire = Wire({}, campus)
    for src in (0, 0, 0, 2, 0, 2):
        wire.send(DATA, src=src).at(0.0)
    rows = [wire.until(1.0).row("a"), wire.row("c")]
    # a's third made room for c's first, its fourth found none, and its second made room for c's second.
    assert [(row["segments"], row["dropped_bottleneck"]) for row in rows] == [(1, 3), (2, 0)]
    assert wire.times_s == pytest.approx([0.008, 0.016, 0.024])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Wire, RelayControlSocket, Path]]:
    """A wire with a control socket that a thread serves."""
    deep = tmp_path / ("d" * 120)  # longer than a socket address
    deep.mkdir()
    wire = Wire({A_TO_B: Link(rate_bps=1e6)}, Bottleneck(name="campus", rate_bps=1e6, links=(C_TO_B,)))
    control = RelayControlSocket(deep / "relay.sock", wire.switch)
    stop, stopping = socket.socketpair()

    def serve() -> None:
        while stop not in select.select([control, stop], [], [])[0]:
            control.serve()

    thread = threading.Thread(target=serve)
    thread.start()
    yield wire, control, deep / "relay.sock"
    stopping.send(b"x")
    thread.join()
    control.close()
    stop.close()
    stopping.close()
    assert not (deep / "relay.sock").exists()


def test_changes_come_through_the_socket_and_can_be_shown(served: tuple[Wire, RelayControlSocket, Path]) -> None:
    wire, control, path = served
    wire.now_s = 3.0
    there = RelayControl(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    changed = {A_TO_B: Link(rate_bps=2e6, jitter_s=0.001), ("b", "c"): Link(down=True)}
    assert there.apply(changed, {"campus": 5e6}) == 3_000_000_000
    shown = there.show()
    assert links_from_json(shown["links"]) == changed
    assert [one["rate_bps"] for one in shown["bottlenecks"]] == [5e6]
    assert (control.changes, control.refused) == (1, 0)


def test_a_whole_large_topology_fits(tmp_path: Path) -> None:
    names = "abcdefghijklmnopqrstuvwxyz"
    wire = Wire(names=names)
    links = {(src, dst): Link(rate_bps=123456789.125, delay_s=0.0123) for src in names for dst in names if src != dst}
    control = RelayControlSocket(tmp_path / "relay.sock", wire.switch)
    thread = threading.Thread(target=lambda: [_serve_one(control) for _ in range(8)])
    thread.start()
    RelayControl(tmp_path / "relay.sock").apply(links, {})
    shown = RelayControl(tmp_path / "relay.sock").show()
    thread.join()
    control.close()
    assert links_from_json(shown["links"]) == links == wire.switch.links


def _serve_one(control: RelayControlSocket) -> None:
    select.select([control], [], [])
    control.serve()


@pytest.mark.parametrize(
    ("links", "rates_bps", "said"),
    [
        ({("a", "z"): Link()}, {}, "a -> z: z is not a host"),
        ({A_TO_B: Link(rate_bps=-1.0)}, {}, r"at `\$.rate_bps`"),
        ({A_TO_B: Link(rate_bps=9e6)}, {"nowhere": 1e6}, "there is no bottleneck nowhere; name one of: campus"),
        ({A_TO_B: Link(rate_bps=9e6)}, {"campus": 0.0}, "bottleneck campus: rate_bps is 0.0"),
    ],
)
def test_a_change_that_cannot_be_changes_nothing(served, links, rates_bps, said) -> None:  # type: ignore[no-untyped-def]
    wire, control, path = served
    with pytest.raises(EmulationError, match=said):
        RelayControl(path).apply(links, rates_bps)
    assert wire.switch.links == {A_TO_B: Link(rate_bps=1e6)}
    assert (control.changes, control.refused) == (0, 1)


def test_nobody_there_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "relay.sock", tmp_path / "gone" / "relay.sock"):
        with pytest.raises(EmulationError, match=r"no answer at .*relay\.sock") as refused:
            RelayControl(path).show()
        assert "\n" not in str(refused.value)


MALFORMED = (
    b"",
    b"\xff\xfe",
    b"[]",
    b"{",
    b"[" * 5000,
    b'{"change": null}',
    b'{"change": {"links": 3, "bottlenecks": {}}}',
    b'{"change": {"links": [{"src": "a", "dst": "b", "rate": 3}], "bottlenecks": {}}}',
    b'{"change": {"links": [{"src": "a", "dst": "b", "rate_bps": "x"}], "bottlenecks": {}}}',
    b'{"change": {"links": [{"src": "a", "dst": "b", "rate_bps": NaN}], "bottlenecks": {}}}',
    b'{"change": {"links": [{"src": "a", "dst": "b", "burst": [1]}], "bottlenecks": {}}}',
    b'{"change": {"links": [], "bottlenecks": [1]}}',
    b'{"change": {"links": [], "bottlenecks": {"campus": {}}}}',
    b'{"show": {"from": "x"}}',
    b'{"show": 1, "change": 1}',
)


@pytest.mark.parametrize("said", MALFORMED)
def test_malformed_requests_are_answered_with_an_error(tmp_path: Path, said: bytes) -> None:
    wire = Wire(names="ab")
    control = RelayControlSocket(tmp_path / "relay.sock", wire.switch)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pipe = os.pipe()
    with ours, theirs, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        asking.connect(os.path.relpath(tmp_path / "relay.sock"))
        socket.send_fds(asking, [said], [theirs.fileno()])
        asking.send(said)  # nobody to answer
        socket.send_fds(asking, [said], [pipe[1]])  # nor here
        for _ in range(3):
            control.serve()
        control.serve()  # nothing waits: returns at once
        answer = json.loads(ours.recv(100_000))
    for end in pipe:
        os.close(end)
    control.close()
    assert answer["error"].startswith("relay: ") and "\n" not in answer["error"]
    assert (control.refused, control.changes, wire.switch.links) == (3, 0, {})
