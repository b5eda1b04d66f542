"""How long iterations take, in words: one kind, two kinds, and ranks that go at their own pace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2c_dl.report import words
from tests.sample_report import activity, report


@pytest.mark.parametrize(
    ("iteration_s", "rounds", "says"),
    [
        (0.5, 1, "500 ms each (median)"),
        (0.48, 8, "480 ms each (median)"),
        (0.25, 1, "500 ms each (median 250 ms)"),
        (0.25, 4, "500 ms each (median 250 ms), 2.00 s per round of 4"),
        (0.0, 4, "0 s each (median)"),
    ],
)
def test_the_mean_stands_beside_a_median_that_it_contradicts(iteration_s: float, rounds: int, says: str) -> None:
    made = report(activity())
    run_s = 0.5 * made.iterations
    assert words.pace(replace(made, run_s=run_s, iteration_s=iteration_s, round_iterations=rounds)) == says


def test_ranks_at_their_own_pace_have_a_median_alone() -> None:
    made = report(activity())
    ahead = tuple(replace(host, iterations=made.iterations + rank) for rank, host in enumerate(made.hosts))
    assert words.pace(replace(made, run_s=1000.0, iteration_s=0.1, hosts=ahead)) == (
        "100 ms each (median of the slowest)"
    )
