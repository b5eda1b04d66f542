"""Which collective bytes were of: by time, shared where several were in flight, and never more than there were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.trace.model import SPAN, ClockAlignment, Collective, Phase, RankTrace, Spans, Trace
from e2c_dl.trace.propagation.collective_flows import collective_flows

Interval = tuple[int, int]


def flows(dst: int, *pieces: tuple[int, int, int], src: int = 0) -> Spans:
    """(start, end, bytes) each."""
    spans = np.zeros(len(pieces), dtype=SPAN)
    spans["phase"], spans["src"], spans["dst"] = Phase.FLOW, src, dst
    spans["start_ns"], spans["end_ns"], spans["nbytes"] = np.array(pieces).reshape(-1, 3).T
    return spans


def joined(*intervals: Interval, group: int = -2, first: int = 0) -> Spans:
    """COLLECTIVE spans in order of their numbers."""
    spans = np.zeros(len(intervals), dtype=SPAN)
    spans["phase"], spans["kind"], spans["peer_task"] = Phase.COLLECTIVE, Collective.ALL_REDUCE, group
    spans["seq"], spans["iteration"] = first + np.arange(len(intervals)), 5
    spans["start_ns"], spans["end_ns"] = np.array(intervals).reshape(-1, 2).T
    return spans


def trace(*of_ranks: Sequence[Spans]) -> Trace:
    ranks = (
        RankTrace(rank=rank, host=f"h{rank}", layer="all", spans=np.concatenate(spans), clock=ClockAlignment())
        for rank, spans in enumerate(of_ranks)
    )
    return Trace(ranks=tuple(ranks), facts={})


def shares(found: Trace) -> npt.NDArray[Any]:
    """As if a flow's ends were certain."""
    return collective_flows(found, reach_ns=0)


def told(found: npt.NDArray[Any]) -> dict[int, tuple[float, float]]:
    """Number of the collective -> (bytes, busy ns); of one link."""
    return {int(row["seq"]): (round(float(row["nbytes"]), 6), round(float(row["busy_ns"]), 6)) for row in found}


def test_bytes_are_of_the_collective_in_flight_and_shared_by_those_that_are_together() -> None:
    both = joined((100, 200), (150, 300))
    found = shares(trace([both, flows(1, (100, 200, 1000), (250, 400, 1500))], [both]))
    assert told(found) == {0: (750, 75), 1: (250 + 500, 25 + 50), -1: (1000, 100)}
    assert set(found["iteration"]) == {5, -1}
    assert {tuple(row) for row in found[["src", "dst", "group"]].tolist()} == {(0, 1, -2)}
    assert found["kind"].tolist() == [0, Collective.ALL_REDUCE, Collective.ALL_REDUCE], "the first: nobody's"


def test_one_that_waits_for_a_rank_has_none_of_what_another_moves() -> None:
    one = [joined((0, 100), (0, 200)), flows(1, (0, 200, 200))]
    found = shares(trace(one, [joined((0, 100), (100, 200))]))
    assert told(found) == {0: (100, 100), 1: (100, 100)}


def test_what_is_sent_ahead_is_of_the_one_that_an_end_has_joined() -> None:
    found = shares(trace([joined((50, 100)), flows(1, (40, 100, 60))], [joined((90, 100))]))
    assert told(found) == {0: (50, 50), -1: (10, 10)}


def test_a_collective_lasts_until_the_other_end_is_ready_too() -> None:
    found = shares(trace([joined((0, 50)), flows(1, (0, 80, 80))], [joined((0, 80))]))
    assert told(found) == {0: (80, 80)}


def test_a_flow_beside_a_short_collective_is_its_own_as_far_as_its_ends_may_be_off() -> None:
    short = joined((100, 110), (500, 510))
    found = trace([short, flows(1, (100, 140, 40), (485, 495, 10), (300, 320, 20))], [short])
    assert told(shares(found)) == {0: (10, 10), -1: (60, 60)}
    assert told(collective_flows(found, reach_ns=20)) == {0: (30, 30), 1: (10, 10), -1: (30, 30)}
    assert told(collective_flows(found)).keys() == {0, 1}, "a jiffy is 4 ms"


def test_links_and_groups_are_told_apart() -> None:
    ends = [joined((0, 100)), joined((0, 100), group=3, first=7)]
    found = shares(
        trace([*ends, flows(1, (0, 100, 10)), flows(2, (0, 100, 20))], ends[:1], [*ends, flows(0, (0, 50, 4), src=2)])
    )
    rows = {(row["src"], row["dst"], row["group"], row["seq"]): float(row["nbytes"]) for row in found}
    assert rows == {
        (0, 1, -2, 0): 5, (0, 1, 3, 7): 5, (0, 2, -2, 0): 10, (0, 2, 3, 7): 10, (2, 0, -2, 0): 2, (2, 0, 3, 7): 2
    }  # fmt: skip


def test_without_flows_or_collectives_there_is_little_to_tell() -> None:
    assert len(shares(trace([joined((0, 1))], [joined((0, 1))]))) == 0
    assert told(shares(trace([flows(1, (5, 10, 7), (20, 20, 0))]))) == {-1: (7, 5)}


times = st.integers(0, 60)
intervals = st.lists(st.tuples(times, times).map(lambda pair: (min(pair), max(pair))), min_size=4, max_size=4)


@given(intervals, intervals, st.lists(st.tuples(times, st.integers(1, 9), st.integers(0, 10**6)), max_size=6))
def test_of_a_link_all_bytes_are_somebodys_or_nobodys(
    one: list[Interval], other: list[Interval], pieces: list[tuple[int, int, int]]
) -> None:
    begins = np.cumsum([start + length for start, length, _ in pieces]).tolist()
    apart = [(begin - length, begin, nbytes) for begin, (_, length, nbytes) in zip(begins, pieces, strict=True)]
    found = shares(trace([joined(*one), flows(1, *apart)], [joined(*other)]))
    assert found["nbytes"].sum() == pytest.approx(sum(nbytes for *_, nbytes in apart))
    assert found["busy_ns"].sum() == pytest.approx(sum(end - start for start, end, _ in apart))
    assert (found["nbytes"] >= -1e-6).all()
