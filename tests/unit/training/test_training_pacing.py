"""Pacing: deadlines from calibrated times, for batches of any size."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.errors import TrainingError
from e2c_dl.training.pacing import Pacing, SegmentTimes, segment_times, typical


def test_pacing_holds_each_segment_until_its_end() -> None:
    pacing = Pacing(0.5)
    pacing.calibrated(SegmentTimes(samples=8, seconds=(0.002, 0.003), fixed=(0.0, 0.0)))
    begin_ns = time.monotonic_ns()
    gradient = pacing.gradient(begin_ns, 8)
    gradient.segment(0)
    assert time.monotonic_ns() >= begin_ns + 4_000_000
    gradient.segment(1)
    assert time.monotonic_ns() >= begin_ns + 10_000_000
    pacing.once(begin_ns, 6_000_000)
    assert time.monotonic_ns() >= begin_ns + 12_000_000
    pacing.stop()
    with pytest.raises(TrainingError, match="stopped"):
        gradient.segment(1)


def test_a_host_of_its_own_speed_is_not_paced() -> None:
    pacing = Pacing()
    pacing.calibrated(SegmentTimes(samples=8, seconds=(100.0,), fixed=(0.0,)))
    pacing.gradient(0, 8).segment(0)
    pacing.once(time.monotonic_ns(), 10**12)


@given(
    samples=st.integers(2, 200), other=st.integers(1, 400),
    lines=st.lists(st.tuples(st.floats(0, 1), st.floats(1e-6, 1)), min_size=1, max_size=5),
)  # fmt: skip
def test_times_of_other_batches_lie_on_the_line_through_two_measured(
    samples: int, other: int, lines: list[tuple[float, float]]
) -> None:
    def at(count: int) -> list[float]:
        return [fixed + each * count for fixed, each in lines]

    times = segment_times(samples, at(samples), samples // 2, at(samples // 2))
    ends = times.deadlines_s(other)
    assert ends[-1] == pytest.approx(sum(at(other)), rel=1e-6)
    assert times.deadlines_s(samples)[0] == pytest.approx(at(samples)[0])
    assert times.agreed([2.0] * len(lines)).deadlines_s(samples)[0] == pytest.approx(2.0)


def test_noise_cannot_make_times_fall_with_the_batch() -> None:
    times = segment_times(8, [1.0, 0.0], 4, [1.1, 0.1])
    assert times.fixed == (1.0, 0.0)


@pytest.mark.parametrize("speed", [0.0, -1.0, 1.5])
def test_impossible_speeds_are_refused(speed: float) -> None:
    with pytest.raises(TrainingError, match="speed"):
        Pacing(speed)


def test_the_typical_segment_is_not_what_interruptions_made_of_it() -> None:
    assert typical([[1.0, 2.0]] * 8 + [[9.0, 9.0]] * 4) == (1.0, 2.0)
