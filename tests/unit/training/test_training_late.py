"""Batches that come later and steps that take longer, around whatever mathematics."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from e2c_dl.errors import TrainingError
from e2c_dl.scenario.model import FaultKind
from e2c_dl.strategies.base import Evaluation, OnSegment
from e2c_dl.trace.model import Phase
from e2c_dl.training.late import LateCompute

MS = 1_000_000


class Quick:
    """Mathematics that take no time."""

    def __init__(self) -> None:
        self.parameters, self.gradients = np.zeros(4), np.ones(4)
        self.buckets, self.tensor_shapes = (slice(0, 4),), ()
        self.steps = 0

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        now_ns = time.monotonic_ns()
        for phase, bucket in ((Phase.DATA, -1), (Phase.FORWARD, -1), (Phase.BACKWARD, 0)):
            on_segment(phase, bucket, now_ns, now_ns)
        return 0.5 + iteration + samples

    def step(self) -> None:
        self.steps += 1

    def evaluate(self) -> Evaluation:
        return Evaluation(loss=1.0, accuracy=0.5)


def test_data_begin_before_they_are_late_and_all_else_is_as_it_was() -> None:
    quick = Quick()
    late = LateCompute(quick, lambda kind: 0.03 if kind is FaultKind.LATE_DATA else 0.0)
    seen: list[tuple[Phase, int, int]] = []
    begin_ns = time.monotonic_ns()
    loss = late.gradient(3, 16, lambda phase, _, start_ns, end_ns: seen.append((phase, start_ns, end_ns)))
    assert loss == 19.5
    assert [phase for phase, *_ in seen] == [Phase.DATA, Phase.FORWARD, Phase.BACKWARD]
    (_, start_ns, end_ns), *others = seen
    assert end_ns - start_ns >= 30 * MS and start_ns - begin_ns < 20 * MS
    assert all(start == end for _, start, end in others)
    late.step()
    assert (quick.steps, late.evaluate().accuracy) == (1, 0.5)
    assert late.parameters is quick.parameters and late.gradients is quick.gradients
    assert (late.buckets, late.tensor_shapes) == (quick.buckets, quick.tensor_shapes)


def test_steps_take_that_much_longer() -> None:
    quick = Quick()
    late = LateCompute(quick, lambda kind: 0.03 if kind is FaultKind.LATE_STEP else 0.0)
    begin_ns = time.monotonic_ns()
    late.step()
    assert time.monotonic_ns() - begin_ns >= 30 * MS
    assert quick.steps == 1


def test_who_is_late_for_long_can_be_stopped() -> None:
    late = LateCompute(Quick(), lambda _: 3600.0)
    threading.Timer(0.05, late.stop).start()
    with pytest.raises(TrainingError, match="was stopped while"):
        late.gradient(0, 1, lambda *_: None)
    with pytest.raises(TrainingError):  # and so is whatever is late after that
        late.step()
