"""What a bottleneck leaves its links over time, of many links and long runs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.shown import sharing
from e2c_dl.diagnosis.shown.sharing import Busy, left_for
from e2c_dl.topology import Pair


def busy_links(links: int, messages: int) -> dict[Pair, Busy]:
    draw = np.random.default_rng(0)
    begins_s = np.sort(draw.uniform(0, 100, (links, messages)), axis=1)
    return {(f"edge-{link}", "cloud"): (begins_s[link], begins_s[link] + 0.1) for link in range(links)}


def test_of_many_links_little_more_is_held_at_once_than_what_comes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "AT_ONCE", 20_000)
    busy = busy_links(80, 80)
    own, capacity = {pair: Piecewise.constant(1e7) for pair in busy}, Piecewise.constant(1e8)
    tracemalloc.start()
    left = left_for(own, busy, capacity)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    told = sum(each.starts_s.nbytes + each.values.nbytes for each in left.values())
    assert most < 1.5 * told


@pytest.mark.parametrize("at_once", [1, 40, 1000])
def test_what_is_left_does_not_hang_on_how_many_moments_are_looked_at_together(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = busy_links(12, 20)
    own = {pair: Piecewise.constant(rate) for pair, rate in zip(busy, (1e6, 4e6, 4e6, 3e7), strict=False)}
    capacity = Piecewise(starts_s=np.array([0.0, 50.0]), values=np.array([1e7, 2e6]))
    expected = left_for(own, busy, capacity)
    monkeypatch.setattr(sharing, "AT_ONCE", at_once)
    assert left_for(own, busy, capacity) == expected
    assert all((np.diff(each.values) != 0).all() for each in expected.values())
