"""The comparison of the two worlds: no strategy is left out, and each of its scenarios simulates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.agreement import cases, virtual
from e2c_dl import strategies
from e2c_dl.worlds.virtual import ComputeProfile

PROFILE = Path(__file__).parents[3] / "experiments" / "first-light" / "profile.json"
SYSTEMS = {case.algorithm.strategy: case for case in cases.CASES if case.kind == "systems"}


def test_every_strategy_is_compared() -> None:
    assert {case.algorithm.strategy for case in cases.CASES} == set(strategies.names())


@pytest.mark.parametrize("strategy", sorted(SYSTEMS))
def test_systems_simulate(strategy: str, tmp_path: Path) -> None:
    case = replace(SYSTEMS[strategy], iterations=6)
    scenario = cases.write(tmp_path / "s", case, ComputeProfile.from_json(PROFILE.read_text()))
    trace = virtual.train(scenario, seed=1)
    assert [rank.complete for rank in trace.ranks] == [True] * 4
