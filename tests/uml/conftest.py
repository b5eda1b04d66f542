"""Tests in User-Mode Linux: a kernel that has netem, whatever this machine's has."""

from __future__ import annotations

import pytest

from benchmarks.uml import boot


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = boot.missing()
    if reason is not None:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))
