"""The worked calls in the docstrings of the emulation's seams give what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["link_values", "relay.config", "tc.rendering", "measuring.quick"])
def test_a_worked_call_gives_what_its_docstring_says(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(f"e2c_dl.emulation.{module}"))
    assert failed == 0 < tried
