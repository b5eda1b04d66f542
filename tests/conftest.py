"""What all tests share: laws are repeatable, and real runs are left out where they cannot be made, with the reason."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

# Not timed: machines differ, and other work may hold their cores. Repeatable: a failure is the same for everybody.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("E2CDL_LAWS", "repeatable"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return Path(__file__).resolve().parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests marked ``local`` where this machine cannot bring up hosts."""
    why = _no_hosts_here()
    if why:
        for item in items:
            if item.get_closest_marker("local"):
                item.add_marker(pytest.mark.skip(reason=why))


def _no_hosts_here() -> str:
    if os.geteuid() != 0:
        return "real runs on this machine need root"
    missing = [program for program in ("ip", "sshd", "unshare", "nsenter") if shutil.which(program) is None]
    return f"not on this machine: {', '.join(missing)}; run make setup" if missing else ""
