"""What changes during a simulated run: in force at its moment, logged as a live host's agent would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_simulate import scenario, simulated

from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.run import Outcome
from e2c_dl.campaign.judge import judge
from e2c_dl.errors import E2cDlError
from e2c_dl.trace.changes import Change

COMPUTE = {"method": "sleep", "cores": 0.1}
ITERATIONS = 30


def changing(folder: Path, **sections: Any) -> ReadArchive:
    """A run of shapes alone, in which ``sections`` of emulation.yaml change something."""
    emulation = {"compute": COMPUTE, **sections}
    return simulated(scenario(folder / "small", emulation=emulation, iterations=ITERATIONS), shapes_only=True)


def faults(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"seed": 1, "faults": list(entries)}


def seconds(archive: ReadArchive) -> float:
    outcome = archive.host_outcome("edge-1")
    assert outcome is not None
    return float(outcome["seconds"])


@pytest.fixture(scope="module")
def steady_s(tmp_path_factory: pytest.TempPathFactory) -> float:
    return seconds(changing(tmp_path_factory.mktemp("steady")))


def test_a_slower_link_by_schedule_makes_the_run_longer_and_is_no_culprit(tmp_path: Path, steady_s: float) -> None:
    link = {"src": "edge-1", "dst": "edge-2", "rate": {"steps": {"0s": "50mbit", "200ms": "5mbit"}}}
    archive = changing(tmp_path, schedules={"links": [link]})
    assert seconds(archive) > 2 * steady_s
    logged = [(change.in_force_s, change.value["rate_bps"]) for change in archive.changes()]
    assert logged == [(0.0, 50e6), (0.2, 5e6)]
    assert not any(finding.material for finding in judge(archive).findings)


def test_a_window_that_begins_with_an_iteration_slows_a_host(tmp_path: Path, steady_s: float) -> None:
    slow = {"slow_host": "edge-1", "factor": 10, "at": "iteration 10", "for": "1s"}
    archive = changing(tmp_path, injected=faults(slow))
    assert seconds(archive) > steady_s + 0.5
    compute = [change for change in archive.changes() if change.what is Change.COMPUTE]
    assert [change.value["factor"] for change in compute] == [1.0, 10.0, 1.0]
    assert compute[2].in_force_s - compute[1].in_force_s == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("at", ["300ms", "iteration 5"])
def test_a_cut_holds_everybody_until_it_ends(tmp_path: Path, steady_s: float, at: str) -> None:
    cut = {"partition": [["edge.*"], ["cloud.*"]], "at": at, "for": "2s"}
    archive = changing(tmp_path, injected=faults(cut))
    assert steady_s + 1.5 < seconds(archive) < steady_s + 2.5
    down = [change for change in archive.changes() if change.what is Change.LINK and change.value["down"]]
    assert {change.whom for change in down} == {
        f"{src} -> {dst}" for edge in ("edge-1", "edge-2") for src, dst in ((edge, "cloud-1"), ("cloud-1", edge))
    }


@pytest.mark.parametrize("at", ["300ms", "iteration 5"])
def test_a_paused_host_holds_the_others(tmp_path: Path, steady_s: float, at: str) -> None:
    archive = changing(tmp_path, injected=faults({"pause": "edge-2", "at": at, "for": "2s"}))
    assert steady_s + 1.5 < seconds(archive) < steady_s + 2.5
    assert [change.what for change in archive.changes()] == [Change.PAUSE, Change.RESUME]


@pytest.mark.parametrize("at", ["300ms", "iteration 5"])
def test_a_killed_rank_ends_the_run_which_says_so(tmp_path: Path, at: str) -> None:
    with pytest.raises(E2cDlError, match="lost rank 1"):
        changing(tmp_path, injected=faults({"kill": "edge-2", "at": at}))


def test_what_cannot_be_simulated_is_said(tmp_path: Path) -> None:
    archive = changing(tmp_path, injected=faults({"clock_step": "edge-1", "by": "50ms", "at": "100ms"}))
    assert archive.run.outcome is Outcome.FINISHED
    assert any("clocks" in sentence for sentence in archive.run.could_not_honour)


def test_a_shared_uplink_is_shared(tmp_path: Path, steady_s: float) -> None:
    links = [{"src": "edge.*", "dst": "cloud.*"}, {"src": "cloud.*", "dst": "edge.*"}]
    archive = changing(tmp_path, bottlenecks=[{"name": "uplink", "rate": "10mbit", "links": links}])
    assert seconds(archive) > 2 * steady_s
    assert not any(finding.material for finding in judge(archive).findings)
