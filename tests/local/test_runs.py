"""A whole run of a small scenario: what comes out of it, and that nothing stays behind."""

import json

import pytest
from whole_runs import Started, facts, nothing_left, scenario

from e2c_dl.archive.read import open_archive
from e2c_dl.archive.verify import verify
from e2c_dl.trace.messages import conservation
from e2c_dl.trace.model import State

pytestmark = [pytest.mark.local, pytest.mark.alone, pytest.mark.slow]  # alone: links and the verdict are checked


@pytest.fixture(scope="module")
def finished(tmp_path_factory, repository):
    """(archive, what was printed) of one run with 20 iterations."""
    folder = tmp_path_factory.mktemp("finished")
    source = scenario(folder / "small", repository / "experiments/first-light/workflow.yaml", iterations=20)
    (folder / "artifacts").mkdir()
    started = Started("deploy", source, folder / "artifacts", "--archive", folder / "a", log=folder / "log")
    assert started.ended() == 0, started.said
    return folder / "a", started.said


def test_the_archive_is_whole_and_says_that_the_run_finished(finished):
    archive, _ = finished
    assert verify(archive) == ()
    run = facts(archive)
    assert run["outcome"] == "finished"
    assert run["what_happened"] == []
    assert [step["outcome"] for step in run["steps"]] == ["done"] * len(run["steps"])


def test_every_used_link_was_measured_as_asked(finished):
    rows = json.loads((finished[0] / "links.json").read_text())["rows"]
    measured = {(row["src"], row["dst"]): row["measured"] for row in rows if row["measured"]}
    assert set(measured) == {("edge-1", "fog-1"), ("fog-1", "cloud-1"), ("cloud-1", "edge-1")}
    for link in measured.values():
        assert link["rate_bps"] == pytest.approx(50e6, rel=0.05)
        assert link["round_trip_s"] == pytest.approx(6e-3, abs=1e-3)


def test_the_trace_conserves_bytes(finished):
    rows = conservation(open_archive(finished[0]).trace())
    assert len(rows) == 3
    for row in rows:
        assert row.sent_bytes == row.received_bytes > 0


def test_states_partition_wall_time_and_account_for_it(finished):
    report = json.loads((finished[0] / "report.json").read_text())
    for host in report["hosts"]:
        assert sum(host["states_s"].values()) == pytest.approx(host["wall_s"], rel=1e-9)
        assert host["states_s"][State.OTHER.value] <= 0.02 * host["wall_s"]


def test_a_run_as_asked_has_no_culprit(finished):
    archive, said = finished
    assert json.loads((archive / "report.json").read_text())["culprits"] == []
    assert "No culprit" in said


def test_nothing_stays_behind(finished):
    nothing_left(facts(finished[0])["run_id"])


def test_two_runs_side_by_side_do_not_disturb_each_other(tmp_path, repository):
    workflow = repository / "experiments/first-light/workflow.yaml"
    (tmp_path / "artifacts").mkdir()
    both = [
        Started(
            "deploy", scenario(tmp_path / name, workflow), tmp_path / "artifacts",
            "--archive", tmp_path / f"{name}-run", log=tmp_path / f"{name}.log",
        )
        for name in ("left", "right")
    ]  # fmt: skip
    for started in both:
        assert started.ended() == 0, started.said
    for name in ("left", "right"):
        assert facts(tmp_path / f"{name}-run")["outcome"] == "finished"
        nothing_left(facts(tmp_path / f"{name}-run")["run_id"])
