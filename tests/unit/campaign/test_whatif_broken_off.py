"""What is predicted of runs whose traces break off, or lack something: as much as the report says of the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from simulated_scenario import scenario, simulated
from test_whatif_command import INJECTED, PROFILE

from e2c_dl.archive.read import ReadArchive
from e2c_dl.campaign.predicting.measured import MeasuredRun
from e2c_dl.campaign.predicting.whatif import Answer, predict
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.diagnose import ReadRun, read_run
from e2c_dl.scenario.what_if import Changed
from e2c_dl.trace.model import Phase, RankTrace

FASTER = Changed(speeds={"edge-2": 3.0}, links={}, without=())


def run_of(folder: Path, strategy: str, cut: Callable[[RankTrace], RankTrace]) -> tuple[ReadArchive, ReadRun]:
    """A run in which edge-2 is three times slower, ranks as ``cut`` leaves them."""
    asked = {"strategy": strategy, "iterations": 24}
    archive = simulated(scenario(folder, emulation=INJECTED, profile=PROFILE.to_json(), **asked), shapes_only=True)
    trace, known, reference = read_run(archive)
    return archive, (replace(trace, ranks=tuple(map(cut, trace.ranks))), known, reference)


def predicted(archive: ReadArchive, run: ReadRun) -> Answer:
    return predict(MeasuredRun.of(archive, run), FASTER, lambda _: None)


@pytest.mark.parametrize("strategy", ["adpsgd", "asyncparameterserver"])
def test_of_ranks_at_their_own_pace_that_broke_off_it_is_what_the_report_says(tmp_path: Path, strategy: str) -> None:
    """All of them end where the trace does, whoever is faster: by the last one's end nothing would be saved."""

    def broken(rank: RankTrace) -> RankTrace:
        kept = (rank.spans["end_ns"] <= 2_500_000_000) & (rank.spans["phase"] != Phase.TRAINING)
        return replace(rank, spans=np.asarray(rank.spans[kept]), complete=False)

    archive, run = run_of(tmp_path / "s", strategy, broken)
    report = analyse(run[0], run[2])
    (slow,) = (each for each in report.culprits if str(each.element) == "edge-2")
    answer = predicted(archive, run)
    assert answer.prediction.measured_s == report.run_s
    assert answer.prediction.measured_s - answer.prediction.predicted_s == pytest.approx(
        slow.saved_s, rel=0.1
    )  # it also takes its steps
    assert "replayed as far as each rank came" in answer.limitations[0]


def test_a_trace_that_lacks_iterations_does_not_end_early(tmp_path: Path) -> None:
    def torn(rank: RankTrace) -> RankTrace:
        lost = (rank.spans["iteration"] >= 8) & (rank.spans["iteration"] < 12) & (rank.rank == 0)
        return replace(rank, spans=np.asarray(rank.spans[~lost]))

    answer = predicted(*run_of(tmp_path / "s", "allreduce", torn))
    assert "its trace of edge-1 lacks iterations before its last; replayed as far as all ranks" in answer.limitations[0]
