"""Timelines show what a trace holds, and say what they leave out when there is too much of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import sample_report as sample
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Ring, simulate

from e2c_dl.diagnosis.shown.activity import ITERATION, Activity, from_trace
from e2c_dl.diagnosis.states import STATES
from e2c_dl.report.page import timeline
from e2c_dl.report.page.lines import LAST, MIXED, WHOLE, Line, stepped
from e2c_dl.report.page.packed import packed, ticks, unpacked
from e2c_dl.topology import Link
from e2c_dl.trace.model import Phase


@pytest.fixture(scope="module")
def traced() -> Activity:
    link = Link(rate_bps=40e6, delay_s=0.002)
    return from_trace(simulate(Ring(compute_s=(0.05, 0.1, 0.05), links=(link,) * 3, bucket_bytes=(40_000, 90_000))))


def content(made: timeline.Drawn) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    return unpacked(made.content.partition(">")[2].partition("<")[0])


def drawn_s(made: timeline.Drawn, name: str = "s", kinds: int = 4) -> list[list[float]]:
    """Seconds of each kind, line by line, as the page adds them up."""
    facts, columns = content(made)
    bounds = np.cumsum(columns[f"{name}_bounds"].astype(np.int64)) * facts["tick_s"]
    first, codes, shares = (columns[f"{name}_{what}"] for what in ("first", "codes", "shares"))
    used, found = 0, []
    for low, high in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        assert codes[high - 1] == LAST
        spent = [0.0] * kinds
        for row in range(low, high - 1):
            length = bounds[row + 1] - bounds[row]
            if codes[row] == MIXED:
                own = (shares[used : used + kinds - 1] / WHOLE).tolist()
                used += kinds - 1
                for kind, share in enumerate([*own, 1 - sum(own)]):
                    spent[kind] += length * share
            else:
                spent[codes[row]] += length
        found.append(spent)
    return found


def true_s(shown: Activity) -> list[list[float]]:
    return [[float(np.diff(lane.bounds_s)[lane.codes == code].sum()) for code in range(4)] for lane in shown.lanes]


def test_a_trace_becomes_lanes_in_rank_order_that_begin_at_zero(traced: Activity) -> None:
    assert [lane.rank for lane in traced.lanes] == [0, 1, 2]
    assert min(lane.bounds_s[0] for lane in traced.lanes) == 0.0
    for lane in traced.lanes:
        assert lane.iterations["iteration"].tolist() == list(range(12))
        assert (np.diff(lane.bounds_s) > 0).all()
        assert len(lane.bounds_s) == len(lane.codes) + 1
    assert len(traced.deliveries) == 12 * 3 * 2 * (2 * 2)  # iterations, ranks, buckets, steps of the ring
    assert (traced.deliveries["end_s"] > traced.deliveries["start_s"]).all()
    assert sum(map(len, traced.by_link.values())) == len(traced.deliveries)
    assert set(traced.by_link) == {("edge-1", "edge-2"), ("edge-2", "edge-3"), ("edge-3", "edge-1")}


def test_the_window_is_of_median_iterations_and_not_the_first(traced: Activity) -> None:
    low, high = traced.window(3)
    iterations = traced.lanes[0].iterations
    assert low in iterations["start_s"]
    assert high - low == pytest.approx(3 * np.median(iterations["end_s"] - iterations["start_s"]), rel=0.2)
    assert traced.window(1)[0] > iterations["start_s"][0]


def test_the_slowest_iteration_is_found_and_the_first_is_not_it() -> None:
    shown = sample.activity(iterations=4)
    rows = np.array([(0, 0, 9), (1, 9, 10), (2, 10, 14), (3, 14, 15)], dtype=ITERATION)
    slow = replace(shown, lanes=(replace(shown.lanes[0], iterations=rows), *shown.lanes[1:]))
    assert slow.slowest(1) == (10.0, 14.0)


def test_the_window_of_few_iterations_is_all_of_them() -> None:
    shown = sample.activity(iterations=2)
    rows = shown.lanes[0].iterations
    assert shown.window(3) == (rows["start_s"][0], rows["end_s"][-1])
    none = np.empty(0, dtype=ITERATION)
    bare = Activity(lanes=tuple(replace(lane, iterations=none) for lane in shown.lanes))
    assert bare.window(3) == bare.slowest(3) == (0.0, bare.end_s)


def test_every_interval_and_message_is_drawn_once(traced: Activity) -> None:
    made = timeline.timeline(traced)
    assert made.left_out == ()
    assert np.array(drawn_s(made)) == pytest.approx(np.array(true_s(traced)), abs=1e-4)
    facts, columns = content(made)
    lasted_s = traced.deliveries["end_s"] - traced.deliveries["start_s"]
    assert columns["m_length"].sum() * facts["tick_s"] == pytest.approx(lasted_s.sum(), rel=1e-3)
    assert columns["m_bytes"].sum() == traced.deliveries["nbytes"].sum()
    assert len(columns["p_phase"]) == sum(len(lane.pieces) for lane in traced.lanes)
    assert set(made.phases) == {Phase.FORWARD, Phase.BACKWARD, Phase.REDUCE, Phase.STEP}


def test_a_link_is_busy_while_any_message_is_under_way(traced: Activity) -> None:
    for (busy_s, idle_s), rows in zip(drawn_s(timeline.timeline(traced), "l", 2), traced.by_link.values(), strict=True):
        assert busy_s + idle_s == pytest.approx(traced.end_s, rel=1e-4)
        assert 0 < busy_s <= (rows["end_s"] - rows["start_s"]).sum() + 1e-6


def test_too_many_details_are_left_out_and_told(traced: Activity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_DETAILS", 10)
    monkeypatch.setattr(timeline, "DETAILED_ITERATIONS", 2)
    made = timeline.timeline(traced)
    assert made.left_out[0].startswith("Single computations and messages are drawn from ")
    facts, columns = content(made)
    assert 0 < len(columns["m_bytes"]) < len(traced.deliveries)
    assert traced.window(2)[0] >= facts["detailed"][0][0]


def test_an_onset_has_a_window_and_its_details_are_kept(traced: Activity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_DETAILS", 10)
    monkeypatch.setattr(timeline, "DETAILED_ITERATIONS", 1)
    ninth = traced.lanes[0].iterations[9]
    onset_s = float(ninth["start_s"] + ninth["end_s"]) / 2
    made = timeline.timeline(traced, onsets_s={"<i>edge-1": onset_s})
    low, high = made.windows_s["onset of <i>edge-1"]
    assert low < ninth["start_s"] < ninth["end_s"] < high
    assert any(low <= onset_s <= high for low, high in content(made)[0]["detailed"])
    assert "onset of &lt;i&gt;edge-1</button>" in timeline.section(made)


def test_too_many_intervals_are_drawn_in_steps_and_told(traced: Activity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_INTERVALS", 10)
    monkeypatch.setattr(timeline, "STEPS", 50)
    monkeypatch.setattr(timeline, "DETAILED_ITERATIONS", 2)
    made = timeline.timeline(traced)
    assert made.left_out[0].startswith("States are drawn in steps of ")
    assert np.array(drawn_s(made)) == pytest.approx(np.array(true_s(traced)), rel=0.02, abs=0.01)
    assert (content(made)[1]["s_codes"] == MIXED).any()


def test_too_many_workers_are_left_out_but_no_culprit(traced: Activity) -> None:
    many = Activity(lanes=tuple(replace(traced.lanes[0], host=f"edge-{i}", rank=i) for i in range(60)))
    made = timeline.timeline(many, hosts={"edge-59"})
    assert made.left_out[0].startswith("48 of 60 workers are drawn")
    lanes = content(made)[0]["lanes"]
    assert len(lanes) == 48
    assert [lane["name"] for lane in lanes if lane["marked"]] == ["edge-59"]


def test_too_many_links_are_left_out_but_no_culprit(traced: Activity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_LINKS", 1)
    made = timeline.timeline(traced, links={("edge-3", "edge-1")})
    assert made.left_out[0].startswith("1 of 3 links are drawn")
    assert [link["name"] for link in content(made)[0]["links"]] == ["edge-3 → edge-1"]


@given(
    lengths=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=30),
    codes=st.lists(st.integers(0, 3), min_size=30, max_size=30),
    steps=st.integers(1, 50),
    exact=st.tuples(st.floats(0, 15), st.floats(0, 15)).map(lambda ends: (min(ends), max(ends))),
)
def test_steps_cover_the_same_time_with_the_same_shares(
    lengths: list[float], codes: list[int], steps: int, exact: tuple[float, float]
) -> None:
    bounds = np.cumsum([0.5, *lengths])
    line = Line(bounds_s=bounds, codes=np.array(codes[: len(lengths)], dtype=np.uint8), shares=np.empty((0, 4)))
    coarse = stepped(line, len(STATES), np.linspace(bounds[0], bounds[-1], steps + 1), [exact])
    assert coarse.bounds_s[0] == bounds[0]
    assert coarse.bounds_s[-1] == bounds[-1]
    assert (coarse.codes == MIXED).sum() == len(coarse.shares)
    widths = np.diff(coarse.bounds_s)
    for code in range(4):
        mixed = (widths[coarse.codes == MIXED] * coarse.shares[:, code]).sum()
        expected = np.diff(bounds)[line.codes == code].sum()
        assert widths[coarse.codes == code].sum() + mixed == pytest.approx(expected, abs=1e-5)
    middles = (coarse.bounds_s[:-1] + coarse.bounds_s[1:]) / 2
    assert not ((coarse.codes == MIXED) & (middles > exact[0]) & (middles < exact[1])).any()


@given(st.lists(st.floats(0, 1e5), max_size=20).map(sorted), st.text(max_size=40))
def test_what_is_packed_comes_back(seconds: list[float], name: str) -> None:
    text = packed("x", {"name": name}, {"t": ticks(seconds, 1e-3), "b": np.array([7], dtype=np.uint8)})
    inside = text.partition(">")[2].partition("<")[0]
    assert text == f'<script type="application/octet-stream" id="x-data">{inside}</script>'
    facts, columns = unpacked(inside)
    assert facts == {"name": name}
    assert columns["b"].tolist() == [7]
    assert np.cumsum(columns["t"]) * 1e-3 == pytest.approx(seconds, abs=1e-3)
