"""One TCP connection of the virtual world, piece by piece, against figures worked out by hand from the RFCs."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from e2c_dl.ranges import union
from e2c_dl.worlds.virtual.kernel import Kernel
from e2c_dl.worlds.virtual.tcp.connection import Connection, Train
from e2c_dl.worlds.virtual.tcp.reassembly import Reassembly
from e2c_dl.worlds.virtual.tcp.reduction import Reduction
from e2c_dl.worlds.virtual.tcp.round_trips import RoundTrips
from e2c_dl.worlds.virtual.tcp.window import HyStart, Window

MS = 1_000_000
TRIP_MS = 20


@pytest.mark.parametrize(("acked", "most_out", "expected"), [(10, 10, 20), (3, 10, 13), (10, 5, 10)])
def test_slow_start_grows_by_what_is_acked_while_the_window_is_used(acked: int, most_out: int, expected: int) -> None:
    window = Window()
    window.acked(acked, 0.0, 0.02, most_out, limited=False)
    assert window.segments == expected


@pytest.mark.parametrize(("algorithm", "before", "after"), [("cubic", 100, 70), ("cubic", 7, 4), ("reno", 9, 4)])
def test_a_loss_leaves_a_part_of_the_window_in_whole_segments(algorithm: str, before: float, after: float) -> None:
    window = Window(algorithm)
    window.segments = float(before)
    window.lost()
    assert (window.segments, window.slow_start) == (after, False)
    window.timed_out()
    assert (window.segments, window.slow_start) == (1, True)


@pytest.mark.parametrize("after_s", [1.0, 4.217, 6.0])
def test_cubic_is_the_curve_of_the_rfc(after_s: float) -> None:
    """K = (100 x 0.3 / 0.4)^(1/3) = 4.217 s after the loss the window is what it was before it."""
    window = Window()
    window.segments = 100.0
    window.lost()
    steps = 2000
    for step in range(1, steps + 1):  # few segments at a time and often: the window follows its target closely
        window.acked(1, after_s * step / steps, 1e-6, 100, limited=True)
    curve = 0.4 * (after_s - 4.217) ** 3 + 100
    assert window.segments == pytest.approx(max(curve, 70 + 0.529 * steps / 85), rel=0.03)


def test_reno_gains_a_segment_a_round_trip() -> None:
    window = Window("reno")
    window.segments = 20.0
    window.lost()
    for _ in range(10):
        window.acked(1, 0.0, 0.02, 10, limited=True)
    assert window.segments == pytest.approx(11, abs=0.05)


@pytest.mark.parametrize(("quiet_s", "expected"), [(0.2, 80), (0.3, 40), (0.6, 20), (9.0, 10)])
def test_idle_time_halves_the_window_each_time_out(quiet_s: float, expected: float) -> None:
    window = Window()
    window.segments = 80.0
    window.restart(quiet_s, 0.25)
    assert window.segments == expected


def test_slow_start_ends_when_the_round_trip_grows_or_acks_come_for_half_of_one() -> None:
    steady = [(step, 0.1) for step in range(40)]
    longer = [(step, 0.1 if step < 20 else 0.113) for step in range(40)]  # by an eighth of 100 ms, 12.5, and more
    for trips, gap_s, soonest, latest in ((steady, 0.0, 99, 99), (longer, 0.0, 20, 35), (steady, 0.002, 26, 26)):
        start, found = HyStart(), None
        for step, trip_s in trips:
            # a round is 20 ACKs of two segments each; with gaps of 2 ms the 26th is 52 ms after the first
            acked, sent = (2 * step, 2 * (20 if step < 20 else 40)) if gap_s == 0 else (0, 80)
            if found is None and start.over(2, acked, sent, step * gap_s, trip_s, 20.0):
                found = step
        assert soonest <= (99 if found is None else found) <= latest


@pytest.mark.parametrize(
    ("first_s", "seen_s", "expected_s"), [(0.02, [], 0.22), (0.1, [], 0.3), (0.1, [0.1] * 50, 0.3)]
)
def test_the_time_out_is_a_round_trip_and_200_ms_at_least(
    first_s: float, seen_s: list[float], expected_s: float
) -> None:
    trips = RoundTrips(first_s)
    for one in seen_s:
        trips.seen(one)
    assert trips.timeout_s == pytest.approx(expected_s)
    trips.backoff = 2
    assert trips.timeout_s == pytest.approx(4 * expected_s)


def test_a_probe_is_two_round_trips_late_and_later_for_a_lone_segment() -> None:
    trips = RoundTrips(0.02)
    assert trips.probe_s(2) == pytest.approx(0.04)
    assert trips.probe_s(1) == pytest.approx(0.22)  # 0.24, but not later than the time-out
    assert trips.reordering_s == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("came", "complete", "missing"),
    [([(0, 3)], 3, [(3, 9)]), ([(0, 3), (4, 6), (7, 8)], 3, [(3, 4), (6, 7), (8, 9)]), ([(2, 9), (0, 2)], 9, [])],
)
def test_reassembly(came: list[tuple[int, int]], complete: int, missing: list[tuple[int, int]]) -> None:
    received = Reassembly()
    for first, end in came:
        received.add(first, end)
    assert (received.complete, received.missing(0, 9)) == (complete, missing)


def test_a_union_of_ranges_is_in_order_and_apart() -> None:
    assert union([(5, 7), (0, 2), (1, 3), (7, 8)]) == [(0, 3), (5, 8)]


def test_a_reduction_sends_in_proportion() -> None:
    reduction = Reduction(10, 7)
    sent = []
    for delivered in range(1, 7):  # ACKs of one segment each, while more than 7 are on their way
        reduction.delivered = delivered
        sent.append(reduction.room(8))
        reduction.sent += sent[-1]
    assert sum(sent) == 5  # 6 x 7 / 10, rounded up


class Path:
    """A connection over a path of 20 ms there and back, without a rate; transmissions of these numbers are lost."""

    def __init__(self, *lost: int) -> None:
        self.kernel, self.lost = Kernel(), lost
        self.sent_ms: list[tuple[float, int, int]] = []  # when, from which segment, to before which
        self.gave_up: list[float] = []  # after so many seconds
        self._number = 0
        self.connection = Connection(
            self.kernel,
            Window(),
            TRIP_MS / 1e3,
            most=2,
            whole=False,
            carry=self.carry,
            look=lambda: None,
            give_up=self.gave_up.append,
        )
        self.connection.losses = self  # type: ignore[assignment]

    def take(self, segments: int) -> list[tuple[int, int, bool]]:
        """As a LossModel does: runs of one segment."""
        found = [(place, 1, self._number + place in self.lost) for place in range(segments)]
        self._number += segments
        return found

    def carry(self, train: Train) -> None:
        self.sent_ms.append((self.kernel.now_ns / MS, train.first, train.end))
        if train.kept > train.first:
            self.connection.arrives(train, self.kernel.now_ns + TRIP_MS * MS)

    def send(self, segments: int) -> float:
        """When the last of a message's ACKs is there, in ms."""
        self.connection.extend(segments, restart=False)
        while self.connection.acked < segments:
            self.kernel.now_ns, _, action, argument = self.kernel.heap.pop(0)
            self.kernel.heap.sort()
            action(argument)
        return self.kernel.now_ns / MS

    def times(self, segment: int) -> list[float]:
        return [at_ms for at_ms, first, end in self.sent_ms if first <= segment < end]


@pytest.mark.parametrize(("segments", "rounds"), [(10, 1), (11, 2), (30, 2), (70, 3), (150, 4)])
def test_a_fresh_connection_doubles_every_round_trip(segments: int, rounds: int) -> None:
    assert Path().send(segments) == rounds * TRIP_MS


@pytest.mark.parametrize(("lost", "window"), [(0, 7), (3, 9), (6, 11)])  # 0.7 x (10 and what was acknowledged before)
def test_a_segment_with_three_behind_it_is_sent_again_after_a_round_trip(lost: int, window: int) -> None:
    path = Path(lost)
    assert path.send(10) == 2 * TRIP_MS
    assert path.times(lost) == [0, TRIP_MS]
    assert path.connection.window.segments == window


def test_with_fewer_behind_it_a_quarter_of_a_round_trip_later() -> None:
    path = Path(8)
    assert path.send(10) == 2 * TRIP_MS + TRIP_MS / 4
    assert path.times(8) == [0, TRIP_MS + TRIP_MS / 4]


def test_a_lost_tail_is_probed_for_after_two_round_trips() -> None:
    path = Path(8, 9)
    path.send(10)  # ACKs until 20 ms put the probe off: it leaves at 60 ms, and tells at 80 ms that segment 8 is lost
    assert path.times(9) == [0, 60]
    assert path.times(8) == [0, 80]


def test_a_lone_segment_waits_for_the_time_out() -> None:
    path = Path(0)
    assert path.send(1) == pytest.approx(220 + TRIP_MS)


def test_a_lost_probe_costs_a_time_out_and_each_further_one_twice_as_much() -> None:
    path = Path(8, 9, 10, 11)  # the last two, the probe, and what the first time-out sends
    path.send(10)
    first_ms, probe_ms, *outs_ms = path.times(8)[0], path.times(9)[1], *path.times(8)[1:]
    timeout_ms = path.connection.trips.smoothed_s * 1e3 + 200
    assert (first_ms, probe_ms) == (0, 60)
    assert outs_ms == pytest.approx([60 + timeout_ms, 60 + 3 * timeout_ms], abs=1)


@pytest.mark.parametrize("outs", [1, 2, 4])
def test_time_outs_one_after_another_leave_as_much_as_one(outs: int) -> None:
    path = Path(*range(1000))  # nothing that is sent comes
    path.connection.window.segments = 20.0
    path.connection.extend(20, restart=False)
    while path.connection.trips.backoff < outs:
        path.kernel.now_ns, _, action, argument = path.kernel.heap.pop(0)
        path.kernel.heap.sort()
        action(argument)
    assert (path.connection.window.segments, path.connection.window.threshold) == (1.0, 14.0)  # 20 x 0.7


def test_a_lost_retransmission_is_seen_by_what_came_after_it() -> None:
    def times(lost: Collection[int]) -> list[float]:
        path = Path(*lost)
        path.send(60)
        return path.times(0)

    assert times([0]) == [0, TRIP_MS]
    again = next(number for number in range(10, 30) if len(times([0, number])) == 3)  # the second one
    assert times([0, again]) == [0, TRIP_MS, 2 * TRIP_MS]  # no time-out


def test_a_peer_that_acknowledges_nothing_is_given_up_after_20_seconds() -> None:
    path = Path(*range(100))
    path.connection.extend(10, restart=False)
    path.kernel.drain()
    assert path.gave_up == [pytest.approx(20.0)]
    assert path.kernel.now_ns == pytest.approx(20_000 * MS)
    assert len(path.times(0)) == 1 + 6  # after 0.24 s, 0.5, 0.9, 1.8, 3.5, ... each twice as long
