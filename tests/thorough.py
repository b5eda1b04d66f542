"""Tests of which ``make test`` takes one of several that are alike, and ``make test-all`` every one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def few(of: Iterable[object], *kept: object) -> list[ParameterSet]:
    """Values of a test's parameter: those of ``of`` that are ``kept``, and for ``make test-all`` the others, too."""
    return [pytest.param(each, marks=() if each in kept else pytest.mark.thorough) for each in of]
