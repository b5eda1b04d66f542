"""Fair queueing, by itself and in the relay: turns, new flows first, what is dropped."""

from __future__ import annotations

from itertools import pairwise

import pytest
from relay_wire import A_TO_B, Wire, frame, mac

from e2c_dl.dynamics.fair_queue import INTERVAL_S, TARGET_S, FairQueue
from e2c_dl.topology import Bottleneck, Discipline, Link

FULL = 1514
C_TO_B = ("c", "b")


def served(queue: FairQueue[str], count: int, now_s: float = 0.0) -> str:
    return " ".join(filter(None, (queue.take(now_s)[0] for _ in range(count))))


@pytest.mark.parametrize(
    ("put", "expected"),
    [
        ("aaabbb", "a b a b a b"),  # full frames take turns
        ("aaaabc", "a b c a a a"),  # who has one waits for one of each other
        ("aAb", "a b A"),  # of twice the size: the flow has had two turns
    ],
)
def test_flows_take_turns_of_a_full_frame(put: str, expected: str) -> None:
    queue: FairQueue[str] = FairQueue(10**6)
    for one in put:
        assert queue.put(0.0, one.lower(), one, FULL if one.islower() else 2 * FULL) == []
    assert served(queue, len(put)) == expected


def test_a_flow_that_was_empty_goes_before_those_that_wait() -> None:
    queue: FairQueue[str] = FairQueue(10**6)
    for one in "aaabbb":
        queue.put(0.0, one, one, FULL)
    assert served(queue, 2) == "a b"
    queue.put(0.0, "c", "c", 100)
    assert served(queue, 4) == "c a b a"


@pytest.mark.parametrize(
    ("put", "gone", "left"), [("aab", "", "a b a"), ("aaab", "a", "a b a"), ("aabbb", "ab", "b a b")]
)
def test_a_full_queue_drops_the_first_of_who_has_most(put: str, gone: str, left: str) -> None:
    queue: FairQueue[str] = FairQueue(3 * FULL)
    assert "".join(item for one in put for item in queue.put(0.0, one, one, FULL)) == gone
    assert sorted(served(queue, 9).split()) == sorted(left.split())


def test_codel_drops_what_waits_too_long_for_too_long_and_more_and_more_often() -> None:
    """A frame comes and one goes every 10 ms, behind ten others: each waits 100 ms, more than TARGET_S."""
    queue: FairQueue[float] = FairQueue(10**6)
    for _ in range(20):
        queue.put(0.0, "a", 0.0, FULL)
    dropped_s = []
    for step in range(1, 60):
        now_s = step * 0.01
        queue.put(now_s, "a", now_s, FULL)
        dropped_s += [now_s for _ in queue.take(now_s)[1]]
    first_s = TARGET_S + INTERVAL_S
    assert dropped_s[0] == pytest.approx(first_s, abs=0.011)
    gaps_s = [later - sooner for sooner, later in pairwise(dropped_s)]
    assert gaps_s[:3] == pytest.approx([INTERVAL_S, INTERVAL_S / 2**0.5, INTERVAL_S / 3**0.5], abs=0.011)


def test_who_waits_less_than_the_target_loses_nothing() -> None:
    queue: FairQueue[int] = FairQueue(10**6)
    for step in range(1000):
        queue.put(step * 0.01, "a", step, FULL)
        assert queue.take(step * 0.01 + 0.9 * TARGET_S) == (step, [])


@pytest.mark.parametrize(("discipline", "arrives_s"), [(Discipline.FIFO, 0.0888), (Discipline.FAIR, 0.0168)])
def test_a_small_frame_waits_behind_all_large_ones_or_for_a_turn(discipline: Discipline, arrives_s: float) -> None:
    """Eleven frames of 1000 bytes through 1 Mbit/s, 8 ms each, of which a turn takes two; one of 100 bytes, 0.8 ms."""
    campus = Bottleneck(name="campus", rate_bps=1e6, links=(A_TO_B, C_TO_B), discipline=discipline)
    wire = Wire({A_TO_B: Link(), C_TO_B: Link()}, campus)
    for _ in range(11):
        wire.send(frame(mac(2)))
    wire.send(frame(mac(2), size=100), src=2).until(1.0)
    [arrived_s] = [at_s for at_s, _, buffer in wire.handed if len(buffer) == 110]
    assert arrived_s == pytest.approx(arrives_s)
    assert sum(len(buffer) == 1010 for _, _, buffer in wire.handed) == 11
    [row] = wire.switch.report()["bottlenecks"]
    assert (row["segments"], row["dropped_queue"]) == (12, 0)
    assert wire.row("a")["bytes"] == 11_000


def test_a_rate_that_changes_holds_for_what_is_being_served() -> None:
    campus = Bottleneck(name="campus", rate_bps=1e6, links=(A_TO_B, C_TO_B), discipline=Discipline.FAIR)
    wire = Wire({A_TO_B: Link()}, campus)
    wire.send(frame(mac(2))).send(frame(mac(2))).until(0.004).change({}, campus=2e6).until(1.0)
    assert [round(at_s, 4) for at_s, _, _ in wire.handed] == [0.006, 0.01]  # half of 8 ms at the old rate
