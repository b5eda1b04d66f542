"""What is predicted of a run whose clocks are wrong: nothing, in one line."""

from dataclasses import replace
from pathlib import Path

import pytest
import simulated_scenario

from e2c_dl.campaign.predicting.measured import MeasuredRun
from e2c_dl.diagnosis.diagnose import read_run
from e2c_dl.errors import AnalysisError


def test_a_run_whose_messages_arrive_before_they_are_sent_is_refused(tmp_path: Path) -> None:
    archive = simulated_scenario.simulated(simulated_scenario.scenario(tmp_path / "s"), shapes_only=True)
    trace, scenario, reference = read_run(archive)
    assert MeasuredRun.of(archive, (trace, scenario, reference)).observed.mistimed_s == 0
    spans = trace.ranks[1].spans.copy()
    for name in ("posted_ns", "start_ns", "end_ns"):
        spans[name] += 10**9
    ahead = replace(trace, ranks=(trace.ranks[0], replace(trace.ranks[1], spans=spans), *trace.ranks[2:]))
    with pytest.raises(AnalysisError, match=r"messages arrive up to .* before they are sent.*e2c-dl report says whose"):
        MeasuredRun.of(archive, (ahead, scenario, reference))
