"""Deadlines follow what they are for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.worlds.deadlines import FACTORS, LEAST, LEAST_MAD, WINDOW, Deadline, cost_s


def observed(durations_s: list[float]) -> float | None:
    deadline = Deadline()
    for duration_s in durations_s:
        if np.isinf(duration_s):
            deadline.never()
        else:
            deadline.came(duration_s)
    return deadline.seconds


def test_nothing_is_known_at_first() -> None:
    deadline = Deadline(first_s=7.0)
    for _ in range(LEAST - 1):
        deadline.came(1.0)
        assert deadline.seconds == 7.0
    deadline.came(1.0)
    assert deadline.seconds == pytest.approx(1.0 + FACTORS[1] * LEAST_MAD)
    assert Deadline().seconds is None


def test_median_and_deviation_and_the_cheapest_factor() -> None:
    quick = [9.0, 10.0, 11.0, 10.0, 12.0, 8.0, 10.0, 10.0, 11.0, 9.0]  # median 10, MAD 1
    assert observed(quick) == 10.0 + FACTORS[1]
    assert observed([*quick, 20.0]) == 10.0 + FACTORS[5]  # 10 + 12 is the first to reach it, then the next factor
    assert observed([*quick, np.inf]) == 10.0 + FACTORS[1]  # what never comes is no reason to wait longer


def test_what_came_late_counts_from_when_it_was_first_waited_for() -> None:
    patient, hasty = Deadline(), Deadline()
    for _ in range(LEAST):
        patient.came(3.0)
        hasty.gave_up(1.0)
        hasty.gave_up(1.5)
        hasty.came(0.5)
    assert patient.seconds == hasty.seconds


@given(old=st.lists(st.floats(0.001, 1e3), max_size=300), new=st.floats(0.001, 1e3))
def test_what_is_out_of_the_window_is_forgotten(old: list[float], new: float) -> None:
    assert observed([*old, *[new] * WINDOW]) == observed([new] * WINDOW)


@given(durations_s=st.lists(st.floats(0.001, 1e3), min_size=LEAST, max_size=WINDOW))
def test_it_is_never_below_the_median(durations_s: list[float]) -> None:
    deadline_s = observed(durations_s)
    assert deadline_s is not None
    assert deadline_s >= np.median(durations_s)


def test_costs() -> None:
    assert cost_s(np.array([1.0, 2.0, 5.0, np.inf]), 2.0, 10.0) == 1.0 + 2.0 + (2.0 + 10.0) + 2.0
