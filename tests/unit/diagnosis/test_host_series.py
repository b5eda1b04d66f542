"""Series of hosts: what departs of one whose speed changes by design, and by how much what is uneven departs."""

from __future__ import annotations

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.host_series import HostSeries, usual_s
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


def test_what_is_uneven_departs_by_what_slows_it_and_not_by_its_noise() -> None:
    count, slowdown = 4000, 1.2
    spent_s = np.exp(np.random.default_rng(3).normal(0.0, 0.15, count)) * slowdown  # mean 1.011 x its median
    series = Series(
        values=np.log(spent_s), iterations=np.arange(count), begins_s=np.arange(count) * 0.1, until_s=count * 0.1,
        spent_s=spent_s,
    )  # fmt: skip
    (one,) = levelled([series])
    judged = one.judged(0.0)  # the median, in the logarithm, of peers that are as uneven
    assert judged.slowdown == pytest.approx(slowdown, rel=0.003)
    assert judged.excess_s == pytest.approx(spent_s.sum() * (1 - 1 / slowdown), rel=0.02)


def test_what_an_iteration_takes_is_told_by_those_that_a_rank_did_not_skip() -> None:
    assert usual_s(np.array([0.0, 0.3, 0.0, 0.0, 0.5, 0.4])) == pytest.approx(0.4)
    assert usual_s(np.zeros(4)) == 0.0
