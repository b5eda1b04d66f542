"""``e2c-dl services install`` makes our services known to plain E2Clab; E2Clab itself takes them away again.

E2Clab's services are those of every run, so all of it is done to a copy of them, which only these commands see.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from whole_runs import COMMAND

pytestmark = pytest.mark.local
E2CLAB = [str(Path(sys.executable).parent / "e2clab"), "services"]


@pytest.fixture
def said(tmp_path: Path) -> Callable[..., str]:
    """Runs a command where a copy of E2Clab's services is in their place, and gives what it says."""
    e2clab = importlib.util.find_spec("e2clab")  # it is not imported
    assert e2clab is not None and e2clab.origin is not None
    services = Path(e2clab.origin).parent / "services/plugins"
    shutil.copytree(services, tmp_path / "services")
    there = ["unshare", "--mount", "sh", "-ec", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh"]

    def said(*argv: str) -> str:
        whole = [*there, str(tmp_path / "services"), str(services), *argv]
        return subprocess.run(whole, capture_output=True, text=True, check=True).stdout

    return said


def test_installed_services_are_listed_by_e2clab_until_they_are_removed(said: Callable[..., str]) -> None:
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
