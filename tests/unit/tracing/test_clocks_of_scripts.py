"""Clocks of a script's ranks as if they were on several machines: real exchanges, each rank with a clock of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from far_clock import far_away

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import HostFacts
from e2c_dl.errors import TrainingError
from e2c_dl.trace.clocks.clock import LAST_WITHIN_S, ClockServer
from e2c_dl.trace.clocks.time_of_day import EVERY_S
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.trace.recording.errands import Errands
from e2c_dl.tracing.addresses import own_addresses, training_addresses
from e2c_dl.tracing.rendezvous import Peer, Ranks
from e2c_dl.tracing.samplers.clocks import Clocks, _address

ADDRESSES = ("fe80::1", "192.0.2.1", "127.0.0.1")


class Recording:
    """What a session offers its samplers."""

    iteration = -1
    cap_bytes = 1 << 20

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        HostRecords(folder).write_facts(HostFacts(host_name=folder.name))
        self.folder = folder
        self.errands = Errands()
        self.limitations: list[str] = []

    def limited(self, sentence: str) -> None:
        self.limitations.append(sentence)


class Rank:
    """One rank: its sampler, its clock's error, what it is told."""

    def __init__(self, rank: int, folder: Path, wrong_ns: int, boot: str) -> None:
        self.rank, self.boot, self.wrong_ns = rank, boot, wrong_ns
        self.recording = Recording(folder)
        self.of_day_ns = 0  # ahead of its own clock
        self.clocks = Clocks(self.clock, lambda: self.clock() + self.of_day_ns)
        self.offers: Mapping[str, Any] = self.clocks.offers()

    def clock(self) -> int:
        return time.monotonic_ns() + self.wrong_ns

    def peer(self) -> Peer:
        return Peer(
            rank=self.rank, host=f"host-{self.rank}", pid=1, boot=self.boot, addresses=ADDRESSES, offers=self.offers
        )

    def ready(self, ranks: list[Rank]) -> None:
        peers = tuple(each.peer() for each in ranks)
        table = Ranks(own=self.peer(), world_size=len(ranks), peers=peers)
        self.clocks.on_ready(table, self.recording)

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            time.sleep(0.005)

    @property
    def records(self) -> HostRecords:
        return HostRecords(self.recording.folder)

    @property
    def asked(self) -> bool:
        return (self.recording.folder / "clock.json").exists()


@contextmanager
def ranks(tmp_path: Path, *wrong_ns: int, boots: str) -> Iterator[list[Rank]]:
    made = [
        Rank(number, tmp_path / f"host-{number}", wrong, boot)
        for number, (wrong, boot) in enumerate(zip(wrong_ns, boots, strict=True))
    ]
    with ExitStack() as stack:
        for each in made:
            stack.callback(each.clocks.on_end)
        yield made


def test_all_but_the_reference_ask_it_and_find_their_error(tmp_path: Path) -> None:
    with ranks(tmp_path, 0, 50_000_000, -3_000_000_000, boots="abc") as made:
        for each in made:
            each.ready(made)
        for each in made[1:]:
            each.until(lambda each=each: each.asked)  # type: ignore[misc]
        for each in reversed(made):
            each.clocks.on_end()
        for each in made[1:]:
            found = each.records.clock()
            now_ns = each.clock()
            assert abs(found.offset_ns + each.wrong_ns) <= found.uncertainty_ns
            assert abs(int(found.align(np.array([now_ns]))[0]) - (now_ns - each.wrong_ns)) <= found.uncertainty_ns
            facts = each.records.facts()
            assert facts is not None
            assert "kernel" in facts.timekeeping
            assert "kernel" in facts.timekeeping_at_end
            assert facts.host_name == each.recording.folder.name, "the rest of the facts is kept"
            assert each.recording.limitations == []
        assert not made[0].asked, "the reference needs none"


def test_ranks_of_one_machine_ask_nobody(tmp_path: Path) -> None:
    with ranks(tmp_path, 0, 0, boots="aa") as made:
        for each in made:
            each.ready(made)
        assert [each.clocks._server for each in made] == [None, None]
        for each in made:
            each.clocks.on_end()
    assert not made[1].asked


def test_a_reference_that_is_gone_leaves_what_is_known(tmp_path: Path) -> None:
    with ranks(tmp_path, 0, 7_000_000, boots="ab") as made:
        for each in made:
            each.ready(made)
        made[1].until(lambda: made[1].asked)
        known = made[1].records.clock()
        made[0].clocks.on_end()
        made[1].clocks.on_end()
        assert made[1].records.clock().offset_ns == known.offset_ns
        assert made[1].records.clock().uncertainty_ns >= known.uncertainty_ns


@pytest.mark.parametrize("offers", [{}, {"clock": [9, 0]}])
def test_a_reference_that_cannot_be_asked_is_said(tmp_path: Path, offers: Mapping[str, Any]) -> None:
    with ranks(tmp_path, 0, 7_000_000, boots="ab") as made:
        made[0].offers = offers
        made[1].ready(made)
        if offers:
            made[1].until(lambda: bool(made[1].clocks._problem))
        made[1].clocks.on_end()
        assert made[1].records.clock() == ClockAlignment()
        (said,) = made[1].recording.limitations
        assert "its clock is not aligned to the others'" in said


def test_a_step_just_before_the_end_is_seen_by_a_last_exchange(tmp_path: Path) -> None:
    with ranks(tmp_path, 0, 7_000_000, boots="ab") as made:
        for each in made:
            each.ready(made)
        made[1].until(lambda: made[1].asked)
        made[1].wrong_ns += 40_000_000
        ending = threading.Thread(target=made[0].clocks.on_end)  # at the same time: it waits for the other
        ending.start()
        made[1].clocks.on_end()
        now_ns = np.array([made[1].clock()])
        ending.join()
        found = made[1].records.clock()
        assert abs(int(found.align(now_ns)[0]) - (int(now_ns[0]) - made[1].wrong_ns)) <= found.usual_ns < 40_000_000
        assert len(found.steps) == 1


def test_a_reference_that_is_gone_holds_nobody_up(tmp_path: Path) -> None:
    with ranks(tmp_path, 0, 7_000_000, boots="ab") as made:
        for each in made:
            each.ready(made)
        made[1].until(lambda: made[1].asked)
        began_s = time.monotonic()
        made[0].clocks.on_end()
        assert LAST_WITHIN_S <= time.monotonic() - began_s < 4 * LAST_WITHIN_S, "it waited for one that did not come"
        began_s = time.monotonic()
        made[1].clocks.on_end()
        assert time.monotonic() - began_s < LAST_WITHIN_S


def test_addresses_of_the_network_of_training_are_asked_last() -> None:
    addresses = ("127.0.0.1", "::1")
    with ClockServer("::") as server:
        where = (server.port, server.token)
        for avoided, other in (addresses, addresses[::-1]):
            assert _address(addresses, (avoided, "192.0.2.1"), *where) == other
        assert _address(addresses, addresses, *where) in addresses, "where no other answers"
    with pytest.raises(TrainingError, match="answers at none of 127.0.0.1, ::1"):
        _address(addresses, addresses[1:], *where)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, False),
        ({"GLOO_SOCKET_IFNAME": "lo"}, True),
        ({"NCCL_SOCKET_IFNAME": "=lo,eth7"}, True),
        ({"NCCL_SOCKET_IFNAME": "^lo"}, False),
        ({"HOROVOD_GLOO_IFACE": "eth7"}, False),
    ],
)
def test_devices_of_training_are_told_by_what_launchers_set(environment: Mapping[str, str], named: bool) -> None:
    assert ("127.0.0.1" in training_addresses(environment)) is named
    assert "127.0.0.1" in own_addresses()


def test_the_time_of_day_is_kept_as_it_is_set(tmp_path: Path) -> None:
    with ranks(tmp_path, 0, boots="a") as (only,):
        only.ready([only])
        assert only.clocks._look_at_the_day() == EVERY_S
        facts = only.records.facts()
        assert facts is not None and facts.wall_clock == (), "nothing has happened"
        only.of_day_ns = 10**12
        only.clocks._look_at_the_day()
        facts = only.records.facts()
        assert facts is not None
        assert [round((day - own) / 10**11) for own, day in facts.wall_clock] == [0, 0, 10], "a kill does not lose it"
        only.clocks.on_end()
        facts = only.records.facts()
        assert facts is not None
        assert [round((day - own) / 10**11) for own, day in facts.wall_clock] == [0, 0, 10, 10]
        assert only.recording.limitations == []


def test_nothing_is_left_running(tmp_path: Path) -> None:
    before = threading.active_count()
    with ranks(tmp_path, 0, 0, boots="ab") as made:
        for each in made:
            each.ready(made)
    assert threading.active_count() == before


@pytest.mark.parametrize("round_trip_s", [0.12, 0.5])
def test_an_address_far_away_is_found(round_trip_s: float) -> None:
    with ClockServer("127.0.0.1") as server, far_away(server.port, round_trip_s) as port:
        assert _address(["127.0.0.1"], (), port, server.token) == "127.0.0.1"
