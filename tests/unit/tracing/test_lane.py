"""Phases within phases: only the innermost counts, and what is recorded never overlaps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.lane import DEEPEST, INFERRED, Event, Lane

PHASES = (Phase.DATA, Phase.FORWARD, Phase.STEP, Phase.AWAIT_COLLECTIVE)


class Tape:
    """A lane that is told something each millisecond, and its spans."""

    def __init__(self) -> None:
        self.lane = Lane()
        self._now_ns = 0

    def enter(self, phase: Phase, *, bounded: bool = False) -> None:
        self.lane.enter(self.tick(), phase, bounded=bounded)

    def leave(self) -> None:
        self.lane.leave(self.tick())

    def close(self) -> None:
        self.lane.close(self.tick())

    def abandon(self, still: int = 0) -> None:
        self.lane.abandon(self.tick(), (Phase.STEP, Phase.FORWARD), still)

    def tick(self) -> int:
        self._now_ns += 1_000_000
        return self._now_ns

    @property
    def spans(self) -> list[tuple[Phase, int, int]]:
        return [(Phase(row[12]), row[1] // 1_000_000, row[2] // 1_000_000) for row in self.lane.rows]


def test_a_wait_within_a_forward_is_taken_out_of_it() -> None:
    tape = Tape()
    tape.enter(Phase.FORWARD)
    tape.enter(Phase.AWAIT_COLLECTIVE)
    tape.leave()
    tape.leave()
    assert tape.spans == [(Phase.FORWARD, 1, 2), (Phase.AWAIT_COLLECTIVE, 2, 3), (Phase.FORWARD, 3, 4)]


def test_a_step_within_a_step_is_one() -> None:
    tape = Tape()
    tape.enter(Phase.STEP)
    tape.enter(Phase.STEP)
    tape.leave()
    tape.leave()
    assert tape.spans == [(Phase.STEP, 1, 4)]


def test_a_backward_is_cut_where_buckets_were_ready_and_ends_where_the_wait_for_others_begins() -> None:
    tape = Tape()
    tape.lane.iterate(tape.tick(), 7, ended=False)
    tape.enter(Phase.FORWARD)
    tape.leave()
    tape.lane.backward(tape.tick())  # at 4 ms
    tape.enter(Phase.AWAIT_COLLECTIVE)
    tape.leave()
    of_another_model = ({}, [300], -2, 7)
    tape.lane.leave(12_000_000, [({0: 8_000_000, 1: 10_000_000}, [100, 200], -2, 5), of_another_model])
    own = [(start, end) for phase, start, end in tape.spans if phase is Phase.BACKWARD]
    assert own == [(4, 5), (6, 8), (8, 10)]
    assert [span for span in tape.spans if span[0] is Phase.COLLECTIVE] == [
        (Phase.COLLECTIVE, 8, 12), (Phase.COLLECTIVE, 10, 12),
    ]  # fmt: skip
    assert (Phase.AWAIT_COLLECTIVE, 10, 12) in tape.spans
    assert {row[5] for row in tape.lane.rows} == {7}
    assert {row[4] for row in tape.lane.rows if row[12] == Phase.COLLECTIVE} == {5, 6}


def test_all_reduces_that_a_step_waits_for_begin_when_they_are_joined_and_end_together() -> None:
    tape = Tape()
    tape.lane.iterate(tape.tick(), 7, ended=False)
    joined_ns = tape.tick()
    tape.enter(Phase.STEP)
    begun_ns, ended_ns = tape.tick(), tape.tick()
    tape.lane.await_all_reduces(begun_ns, ended_ns, {0: joined_ns, 1: ended_ns}, [40, 4], 8)
    tape.leave()
    of = [(row[1] // 1_000_000, row[2] // 1_000_000, row[3], row[4], row[8]) for row in tape.lane.rows]
    assert of[1:4] == [(4, 5, 0, 9, 1), (2, 5, 40, 8, 0), (4, 5, 4, 9, 1)], "bytes, number, bucket"
    assert [tape.spans[0], tape.spans[4]] == [(Phase.STEP, 3, 4), (Phase.STEP, 5, 6)]
    assert {row[5] for row in tape.lane.rows} == {7}


def test_what_lies_before_a_backward_without_a_forward_is_one() -> None:
    said: list[str] = []
    lane = Lane(said.append)
    lane.iterate(1_000_000, 0, ended=False)
    lane.enter(2_000_000, Phase.DATA)
    lane.leave(3_000_000)
    lane.backward(6_000_000)
    lane.leave(8_000_000)
    lane.iterate(9_000_000, 1, ended=True)
    found = [(Phase(row[12]), row[1], row[2]) for row in lane.rows]
    assert found[1:] == [
        (Phase.FORWARD, 3_000_000, 6_000_000), (Phase.BACKWARD, 6_000_000, 8_000_000),
        (Phase.ITERATION, 1_000_000, 9_000_000),
    ]  # fmt: skip
    assert said == [INFERRED]


@pytest.mark.parametrize(
    ("ran_us", "waited_us", "kept_us"),
    [(3000, 9000, 2000), (3000, 1000, 1000), (6000, 500, 0), (5000, 0, 0)],
    ids=["all of it that it did not run", "no more than it waited", "longer than it computes", "none"],
)
def test_an_iteration_tells_how_long_its_computing_waited_for_a_processor(
    ran_us: int, waited_us: int, kept_us: int
) -> None:
    """Of 8 ms it waits for others for 3, and computes for 5."""
    tape = Tape()
    tape.lane.iterate(tape.tick(), 0, 7000, b"7000 9000 1\n", ended=False)
    tape.enter(Phase.FORWARD)
    tape.lane.record(Phase.AWAIT_COLLECTIVE, 0, 9_000_000, task=1)  # another thread's
    tape.enter(Phase.AWAIT_COLLECTIVE)
    tape.tick(), tape.tick()
    tape.leave()
    tape.leave()
    ran_ns, now_ns = 7000 + ran_us * 1000, tape.tick() + 1_000_000
    tape.lane.iterate(now_ns, 1, ran_ns, ended=True)
    tape.lane.seen(now_ns, f"{ran_ns} {9000 + waited_us * 1000} 2\n".encode())
    assert [row[4] for row in tape.lane.rows if row[12] is Phase.ITERATION] == [kept_us]


def test_of_an_iteration_of_which_nobody_knows_it_is_not_told() -> None:
    lane = Lane()
    lane.iterate(1_000_000, 0, ended=False)
    lane.iterate(2_000_000, 1, ended=True)
    assert [row[4] for row in lane.rows] == [-1]


def test_what_raised_does_not_pile_up() -> None:
    tape = Tape()
    for _ in range(10 * DEEPEST):
        tape.enter(Phase.STEP)
        tape.enter(Phase.DATA)
    assert len(tape.lane._open) <= DEEPEST + 2


ACTS: list[Callable[[Tape], None]] = [
    *(partial(Tape.enter, phase=phase, bounded=bounded) for phase in PHASES for bounded in (False, True)),
    Tape.leave, Tape.leave, Tape.leave, Tape.close, Tape.close, Tape.abandon, partial(Tape.abandon, still=1),
]  # fmt: skip


@given(st.lists(st.sampled_from(ACTS), max_size=60))
def test_spans_never_overlap_whatever_is_entered_and_left(acts: list[Callable[[Tape], None]]) -> None:
    tape = Tape()
    for act in acts:
        act(tape)
    ordered = sorted((start, end) for _, start, end in tape.spans)
    assert all(one[1] <= other[0] for one, other in pairwise(ordered))


TOLD = [*PHASES, None, Phase.BACKWARD, Phase.ITERATION, Phase.EVALUATE, Phase.CHECKPOINT]


@given(st.lists(st.sampled_from(TOLD), max_size=60), st.integers(1, 9))
def test_what_is_told_at_once_is_as_what_is_told_one_by_one(steps: list[Phase | None], pieces: int) -> None:
    one_by_one, at_once = Lane(), Lane()

    def events(lane: Lane) -> list[Event]:
        found: list[Event] = []
        for number, step in enumerate(steps):
            now_ns = 1_000 * number**2  # some phases are too short
            if step is None:
                found.append((lane.left, now_ns))
            elif step is Phase.BACKWARD:
                passes = [({0: now_ns + 700, 1: now_ns + 500}, [100, 200], -2, 2 * number)]
                found += [(lane.began_backward, now_ns), (lane.left, now_ns + 900, passes)]
            elif step is Phase.ITERATION:
                found.append((partial(lane.iterate, ended=True), now_ns, number))
            elif step is Phase.CHECKPOINT:
                found.append((lane.closed, now_ns))
            elif step is Phase.EVALUATE:
                found.append((lane.entered, now_ns, step, -1, -1, -2, True))
            else:
                found.append((lane.entered, now_ns, step))
        return found

    for told, *what in events(one_by_one):
        told(*what)
    told_events = events(at_once)
    for begin in range(0, len(told_events), pieces):
        at_once.tell(told_events[begin : begin + pieces])
    assert (at_once.rows, at_once._ended_ns, at_once._open) == (
        one_by_one.rows, one_by_one._ended_ns, one_by_one._open,
    )  # fmt: skip


def test_what_was_left_by_an_exception_is_over_with_all_within_it_and_what_is_around_goes_on() -> None:
    tape = Tape()
    for phase in (Phase.FORWARD, Phase.STEP, Phase.STEP, Phase.CHECKPOINT):
        tape.enter(phase)
    tape.lane.abandon(tape.tick(), (Phase.STEP,), 1)
    tape.enter(Phase.CHECKPOINT)
    tape.leave()
    tape.lane.abandon(tape.tick(), (Phase.STEP,))
    tape.lane.abandon(tape.tick(), (Phase.STEP,))
    tape.leave()
    assert tape.spans == [
        (Phase.FORWARD, 1, 2), (Phase.STEP, 2, 4), (Phase.STEP, 5, 6), (Phase.CHECKPOINT, 6, 7),
        (Phase.FORWARD, 8, 10),
    ]  # fmt: skip


def test_a_bounded_phase_ends_with_all_that_raised_within_it_and_outlives_what_raised_around_it() -> None:
    tape = Tape()
    tape.enter(Phase.STEP)
    tape.enter(Phase.EVALUATE, bounded=True)
    tape.enter(Phase.STEP)
    tape.enter(Phase.FORWARD)
    tape.close()
    tape.enter(Phase.STEP, bounded=True)  # at 6 ms, a part of the one around it, which is over
    tape.abandon()
    tape.enter(Phase.DATA)
    tape.leave()
    tape.close()
    assert tape.lane._open == []
    assert tape.spans == [
        (Phase.STEP, 1, 2), (Phase.EVALUATE, 2, 3), (Phase.STEP, 3, 4), (Phase.STEP, 7, 8), (Phase.DATA, 8, 9),
        (Phase.STEP, 9, 10),
    ]  # fmt: skip
