"""The experiment that the README shows does what its own page says."""

import json

import pytest
from whole_runs import Started, facts, nothing_left

from e2c_dl.archive.verify import verify

pytestmark = [pytest.mark.local, pytest.mark.alone, pytest.mark.slow]  # alone: its verdict is checked


def test_first_light_names_what_was_slowed_and_learns(tmp_path, repository):
    folder = repository / "experiments/first-light"
    expected = json.loads((folder / "expected.json").read_text())
    started = Started("deploy", folder, repository / "artifacts", "--archive", tmp_path / "a", log=tmp_path / "log")
    assert started.ended() == 0, started.said

    advice, first = (started.said.find(each) for each in ("leave out cloud-1, or mend what slows it", "iteration 1/"))
    assert 0 < advice < first, "who is slower than designed is told before anything is trained"
    run, report = facts(tmp_path / "a"), json.loads((tmp_path / "a/report.json").read_text())
    injected = [*run["injected"]["compute"], *run["injected"]["links"]]
    elements = [finding["element"] for finding in report["culprits"]]
    named = [e["src"] if e["dst"] is None else f"{e['src']} -> {e['dst']}" for e in elements]
    assert sorted(named) == sorted(injected) == sorted(expected["culprits"])
    assert report["iterations"] == expected["iterations"]
    outcome = json.loads((tmp_path / "a/hosts/edge-1/outcome.json").read_text())
    assert outcome["accuracy"] >= expected["accuracy_at_least"]
    assert verify(tmp_path / "a") == ()
    nothing_left(run["run_id"])
