"""``e2c-dl services install`` makes our services known to plain E2Clab; E2Clab itself takes them away again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from whole_runs import COMMAND

pytestmark = [pytest.mark.local, pytest.mark.alone]  # alone: E2Clab's services are those of every run
E2CLAB = [str(Path(sys.executable).parent / "e2clab"), "services"]


def said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_installed_services_are_listed_by_e2clab_until_they_are_removed():
    assert "Trainer" in said(*COMMAND, "services", "list")
    assert "Trainer" not in said(*E2CLAB, "list")
    installed = json.loads(said(*COMMAND, "services", "install", "--json"))
    try:
        assert {"Trainer": "linked"}.items() <= {row["service"]: row["how"] for row in installed}.items()
        assert all(set(row) == {"service", "file", "how"} and Path(row["file"]).is_file() for row in installed)
        assert "Trainer" in said(*E2CLAB, "list")
    finally:
        said(*E2CLAB, "remove", "Trainer")
    assert "Trainer" not in said(*E2CLAB, "list")
