"""A host alone of its kind, whose speed changes by design: what departs does so whether a part follows that or not."""

from __future__ import annotations

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.host_series import HostSeries
from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.series import Series
from e2c_dl.diagnosis.model import Part

COUNT, FACTOR = 30, 1.6
SLOWER_BY_DESIGN, LAST_THIRD = slice(5, 15), slice(20, COUNT)


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("slowdown", [1.0, 3.0])
def test_what_is_slower_than_either_explains_departs(follows: bool, slowdown: float) -> None:
    factors, spent_s = np.ones(COUNT), 0.005 * np.random.default_rng(3).normal(1.0, 0.05, COUNT)
    factors[SLOWER_BY_DESIGN] = FACTOR
    spent_s = spent_s * (factors if follows else 1.0)
    spent_s[LAST_THIRD] *= slowdown
    series = Series(
        values=np.log(spent_s), iterations=np.arange(COUNT), begins_s=np.arange(COUNT) * 0.1, until_s=3.0,
        spent_s=spent_s,
    )  # fmt: skip
    each = HostSeries(host="edge-1", part=Part.DATA, series=series, factors=factors, spans=1)
    (plain,) = levelled([series], turns=True)
    (told,) = levelled([each.at_least(plain)], turns=True)
    departs = told.judged(told.base).windows
    assert departs[LAST_THIRD].all() == (slowdown > 1)
    assert not departs[: LAST_THIRD.start].any(), "where it may be by design"
