"""The clock exchange over real sockets, what it writes, and who asks amiss."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from far_clock import far_away

from e2c_dl.errors import ArchiveError, TrainingError
from e2c_dl.trace.clocks.alignment import Exchange, align, telling
from e2c_dl.trace.clocks.clock import ClockServer, ReferenceClock, exchange, read_alignment, write_alignment
from e2c_dl.trace.clocks.skew import Skew, TraceClock
from e2c_dl.trace.model import ClockAlignment, ClockStep

SECOND = 1_000_000_000


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0"])
def test_the_offset_of_a_wrong_clock_is_found_within_its_uncertainty(address: str) -> None:
    wrong_ns = 7_000_000_000
    with ClockServer(address, clock=lambda: time.monotonic_ns() + wrong_ns) as server:
        found = exchange("127.0.0.1" if address == "0.0.0.0" else address, server.port, server.token, rounds=30)
    assert 1 <= len(found) <= 2
    for each in found:
        assert abs(each.offset_ns - wrong_ns) <= each.uncertainty_ns


def test_a_reference_that_is_far_away_is_asked_for_as_long_as_it_takes() -> None:
    """Answers come later than another question is asked."""
    wrong_ns = 7_000_000_000
    with ClockServer("127.0.0.1", lambda: time.monotonic_ns() + wrong_ns) as server, far_away(server.port, 0.3) as port:
        found = exchange("127.0.0.1", port, server.token, rounds=8, within_s=5.0)
        reference = ReferenceClock("127.0.0.1", port, server.token)
        reference._add(found)
        assert reference.exchange_few().uncertainty_ns < 200_000_000
    for each in found:
        assert abs(each.offset_ns - wrong_ns) <= each.uncertainty_ns < 200_000_000


def test_a_last_exchange_believes_the_few_answers_that_come_in_its_time() -> None:
    with ClockServer("127.0.0.1") as server, far_away(server.port, 0.1) as port:
        assert ReferenceClock("127.0.0.1", port, server.token).exchange_last().uncertainty_ns < 100_000_000


def test_nobody_answers() -> None:
    with pytest.raises(TrainingError, match="clock exchanges"):
        exchange("127.0.0.1", 9, 0, within_s=0.3)
    with pytest.raises(TrainingError, match="cannot ask the reference clock"):
        exchange("no such host", 9, 0, within_s=0.3)


def test_an_address_of_another_host_is_refused() -> None:
    with pytest.raises(TrainingError, match="192.0.2.1: cannot serve the clock there"):
        ClockServer("192.0.2.1")


def test_a_server_outlives_what_is_no_question() -> None:
    with ClockServer("127.0.0.1") as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for datagram in (b"", b"x", b"y" * 24, b"z" * 25, b"w" * 4000):
            other.sendto(datagram, ("127.0.0.1", server.port))
        assert exchange("127.0.0.1", server.port, server.token, rounds=8)
        with pytest.raises(TrainingError, match="only 0 of 8"):
            exchange("127.0.0.1", server.port, server.token ^ 1, rounds=8, within_s=0.3)


def test_an_answer_is_no_longer_than_its_question() -> None:
    with ClockServer("127.0.0.1") as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.settimeout(60)
        other.sendto(server.token.to_bytes(8, "big") + b"q" * 16, ("127.0.0.1", server.port))
        answer = other.recv(64)
    assert len(answer) == 24
    assert answer[:8] == b"q" * 8


def test_a_step_is_noticed_at_the_next_exchange() -> None:
    own = TraceClock(time.monotonic_ns)
    with ClockServer("127.0.0.1") as server:
        reference = ReferenceClock("127.0.0.1", server.port, server.token, own)
        assert reference.exchange().steps == ()
        before_ns = own()
        own.skew(Skew(begin_ns=time.monotonic_ns(), step_ns=50_000_000))
        found = reference.exchange_few()
        now_ns, true_ns = own(), time.monotonic_ns()
    (step,) = found.steps
    assert step.from_ns <= before_ns
    assert step.uncertainty_ns >= 50_000_000
    placed_ns = int(found.align(np.array([now_ns]))[0])
    (uncertain_ns,) = found.uncertainties_ns(np.array([now_ns]))
    assert -uncertain_ns <= true_ns - placed_ns <= uncertain_ns + 1_000_000_000, "read one after the other"
    assert uncertain_ns < step.uncertainty_ns


def at(at_ns: int, offset_ns: int, uncertainty_ns: int = 10) -> Exchange:
    return Exchange(at_ns=at_ns, offset_ns=offset_ns, uncertainty_ns=uncertainty_ns)


def test_one_exchange_is_believed_as_it_is() -> None:
    found = align(at(0, 100))
    assert (found.offset_ns, found.drift, found.at_ns, found.knots) == (100, 0.0, 0, ())
    assert 10 <= found.uncertainty_ns <= 511, "its own, and what a reading is worth"


def test_no_exchange_is_no_alignment() -> None:
    assert align() == ClockAlignment()


def test_drift_needs_a_second() -> None:
    assert align(at(0, 100), at(SECOND, 1100)).drift == pytest.approx(1e-6)
    assert align(at(0, 100), at(SECOND - 1, 1100)).drift == 0.0


def test_slow_answers_do_not_mislead() -> None:
    quick = [at(second * SECOND, 1000 * second) for second in range(10)]
    slow = [at(second * SECOND + SECOND // 2, 1000 * second + 400_000, 450_000) for second in range(9)]
    found = align(*sorted([*quick, *slow], key=lambda each: each.at_ns))
    assert found == align(*quick)
    assert found.uncertainty_ns <= 511


def test_the_least_delayed_question_and_answer_need_not_be_one_exchange() -> None:
    seen = [at(0, 0, 500_000), at(10, 60_000, 100_000), at(20, -60_000, 100_000)]
    assert set(telling(seen)) == set(seen[1:])
    assert align(*telling(seen)).offset_ns == 0
    assert align(*telling(seen)).uncertainty_ns == 100_000, (
        "no less than half a round trip, whatever they tell together"
    )
    assert telling([at(0, 0, 10), at(5, 1, 500)]) == (at(0, 0, 10),)


def test_a_step_leaves_the_rest_as_certain_as_it_was() -> None:
    seen = [at(second * SECOND, 0 if second < 5 else -40_000_000, 1000) for second in range(10)]
    found = align(*seen)
    (step,) = found.steps
    assert (step.from_ns, step.to_ns) == (4 * SECOND, 5 * SECOND)
    assert step.uncertainty_ns == found.uncertainty_ns >= 40_000_000
    own_ns = np.array([SECOND, 4 * SECOND + 1, 5 * SECOND, 6 * SECOND])
    assert (found.uncertainties_ns(own_ns) < 5000).tolist() == [True, False, False, True]
    assert found.align(own_ns[[0, 3]]).tolist() == pytest.approx([SECOND, 6 * SECOND - 40_000_000], abs=3000)


def test_alignment_is_read_back(tmp_path: Path) -> None:
    for alignment in (
        ClockAlignment(offset_ns=-5, drift=2e-6, at_ns=77, uncertainty_ns=3),
        align(*(at(second * SECOND, 0 if second < 5 else -(10**8)) for second in range(10))),
    ):
        write_alignment(tmp_path / "clock.json", alignment)
        assert read_alignment(tmp_path / "clock.json") == alignment


@pytest.mark.parametrize(
    ("steps", "usual_ns", "wrong"),
    [
        ([ClockStep(from_ns=1, to_ns=2, uncertainty_ns=9)], 1, "the uncertainty of a step, 9,"),
        ([ClockStep(from_ns=2, to_ns=1, uncertainty_ns=3)], 1, "a step from 2 to 1"),
        ([], 5, "usual_uncertainty_ns 5"),
    ],
)
def test_steps_that_cannot_be_are_damage(tmp_path: Path, steps: list[ClockStep], usual_ns: int, wrong: str) -> None:
    rows = [{"from_ns": step.from_ns, "to_ns": step.to_ns, "uncertainty_ns": step.uncertainty_ns} for step in steps]
    file = tmp_path / "clock.json"
    file.write_text(json.dumps({"uncertainty_ns": 4, "usual_uncertainty_ns": usual_ns, "steps": rows}))
    with pytest.raises(ArchiveError, match=wrong):
        read_alignment(file)


CLOSED = """
from e2c_dl.trace.clocks.clock import ClockServer
with ClockServer("0.0.0.0"):
    pass
print("closed")
"""


def test_a_server_ends_where_nothing_it_sends_arrives() -> None:
    apart = ["unshare", "--net", "--map-root-user"]  # a network whose loopback is down
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("networks of one's own cannot be made here")
    done = subprocess.run(
        [*apart, sys.executable, "-c", CLOSED], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("closed\n", "")


def test_a_clock_that_stepped_went_before_its_first_exchange_as_it_did_after_it() -> None:
    """50 parts per million, asked from 60 s to 200 s, a step of half a second at 100 s."""
    seconds = np.arange(60, 200) * 10**9

    def offsets_ns(own_ns: np.ndarray) -> np.ndarray:
        return np.where(own_ns < 100 * 10**9, 0, 5 * 10**8) - np.rint(50e-6 * own_ns).astype(np.int64)

    pairs = zip(offsets_ns(seconds).tolist(), seconds.tolist(), strict=True)
    found = align(*(Exchange(offset_ns=offset_ns, at_ns=at_ns, uncertainty_ns=50_000) for offset_ns, at_ns in pairs))
    assert found.knots
    own_ns = np.array([0, 30, 60, 199, 210]) * 10**9
    assert np.abs(found.align(own_ns) - own_ns - offsets_ns(own_ns)).max() < 50_000


@pytest.mark.parametrize("knots", [((0, 5), (10**6, 10**6)), ((0, 5),), ((0, 5), (10**9, 205))])
def test_a_step_next_to_a_clocks_ends_does_not_go_on(knots: tuple[tuple[int, int], ...]) -> None:
    step = ClockStep(from_ns=0, to_ns=10**9, uncertainty_ns=100)
    found = ClockAlignment(knots=knots, uncertainty_ns=100, usual_uncertainty_ns=0, steps=(step,))
    own_ns = np.array([-(10**12), 10**12])
    assert (found.align(own_ns) - own_ns).tolist() == [knots[0][1], knots[-1][1]]
