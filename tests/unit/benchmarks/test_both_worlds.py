"""The campaign as a whole: its bars are asked of simulated and of live runs together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_diagnosis_campaign import culprit, outcome

from benchmarks import written
from benchmarks.diagnosis.__main__ import main

ALONE, WRONG = outcome(culprit(), named=("a -> b",)), outcome(culprit(), right=False)


def written_as(folder: Path, name: str, *runs: object) -> None:
    facts = {"seed": 7, "commit": "abc1234", "runs": [run.plain() for run in runs]}  # type: ignore[attr-defined]
    (folder / f"{name}.json").write_text(json.dumps(facts))


def test_bars_are_over_what_was_written_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "RESULTS", tmp_path)
    written_as(tmp_path, "diagnosis", *[replace(ALONE, number=number) for number in range(149)])
    written_as(tmp_path, "diagnosis-live", WRONG)
    said = CliRunner().invoke(main, ["--together"])
    assert "diagnosis-live.json: 1 runs of seed 7, at abc1234" in said.output
    assert "| exactly right, x1.5 and above | at least 99% | 99.3% | 150 | held |" in said.output
    assert "fewer runs than asked for" in said.output and said.exit_code == 1
    written_as(tmp_path, "diagnosis-live", *[replace(WRONG, number=number) for number in range(2)])
    assert "| exactly right, x1.5 and above | at least 99% | 98.7% | 151 | MISSED |" in CliRunner().invoke(
        main, ["--together"]
    ).output  # fmt: skip
