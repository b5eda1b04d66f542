"""What links will carry is foreseen by whole cycles of a strategy, however few iterations are tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_scenario import PARAMETERS, PROFILE, scenario

from e2c_dl.drivers.virtual import foreseen
from e2c_dl.scenario.load import load
from e2c_dl.worlds.virtual import simulate

MODEL_BYTES = 4 * PARAMETERS


def test_many_links_are_tried_in_fewer_iterations_and_without_slow_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    designed = load(scenario(tmp_path / "s", strategy="dlion", iterations=200))
    few = foreseen.link_use(designed, PROFILE).bytes_per_iteration
    monkeypatch.setattr(foreseen, "MANY_LINKS", 3)
    monkeypatch.setattr(foreseen, "MOST_SENT", 60)  # ten times each link
    models = []
    monkeypatch.setattr(foreseen, "simulate", lambda *args, **more: (models.append(more), simulate(*args, **more))[1])
    many = foreseen.link_use(designed, PROFILE).bytes_per_iteration
    assert many == pytest.approx(few, rel=0.2)
    (tried,) = models
    assert tried["iterations"] == 10
    assert all(link.tcp is None for link in tried["links"].values())


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
