"""A scenario that cannot be read, in an archive, is told with the archive's file: there may be others of that name."""

from __future__ import annotations

from pathlib import Path

import pytest
import simulated_scenario

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.diagnosis.diagnose import changed_in, read_run
from e2c_dl.errors import ScenarioError


def test_which_archives_scenario_cannot_be_read_is_told(tmp_path: Path) -> None:
    archive = simulated_scenario.simulated(simulated_scenario.scenario(tmp_path / "s"), shapes_only=True).path
    damaged = archive / layout.SCENARIO / "network.yaml"
    damaged.write_text("networks: [")
    for asked in (read_run, changed_in):
        with pytest.raises(ScenarioError, match=rf"{damaged}:1: YAML syntax error: .*e2c-dl verify"):
            asked(open_archive(archive))
