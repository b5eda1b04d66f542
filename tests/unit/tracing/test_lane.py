"""Phases within phases: only the innermost counts, and what is recorded never overlaps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.lane import DEEPEST, Lane

PHASES = (Phase.DATA, Phase.FORWARD, Phase.STEP, Phase.AWAIT_COLLECTIVE)


class Tape:
    """A clock that goes a millisecond at each look, and what was recorded."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.spans: list[tuple[Phase, int, int]] = []

    def clock(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns

    def record(self, phase: Phase, _posted_ns: int, start_ns: int, end_ns: int, **_fields: Any) -> None:
        self.spans.append((phase, start_ns // 1_000_000, end_ns // 1_000_000))


def test_a_wait_within_a_forward_is_taken_out_of_it() -> None:
    tape = Tape()
    lane = Lane(tape.record, tape.clock)
    lane.enter(Phase.FORWARD)
    lane.enter(Phase.AWAIT_COLLECTIVE)
    lane.leave()
    lane.leave()
    assert tape.spans == [(Phase.FORWARD, 1, 2), (Phase.AWAIT_COLLECTIVE, 2, 3), (Phase.FORWARD, 3, 4)]


def test_a_step_within_a_step_is_one() -> None:
    tape = Tape()
    lane = Lane(tape.record, tape.clock)
    lane.enter(Phase.STEP)
    lane.enter(Phase.STEP)
    lane.leave()
    lane.leave()
    assert tape.spans == [(Phase.STEP, 1, 4)]


def test_pieces_of_a_collected_phase_are_its_callers() -> None:
    tape = Tape()
    lane = Lane(tape.record, tape.clock)
    opened = lane.collect(Phase.BACKWARD)
    lane.enter(Phase.AWAIT_COLLECTIVE)
    lane.leave()
    lane.leave()
    assert opened.pieces == [(1_000_000, 2_000_000), (3_000_000, 4_000_000)]
    assert tape.spans == [(Phase.AWAIT_COLLECTIVE, 2, 3)]


def test_what_raised_does_not_pile_up() -> None:
    tape = Tape()
    lane = Lane(tape.record, tape.clock)
    for _ in range(10 * DEEPEST):
        lane.enter(Phase.STEP)
        lane.enter(Phase.DATA)
    assert len(lane._open) <= DEEPEST + 2


@given(st.lists(st.sampled_from([*PHASES, None]), max_size=60))
def test_spans_never_overlap_whatever_is_entered_and_left(steps: list[Phase | None]) -> None:
    tape = Tape()
    lane = Lane(tape.record, tape.clock)
    for step in steps:
        if step is None:
            lane.leave()
        else:
            lane.enter(step)
    ordered = sorted((start, end) for _, start, end in tape.spans)
    assert all(one[1] <= other[0] for one, other in pairwise(ordered))
