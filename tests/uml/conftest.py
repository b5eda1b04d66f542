"""Tests in User-Mode Linux: a kernel that has netem, whatever this machine's has."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benchmarks.uml import boot


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = boot.missing()
    if reason is not None:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module", autouse=True)
def served_first() -> Iterator[None]:
    """While in it, what is started goes before what another worker runs: the machine measures rates and delays."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    if os.geteuid() == 0:  # only root may
        os.setpriority(os.PRIO_PROCESS, 0, usual - 5)
    yield
    os.setpriority(os.PRIO_PROCESS, 0, usual)
