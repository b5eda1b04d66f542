"""What changes during a simulated run: in force at its moment, logged as a live host's agent would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulated_scenario import scenario, simulated

from e2c_dl.archive.read import ReadArchive, host_records, open_archive
from e2c_dl.archive.records import Cause
from e2c_dl.archive.run import Outcome
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.diagnose import diagnose, read_run, retraining_of
from e2c_dl.drivers.virtual.changes import RunChanges
from e2c_dl.drivers.virtual.hosts import records
from e2c_dl.errors import E2cDlError, TrainingError
from e2c_dl.scenario.load import load
from e2c_dl.trace.changes import Change, read_changes
from e2c_dl.trace.model import ClockAlignment, Phase

COMPUTE = {"method": "sleep", "cores": 0.1}
ITERATIONS = 30


def changing(folder: Path, **sections: Any) -> ReadArchive:
    """A run of shapes alone, in which ``sections`` of emulation.yaml change something."""
    emulation = {"compute": COMPUTE, **sections}
    return simulated(scenario(folder / "small", emulation=emulation, iterations=ITERATIONS), shapes_only=True)


def faults(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"seed": 1, "faults": list(entries)}


def seconds(archive: ReadArchive) -> float:
    outcome = archive.host("edge-1").outcome()
    assert outcome is not None
    return float(outcome.seconds)


@pytest.fixture(scope="module")
def steady_s(tmp_path_factory: pytest.TempPathFactory) -> float:
    return seconds(changing(tmp_path_factory.mktemp("steady")))


def test_a_slower_link_by_schedule_makes_the_run_longer_and_is_no_culprit(tmp_path: Path, steady_s: float) -> None:
    link = {"src": "edge-1", "dst": "edge-2", "rate": {"steps": {"0s": "50mbit", "200ms": "5mbit"}}}
    archive = changing(tmp_path, schedules={"links": [link]})
    assert seconds(archive) > 2 * steady_s
    logged = [(change.in_force_s, change.value["rate_bps"]) for change in archive.changes()]
    assert logged == [(0.0, 50e6), (0.2, 5e6)]
    assert not any(finding.material for finding in diagnose(archive).report.findings)


def test_a_window_that_begins_with_an_iteration_slows_a_host(tmp_path: Path, steady_s: float) -> None:
    slow = {"slow_host": "edge-1", "factor": 10, "at": "iteration 10", "for": "1s"}
    archive = changing(tmp_path, injected=faults(slow))
    assert seconds(archive) > steady_s + 0.5
    compute = [change for change in archive.changes() if change.what is Change.COMPUTE]
    assert [change.value["factor"] for change in compute] == [1.0, 10.0, 1.0]
    assert compute[2].in_force_s - compute[1].in_force_s == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("at", ["0s", "iteration 10"])
@pytest.mark.parametrize(("fault", "phase"), [("late_data", Phase.DATA), ("late_step", Phase.STEP)])
def test_what_is_late_on_one_host_takes_that_much_longer_and_is_named(
    tmp_path: Path, steady_s: float, fault: str, phase: Phase, at: str
) -> None:
    archive = changing(tmp_path, injected=faults({fault: "edge-1", "delay": "200ms", "at": at}))
    late = ITERATIONS - (10 if at == "iteration 10" else 0)
    assert seconds(archive) == pytest.approx(steady_s + 0.2 * late, rel=0.02)
    spans = archive.trace().ranks[0].spans
    own = spans[spans["phase"] == phase]
    took_s = (own["end_ns"] - own["start_ns"]) / 1e9
    assert int((took_s > 0.2).sum()) == late
    (change,) = [each for each in archive.changes() if each.what in (Change.DATA, Change.STEP)]
    asked = 10 if at == "iteration 10" else None
    assert (change.whom, change.value, change.asked_iteration) == ("edge-1", {"later_s": 0.2}, asked)
    report = diagnose(archive).report
    assert [str(finding.element) for finding in report.findings if finding.material] == ["edge-1"]


def test_links_that_are_late_or_lose_are_named_as_that(tmp_path: Path, steady_s: float) -> None:
    for fault, said in (("late_link", {"delay": "100ms"}), ("lossy_link", {"loss": "8%"})):
        link = {"src": "edge-1", "dst": "edge-2"}
        archive = changing(tmp_path / fault, injected=faults({fault: link, **said, "at": "0s"}))
        assert seconds(archive) > 1.2 * steady_s
        found = [each for each in diagnose(archive).report.findings if each.material]
        assert [str(each.element) for each in found] == ["edge-1 -> edge-2"]
        assert ("delay" if fault == "late_link" else "loss") in found[0].part.value


@pytest.mark.parametrize("at", ["300ms", "iteration 5"])
def test_a_cut_holds_everybody_until_it_ends(tmp_path: Path, steady_s: float, at: str) -> None:
    cut = {"partition": [["edge.*"], ["cloud.*"]], "at": at, "for": "2s"}
    archive = changing(tmp_path, injected=faults(cut))
    assert steady_s + 1.5 < seconds(archive) < steady_s + 4.0  # TCP waits as long again as it has, 4 s at most
    down = [change for change in archive.changes() if change.what is Change.LINK and change.value["down"]]
    assert {change.whom for change in down} == {
        f"{src} -> {dst}" for edge in ("edge-1", "edge-2") for src, dst in ((edge, "cloud-1"), ("cloud-1", edge))
    }


@pytest.mark.parametrize("at", ["300ms", "iteration 5"])
def test_a_paused_host_holds_the_others(tmp_path: Path, steady_s: float, at: str) -> None:
    archive = changing(tmp_path, injected=faults({"pause": "edge-2", "at": at, "for": "2s"}))
    assert steady_s + 1.5 < seconds(archive) < steady_s + 2.5
    assert [change.what for change in archive.changes()] == [Change.PAUSE, Change.RESUME]


def stalled(archive: ReadArchive) -> dict[str, float]:
    """What stalled -> for how many seconds, as the diagnosis says."""
    found = diagnose(archive).report.findings
    return {str(finding.element): finding.stalled_s for finding in found if finding.material and finding.stalled_s}


def test_a_cut_link_is_named_as_one_that_stalled(tmp_path: Path) -> None:
    found = stalled(
        changing(tmp_path, injected=faults({"cut": [{"src": "edge-1", "dst": "edge-2"}], "at": "1s", "for": "3s"}))
    )
    assert found == {"edge-1 -> edge-2": pytest.approx(3.0, abs=3.0)}  # TCP waits as long again


def test_a_paused_host_is_named_and_not_the_links_to_it(tmp_path: Path) -> None:
    found = stalled(changing(tmp_path, injected=faults({"pause": "edge-2", "at": "1s", "for": "4s"})))
    assert found == {"edge-2": pytest.approx(4.0, abs=0.5)}


def test_a_host_is_seen_once_a_second_as_long_as_it_runs(tmp_path: Path) -> None:
    happened(tmp_path, 6.5, pause("1500ms", "3s"))
    seen = host_records(tmp_path, "edge-1").seen()["time_ns"]
    assert (seen / 1e9).tolist() == [0.0, 1.0, 4.5, 5.5, 6.5]


@pytest.mark.parametrize("at", ["300ms", "iteration 5"])
def test_a_killed_rank_ends_the_run_which_says_so(tmp_path: Path, at: str) -> None:
    with pytest.raises(E2cDlError, match="lost rank 1"):
        changing(tmp_path, injected=faults({"kill": "edge-2", "at": at}))
    made = open_archive(tmp_path / "small-archive").changes()
    asked = (0.3, None) if at == "300ms" else (None, 5)
    assert [(change.what, change.whom, change.asked_s, change.asked_iteration) for change in made] == [
        (Change.KILL, "edge-2", *asked)
    ]


def test_a_kill_ends_the_run_as_live_though_no_rank_waits_for_the_one_that_was_killed(tmp_path: Path) -> None:
    emulation = {"compute": COMPUTE, "injected": faults({"kill": "edge-2", "at": "300ms"})}
    asked = scenario(tmp_path / "small", emulation=emulation, iterations=ITERATIONS, strategy="asyncparameterserver")
    with pytest.raises(TrainingError, match=r"lost rank 1 \(edge-2\): its process was killed"):
        simulated(asked, shapes_only=True)
    archive = open_archive(tmp_path / "small-archive")
    assert archive.run.outcome is Outcome.FAILED
    assert {host: end and end.cause for host, end in archive.outcomes(["cloud-1", "edge-1", "edge-2"]).items()} == {
        "cloud-1": Cause.LOST_PEER, "edge-1": Cause.LOST_PEER, "edge-2": None,
    }  # fmt: skip
    left = archive.host("edge-1").outcome()
    assert left is not None and (left.origin, left.iterations_done < ITERATIONS) == (1, True)
    assert 0.2 < left.seconds <= 0.3


def test_a_cut_for_good_of_a_link_that_never_stops_changing_ends_the_run(tmp_path: Path) -> None:
    link = {"src": "edge-1", "dst": "*.*", "rate": {"steps": {"0s": "50mbit", "10ms": "40mbit"}, "period": "20ms"}}
    access = {"name": "uplink", "rate": {"steps": {"0s": "90mbit", "10ms": "80mbit"}, "period": "20ms"}}
    shared = [{"name": "uplink", "rate": "90mbit", "links": [{"src": "edge.*", "dst": "cloud.*"}]}]
    cut = {"cut": [{"src": "edge-1", "dst": "*.*"}], "at": "105ms"}
    with pytest.raises(E2cDlError, match=r"lost rank \d: it gave no sign of life for 20 s"):
        changing(
            tmp_path, schedules={"links": [link], "bottlenecks": [access]}, bottlenecks=shared, injected=faults(cut)
        )
    made = [change for change in open_archive(tmp_path / "small-archive").changes() if change.what is Change.LINK]
    assert {(change.in_force_s, change.value["down"]) for change in made if change.in_force_s > 0.1} == {(0.105, True)}


def happened(folder: Path, end_s: float, *entries: dict[str, Any], began: tuple[int, float] = (1, 0)) -> list[Any]:
    """(what, when in s, asked with which iteration) of hosts until ``end_s``; an iteration of rank 0 ``began``."""
    asked = scenario(
        folder / "small", emulation={"compute": COMPUTE, "injected": faults(*entries)}, iterations=ITERATIONS
    )
    loaded = load(asked)
    records(folder, loaded)
    dynamics = RunChanges(loaded, folder)
    dynamics.on_iteration(0, began[0], round(began[1] * 1e9))
    dynamics.conclude(round(end_s * 1e9))
    changes = read_changes(folder / "hosts" / "edge-1" / "changes.jsonl", ClockAlignment())
    return [(change.what, change.in_force_s, change.asked_iteration) for change in changes]


def pause(at: str, length: str) -> dict[str, Any]:
    return {"pause": "edge-1", "at": at, "for": length}


def test_pauses_that_overlap_are_logged_as_one(tmp_path: Path) -> None:
    made = happened(tmp_path, 9.0, pause("1s", "3s"), pause("2s", "4s"), pause("7s", "1s"), pause("8500ms", "1s"))
    assert made == [
        (Change.PAUSE, 1.0, None), (Change.RESUME, 6.0, None), (Change.PAUSE, 7.0, None), (Change.RESUME, 8.0, None),
        (Change.PAUSE, 8.5, None),
    ]  # fmt: skip


def test_of_pauses_with_one_iteration_the_longest_counts(tmp_path: Path) -> None:
    made = happened(tmp_path, 9.0, pause("iteration 5", "5s"), pause("iteration 5", "1s"), began=(5, 2.0))
    assert made == [(Change.PAUSE, 2.0, 5), (Change.RESUME, 7.0, None)]


def test_the_longest_pause_is_in_force(tmp_path: Path, steady_s: float) -> None:
    both = faults(pause("iteration 5", "2s"), pause("iteration 5", "1s"))
    assert steady_s + 1.5 < seconds(changing(tmp_path, injected=both)) < steady_s + 2.5


def test_nothing_happens_to_a_process_after_it_was_killed(tmp_path: Path) -> None:
    kill = {"kill": "edge-1", "at": "2s"}
    made = happened(tmp_path, 9.0, pause("1s", "3s"), pause("6s", "1s"), kill)
    assert made == [(Change.PAUSE, 1.0, None), (Change.KILL, 2.0, None)]


def test_what_cannot_be_simulated_is_said(tmp_path: Path) -> None:
    archive = changing(tmp_path, injected=faults({"clock_step": "edge-1", "by": "50ms", "at": "100ms"}))
    assert archive.run.outcome is Outcome.FINISHED
    assert any("clocks" in sentence for sentence in archive.run.limitations)


def test_a_shared_uplink_is_shared(tmp_path: Path, steady_s: float) -> None:
    links = [{"src": "edge.*", "dst": "cloud.*"}, {"src": "cloud.*", "dst": "edge.*"}]
    archive = changing(tmp_path, bottlenecks=[{"name": "uplink", "rate": "10mbit", "links": links}])
    assert seconds(archive) > 2 * steady_s
    trace, carried_out, reference = read_run(archive)
    retraining = retraining_of(archive, carried_out, trace)
    report = analyse(trace, reference, retraining, speeding_up=False)  # of each host and link the run simulated again
    assert not any(finding.material for finding in report.findings)
