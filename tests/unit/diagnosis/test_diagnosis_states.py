from typing import Any

import numpy as np
import pytest

from e2c_dl.diagnosis.states import STATES, timeline
from e2c_dl.errors import AnalysisError
from e2c_dl.trace.messages import conservation, join
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, State, Trace


def span(phase: Phase, start: int, end: int, **fields: int) -> dict[str, int]:
    values = dict.fromkeys(("iteration", "bucket", "src", "dst", "seq"), -1)
    return {**values, "phase": phase, "posted_ns": start, "start_ns": start, "end_ns": end, "peer_task": -2, **fields}


def rank(number: int, *rows: dict[str, int]) -> RankTrace:
    spans: Any = np.zeros(len(rows), dtype=SPAN)
    for place, row in enumerate(rows):
        for field, value in row.items():
            spans[field][place] = value
    return RankTrace(rank=number, host=f"edge-{number + 1}", layer="edge", spans=spans, clock=ClockAlignment())


MESSAGE = {"src": 0, "dst": 1, "seq": 0, "nbytes": 100}
TRACE = Trace(
    ranks=(
        rank(0, span(Phase.TRAINING, 0, 100), span(Phase.FORWARD, 10, 30), span(Phase.SEND, 25, 26, **MESSAGE)),
        rank(
            1,
            span(Phase.TRAINING, 0, 100),
            span(Phase.ITERATION, 0, 50, iteration=0),
            span(Phase.ITERATION, 50, 100, iteration=1),
            span(Phase.AWAIT_MESSAGE, 5, 55),
            span(Phase.RECEIVE, 40, 60, **MESSAGE),
        ),
    ),
    facts={},
)


def test_the_first_state_that_applies_wins() -> None:
    states = timeline(TRACE.ranks[0], join(TRACE))
    assert states.intervals_s(0) == [
        (0.0, 10e-9, State.OTHER),
        (10e-9, 30e-9, State.COMPUTE),
        (30e-9, 60e-9, State.PROPAGATE),
        (60e-9, 100e-9, State.OTHER),
    ]


def test_a_message_is_on_its_way_at_both_ends() -> None:
    states = timeline(TRACE.ranks[1], join(TRACE))
    assert states.totals_ns() == {State.COMPUTE: 0, State.PROPAGATE: 35, State.WAIT: 20, State.OTHER: 45}
    assert [STATES[code] for code in states.codes] == [State.OTHER, State.WAIT, State.PROPAGATE, State.OTHER]


def test_training_that_never_was_is_refused() -> None:
    with pytest.raises(AnalysisError, match="edge-1: 0 TRAINING spans"):
        timeline(rank(0, span(Phase.FORWARD, 0, 1)), join(TRACE))


def test_messages_are_joined_by_number_and_halves_kept_apart() -> None:
    lone = span(Phase.SEND, 70, 71, **{**MESSAGE, "seq": 1})
    first = rank(0, *(span(Phase.SEND, 25, 26, **MESSAGE), lone))
    messages = join(Trace(ranks=(first, TRACE.ranks[1]), facts={}))
    assert messages.joined[["src", "dst", "seq", "send_start_ns", "recv_end_ns"]].tolist() == [(0, 1, 0, 25, 60)]
    assert messages.unreceived["seq"].tolist() == [1]
    assert messages.unmatched == 1
    (row,) = conservation(Trace(ranks=(first, TRACE.ranks[1]), facts={}))
    assert (row.sent_bytes, row.received_bytes, row.sent_messages, row.received_messages) == (200, 100, 2, 1)


def test_a_message_recorded_twice_is_refused() -> None:
    twice = rank(0, span(Phase.SEND, 25, 26, **MESSAGE), span(Phase.SEND, 27, 28, **MESSAGE))
    with pytest.raises(AnalysisError, match="SEND of message 0 from rank 0 to 1 is recorded twice"):
        join(Trace(ranks=(twice, TRACE.ranks[1]), facts={}))
