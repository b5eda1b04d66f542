"""Counters of connections: they wrap, and of two looks at one time the later may have been taken first."""

from __future__ import annotations

import numpy as np
import pytest

from e2c_dl.trace.propagation.counters import _rising


@pytest.mark.parametrize("kind", ["u4", "u8"])
def test_looks_that_are_out_of_order_count_nothing(kind: str) -> None:
    assert _rising(np.array([10.0, 15.0, 12.0, 20.0]), kind).tolist() == [0, 5, 5, 10]


def test_one_that_wraps_goes_on() -> None:
    assert _rising(np.array([2.0**32 - 10, 5.0, 3.0, 9.0]), "u4").tolist() == [0, 15, 15, 19]
