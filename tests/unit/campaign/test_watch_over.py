"""``e2c-dl watch`` of an archive whose run has no hosts any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from e2c_dl.archive.write import Archive
from e2c_dl.cli.main import cli
from e2c_dl.testbeds import registry


def test_of_a_run_that_is_over_its_report_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.STATE_VARIABLE, str(tmp_path / "state"))
    archive = Archive.create(tmp_path / "archive", "0badcafe", started="2025-01-31T10:00:00+00:00")
    going_on = CliRunner().invoke(cli, ["watch", str(archive.path)])
    assert "0badcafe: no such run has hosts up" in str(going_on.exception)
    archive.record(ended="2025-01-31T10:01:00+00:00")
    over = CliRunner().invoke(cli, ["watch", str(archive.path)])
    assert str(over.exception).startswith(f"{archive.path}: the run is over; `e2c-dl report {archive.path}` says")
