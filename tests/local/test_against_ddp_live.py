"""torch DDP as a benchmark runs it, on emulated hosts: its model learns as that of our all-reduce, simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.systems import live, table
from benchmarks.systems.environments import SMALL
from benchmarks.systems.trial import Asked
from e2c_dl.archive.read import open_archive
from e2c_dl.campaign.simulated import SimulationRequest
from e2c_dl.campaign.simulated import run as simulated
from e2c_dl.cli.telling.console import open_console

pytestmark = pytest.mark.local
SECONDS = 9.0  # of which ten iterations, an evaluation's, take most


def test_ddp_learns_what_all_reduce_does_over_the_same_links(tmp_path: Path) -> None:
    asked = Asked(system=live.STANDS_FOR_DDP, environment=SMALL.name, seed=live.SEED)
    scenario = live.written(tmp_path / "scenario", table.system(asked.system), SECONDS)
    archive = simulated(SimulationRequest(scenario=scenario, archive=tmp_path / "archive"), open_console(quiet=True))
    ours, theirs = live.told(asked, open_archive(archive)), live.by_ddp(asked, SECONDS)
    assert theirs.curve[0][1] == pytest.approx(
        ours.curve[0][1], abs=1 / 300
    )  # of 600 samples; sums are in other orders
    assert theirs.curve[-1][0] >= SECONDS
    assert len(set(theirs.iterations)) == 1
    assert theirs.iterations[0] % live.EVALUATE_EVERY == 0
