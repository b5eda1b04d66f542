"""Runs that broke off, compared, drawn and shown as far as all ranks came."""

from __future__ import annotations

from pathlib import Path

import pytest
import simulated_scenario
from commands import said

from e2c_dl.errors import E2cDlError


def broken_off(folder: Path, at: str) -> Path:
    """The archive of a run whose ``edge-2`` was killed ``at``."""
    emulation = {"compute": {"method": "sleep", "cores": 0.1},
                 "injected": {"seed": 1, "faults": [{"kill": "edge-2", "at": at}]}}  # fmt: skip
    killed = simulated_scenario.scenario(folder, iterations=12, emulation=emulation)
    with pytest.raises(E2cDlError, match="killed"):
        simulated_scenario.simulated(killed, shapes_only=True)
    return folder.parent / f"{folder.name}-archive"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "ring"
    return simulated_scenario.simulated(simulated_scenario.scenario(folder, iterations=12), shapes_only=True).path


def test_it_is_compared_drawn_and_shown(whole: Path, tmp_path: Path) -> None:
    killed = broken_off(tmp_path / "killed", "iteration 7")
    done = said("compare", whole, killed)
    assert done.code == 0, done.err
    shown = " ".join(done.out.split())
    assert (
        "killed-archive did not finish: figures are of the 7 iterations all finished, and it has no makespan." in shown
    )
    assert "traces are not whole, those of edge-1, edge-2, cloud-1 (broken off)" in shown
    for figure in ("states", "cdf"):
        drawn = said("plot", killed, "--figure", figure, "--out", tmp_path / "x.svg")
        assert drawn.code == 0 and "neither is the figure: edge-1, edge-2, cloud-1 (broken off)" in drawn.err
    finished, broken = ((archive / "report.html").read_text() for archive in (whole, killed))
    assert "The run lasted " in finished and "<span>run time</span>" in finished
    assert "What all ranks finished lasted " in broken and "<span>time of what all finished</span>" in broken


def test_of_several_runs_the_one_that_cannot_be_compared_is_named(whole: Path, tmp_path: Path) -> None:
    killed = broken_off(tmp_path / "killed", "0s")
    done = said("compare", whole, killed)
    assert done.code == 1 and f"{killed}: trace of " in done.err and len(done.err.splitlines()) == 1
