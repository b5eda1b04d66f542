"""Heat tells which host and which link was slow in which iteration, and against what."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from synthetic import Ring, simulate

from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.shown.heat import Heat, heat_of
from e2c_dl.report.page.heat import SHADES, shaded, worst
from e2c_dl.topology import Link

LINK = Link(rate_bps=40e6, delay_s=0.002)


def heat(ring: Ring, **changes: object) -> Heat:
    return heat_of(observe(simulate(ring), ring.reference(**changes)))


def row(shown: Heat, name: str) -> list[float]:
    names = [str(element) for element in shown.elements]
    return shown.slowdown[names.index(name)][2:].tolist()


def test_a_run_as_designed_is_as_expected_everywhere() -> None:
    shown = heat(Ring(compute_s=(0.05, 0.1, 0.05), links=(LINK,) * 3, bucket_bytes=(200_000,)))
    assert [str(element) for element in shown.elements][:4] == ["edge-1", "edge-2", "edge-3", "edge-1 -> edge-2"]
    assert shown.slowdown == pytest.approx(1.0, abs=0.1)
    assert all(shown.by_design)
    assert (np.diff(shown.start_s) > 0).all()
    assert (shown.end_s > shown.start_s).all()


def test_a_slow_host_and_a_slow_link_are_as_many_times_slower() -> None:
    slow = {"slow_hosts": {1: 3.0}, "slow_links": {2: 0.25}}
    shown = heat(Ring(compute_s=(0.05,) * 4, links=(LINK,) * 4, bucket_bytes=(200_000,), **slow))
    assert row(shown, "edge-2") == pytest.approx([3.0] * 10, rel=0.1)
    assert row(shown, "edge-3 -> edge-4") == pytest.approx([4.0] * 10, rel=0.15)  # its delay is as designed
    assert row(shown, "edge-1 -> edge-2") == pytest.approx([1.0] * 10, rel=0.1)


def test_where_nothing_is_designed_a_row_is_against_its_own_median() -> None:
    ring = Ring(compute_s=(0.05, 0.05), links=(LINK,) * 2, bucket_bytes=(200_000,), slow_hosts={1: 3.0})
    shown = heat(ring, network_emulated=False)
    assert not any(shown.by_design)  # of two hosts neither tells which is slow
    assert row(shown, "edge-2") == pytest.approx([1.0] * 10, rel=0.05)
    assert row(shown, "edge-2 -> edge-1") == pytest.approx([1.0] * 10, rel=0.1)


def test_an_iteration_without_messages_is_unknown() -> None:
    ring = Ring(compute_s=(0.05,) * 3, links=(LINK,) * 3, bucket_bytes=(200_000,))
    observed = observe(simulate(ring), ring.reference())
    links = (replace(link, rows=link.rows[link.rows["iteration"] != 5]) for link in observed.carried)
    shown = heat_of(replace(observed, carried=tuple(links)))
    assert np.isnan(shown.slowdown[3:, 5]).all()
    assert np.isfinite(shown.slowdown[:3, 5]).all()


def test_a_column_of_several_iterations_is_the_worst_of_them() -> None:
    found = worst(np.array([[1.0, math.nan, 5.0, 1.1], [math.nan, math.nan, math.nan, 2.0]]), np.array([0, 2]))
    assert found[0].tolist() == [1.0, 5.0]
    assert math.isnan(found[1, 0])
    assert found[1, 1] == 2.0


def test_shades_rise_with_the_slow_down_and_end_at_the_scale() -> None:
    shades = shaded(np.array([math.nan, 0.1, 0.5, 1.0, 2.0, 32.0, 1e9]))
    assert shades.tolist() == [0, 1, 1, *shades[3:5].tolist(), SHADES + 1, SHADES + 1]
    assert 1 < shades[3] < shades[4] < SHADES
