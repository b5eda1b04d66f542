"""What a gradient takes before training: whatever else the machine does meanwhile only ever makes it longer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from e2c_dl.drivers.live import measuring


class Trials:
    """Stands for the mathematics: gradients take what ``took_s`` says, one after the other."""

    def __init__(self, took_s: Iterator[float]) -> None:
        self._took_s = took_s
        self.count = 0

    def trial(self) -> float:
        self.count += 1
        return next(self._took_s)


@pytest.mark.parametrize(
    ("took_s", "told_s", "count"),
    [
        (repeat(0.04), 0.04, measuring.MORE_TRIALS),
        (chain([0.09, 0.08], repeat(0.04)), 0.04, 23),  # met others at first
        (repeat(0.4), 0.4, measuring.TRIALS),  # none of them is over soon
        (repeat(9.0), 9.0, 1),
    ],
)
def test_a_gradient_is_told_by_those_that_met_nothing(took_s: Iterator[float], told_s: float, count: int) -> None:
    trials: Any = Trials(took_s)
    assert measuring._tried(trials) == told_s
    assert trials.count == count
