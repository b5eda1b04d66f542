"""Timelines show what a trace holds, and say what they leave out when there is too much of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sample_report as sample
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Ring, simulate

from e2c_dl.diagnosis.activity import Activity, Interval, from_trace
from e2c_dl.report.page import timeline
from e2c_dl.topology import Link
from e2c_dl.trace.model import Phase, State


def spent(intervals: list[Interval]) -> dict[State, float]:
    return {state: sum(b - a for a, b, s in intervals if s is state) for state in State}


@pytest.fixture(scope="module")
def traced() -> Activity:
    link = Link(rate_bps=40e6, delay_s=0.002)
    return from_trace(simulate(Ring(compute_s=(0.05, 0.1, 0.05), links=(link,) * 3, bucket_bytes=(40_000, 90_000))))


def test_a_trace_becomes_lanes_in_rank_order_that_begin_at_zero(traced: Activity) -> None:
    assert [lane.rank for lane in traced.lanes] == [0, 1, 2]
    assert min(lane.states[0][0] for lane in traced.lanes) == 0.0
    for lane in traced.lanes:
        assert [i.iteration for i in lane.iterations] == list(range(12))
        assert all(a[1] == b[0] for a, b in pairwise(lane.states))
    assert len(traced.deliveries) == 12 * 3 * 2 * (2 * 2)  # iterations, ranks, buckets, steps of the ring
    assert all(t.end_s > t.start_s for t in traced.deliveries)


def test_the_window_is_of_median_iterations_and_not_the_first(traced: Activity) -> None:
    low, high = traced.window(3)
    iterations = traced.lanes[0].iterations
    assert low in [i.start_s for i in iterations]
    assert high - low == pytest.approx(3 * np.median([i.end_s - i.start_s for i in iterations]), rel=0.2)
    assert traced.window(1)[0] > iterations[0].start_s


def test_the_window_of_few_iterations_is_all_of_them() -> None:
    shown = sample.activity(iterations=2)
    assert shown.window(3) == (shown.lanes[0].iterations[0].start_s, shown.lanes[0].iterations[-1].end_s)
    bare = Activity(lanes=tuple(replace(lane, iterations=()) for lane in shown.lanes))
    assert bare.window(3) == (0.0, bare.end_s)


def drawn_seconds(figure: Any, name: str, points: int) -> float:
    """The length of all strokes of the traces called ``name``, without the breaks between them."""
    total = 0.0
    for trace in figure.data:
        if trace.name == name:
            strokes = np.asarray(trace.x, dtype=float).reshape(-1, points + 1)
            assert np.isnan(strokes[:, -1]).all()
            total += float((strokes[:, -2] - strokes[:, 0]).sum())
    return total


def test_every_interval_and_message_is_drawn_once(traced: Activity) -> None:
    made = timeline.timeline(traced)
    assert made.left_out == ()
    for state in State:
        expected = sum(spent(list(lane.states))[state] for lane in traced.lanes)
        assert drawn_seconds(made.figure, state.value, 2) == pytest.approx(expected)
    expected = sum(t.end_s - t.start_s for t in traced.deliveries)
    assert drawn_seconds(made.figure, "message", 3) == pytest.approx(expected)
    pieces = [p for lane in traced.lanes for p in lane.pieces if p.phase is Phase.BACKWARD]
    assert drawn_seconds(made.figure, "backward", 3) == pytest.approx(sum(p.end_s - p.start_s for p in pieces))


def test_too_many_details_are_left_out_and_told(traced: Activity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_DETAILS", 10)
    monkeypatch.setattr(timeline, "DETAILED_ITERATIONS", 2)
    made = timeline.timeline(traced)
    assert made.left_out[0].startswith("Computations and messages are drawn between ")
    assert 0 < drawn_seconds(made.figure, "message", 3) < sum(t.end_s - t.start_s for t in traced.deliveries)


def test_too_many_intervals_are_drawn_in_steps_and_told(traced: Activity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_INTERVALS", 10)
    monkeypatch.setattr(timeline, "STEPS_PER_LANE", 500)
    made = timeline.timeline(traced)
    assert made.left_out[0].startswith("States are drawn in steps of ")
    total = sum(drawn_seconds(made.figure, state.value, 2) for state in State)
    assert total == pytest.approx(sum(lane.states[-1][1] - lane.states[0][0] for lane in traced.lanes))
    compute = sum(spent(list(lane.states))[State.COMPUTE] for lane in traced.lanes)
    assert drawn_seconds(made.figure, "compute", 2) == pytest.approx(compute, rel=0.05)


def test_too_many_workers_are_left_out_but_no_culprit(traced: Activity) -> None:
    many = Activity(lanes=tuple(replace(traced.lanes[0], host=f"edge-{i}", rank=i) for i in range(40)))
    made = timeline.timeline(many, hosts={"edge-39"})
    assert made.left_out[0].startswith("24 of 40 workers are drawn")
    ticks = made.figure.layout.yaxis.ticktext
    assert len(ticks) == 24
    assert "edge-39" in ticks[-1]


@given(
    lengths=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=30),
    states=st.lists(st.sampled_from(list(State)), min_size=30, max_size=30),
    steps=st.integers(1, 50),
)
def test_steps_cover_the_same_time_and_show_what_took_most(
    lengths: list[float], states: list[State], steps: int
) -> None:
    bounds = np.cumsum([0.5, *lengths]).tolist()
    exact: list[Interval] = list(zip(bounds[:-1], bounds[1:], states[: len(lengths)], strict=True))
    coarse = timeline.dominant(exact, steps)
    assert coarse[0][0] == pytest.approx(exact[0][0])
    assert coarse[-1][1] == pytest.approx(exact[-1][1])
    assert all(a[1] == b[0] and a[2] is not b[2] for a, b in pairwise(coarse))
    step = (bounds[-1] - bounds[0]) / steps
    for start, end, state in coarse:
        for low in np.arange(start, end - step / 2, step):
            inside = [(max(a, low), min(b, low + step), s) for a, b, s in exact if b > low and a < low + step]
            totals = spent(inside)
            assert totals[state] >= max(totals.values()) - 1e-9
