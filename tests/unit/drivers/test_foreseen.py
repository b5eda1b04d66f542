"""What links will carry is foreseen by whole cycles of a strategy, however few iterations are tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_scenario import PARAMETERS, PROFILE, scenario

from e2c_dl.drivers.virtual import foreseen
from e2c_dl.scenario.load import load

MODEL_BYTES = 4 * PARAMETERS


@pytest.mark.parametrize(
    ("strategy", "settings", "iterations", "averages"),
    [
        ("diloco", {"period": 50}, 200, 1 / 50),
        ("localsgd", {"period": 12}, 200, 1 / 12),
        ("localsgd", {"period": 12}, 18, 1 / 12),
        ("localsgd", {"period": 12}, 11, 0.0),
    ],
)
def test_what_is_sent_rarely_is_told_by_whole_periods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, settings: dict[str, int], iterations: int,
    averages: float,
) -> None:  # fmt: skip
    monkeypatch.setattr(foreseen, "MOST_TRIED", 24)  # as of many ranks
    designed = scenario(tmp_path / "s", strategy=strategy, strategy_settings=settings, iterations=iterations)
    use = foreseen.link_use(load(designed), PROFILE)
    assert len(use.bytes_per_iteration) == 3  # a ring: what it uses rarely, or in a longer run alone, is used
    assert len(use.unused) == 3
    for nbytes in use.bytes_per_iteration.values():
        assert nbytes == pytest.approx(4 / 3 * MODEL_BYTES * averages, rel=0.01)
