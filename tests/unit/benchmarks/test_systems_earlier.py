"""Trials that an earlier commit made stand where those that were made again are the same, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.systems.__main__ import main
from benchmarks.systems.earlier import Earlier
from benchmarks.systems.tables import recorded
from benchmarks.systems.trial import Asked, Ran


def came(system: str, seed: int) -> Ran:
    return Ran(
        asked=Asked(system=system, environment="compute", seed=seed), reached_s=10.0 + seed, accuracy=0.5,
        bytes_to_target=5_000_000, iterations=(10, 12), computing=(0.5, 0.75), links={"0 1": 12.5}, took_s=2.0,
    )  # fmt: skip


@pytest.mark.parametrize("differs", [False, True])
def test_earlier_trials_stand_where_what_was_made_again_is_the_same(tmp_path: Path, differs: bool) -> None:
    known = [*(came("Ako", seed) for seed in (1, 2, 3)), came("Hop", 1)]
    file = tmp_path / "systems.json"
    file.write_text(json.dumps({"commit": "0dc0f16", "trials": [recorded(each) for each in known]}))
    again = replace(known[1], took_s=99.0, accuracy=0.4 if differs else 0.5)
    found = Earlier(file, [each.asked for each in known], {again.asked: again})
    assert list(found.trials) == ([] if differs else [known[0].asked, known[2].asked])  # of Hop nothing was made again
    for each in found.trials.values():
        first = json.dumps({**recorded(known[each.asked.seed - 1]), "made_at": "0dc0f16"})
        assert json.dumps(found.recorded(each)) == first
    assert "made_at" not in found.recorded(again)
    assert "Of 3 trials 0 are" in found.said(3) if differs else "Of 3 trials 2 are" in found.said(3)


def test_earlier_results_that_are_none_are_told(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"commit": "a"}')
    done = CliRunner().invoke(main, ["--made", "--earlier", str(tmp_path / "r.json"), "--into", str(tmp_path / "t")])
    assert done.exit_code == 2 and "holds no trials" in done.output
    done = CliRunner().invoke(main, ["--earlier", str(tmp_path / "r.json")])
    assert done.exit_code == 2 and "say --made" in done.output
