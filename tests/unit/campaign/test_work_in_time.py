"""Where time ends a training, what departs costs work: the report tells the time that as much training would take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from simulated_scenario import PROFILE, scenario, simulated

from e2c_dl.archive.read import ReadArchive
from e2c_dl.diagnosis.diagnose import read_report
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import GradientTimes

SECONDS = 12
FAST = replace(PROFILE, gradients={16: GradientTimes(data_s=1e-4, forward_s=0.003, backward_s=(0.006,))})


def trained(folder: Path, strategy: str, slow: float) -> ReadArchive:
    injected = {"injected": {"seed": 1, "compute": [{"host": "edge-2", "factor": slow}]}} if slow > 1 else {}
    made = scenario(
        folder, emulation={"compute": {"method": "sleep", "cores": 0.1}, **injected}, profile=FAST.to_json(),
        strategy=strategy, iterations=None, seconds=SECONDS, evaluate_every=0,
    )  # fmt: skip
    return simulated(made, shapes_only=True)


def iterations(archive: ReadArchive) -> int:
    return sum(len(rank.rows(Phase.ITERATION)) for rank in archive.trace().ranks)


@pytest.mark.parametrize("strategy", ["adpsgd", "allreduce"])
def test_a_slow_host_costs_the_time_that_its_work_would_have_taken_less(tmp_path: Path, strategy: str) -> None:
    slow, healthy = trained(tmp_path / "slow", strategy, 4.0), trained(tmp_path / "healthy", strategy, 1.0)
    assert not read_report(healthy).culprits
    report = read_report(slow)
    (culprit,) = report.culprits
    assert culprit.element.src == "edge-2"
    saved = 1 - iterations(slow) / iterations(healthy)
    assert culprit.saved_s / report.run_s == pytest.approx(saved, abs=0.04)
    assert any("Time ended this training" in each for each in report.limitations)
