"""Compressors are told where people look: by the page on strategies, `e2c-dl strategies` and `e2c-dl check`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import said
from simulated_scenario import scenario

from e2c_dl.strategies.compression import COMPRESSORS, NONE
from e2c_dl.strategies.seam import settings_of


def test_the_page_names_all_with_their_settings(repository: Path) -> None:
    page = (repository / "docs" / "strategies.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE))
    for name, made in COMPRESSORS.items():
        assert rows[name] == ", ".join(f"`{key}: {value}`" for key, value in settings_of(made).items()) or "-"
    assert NONE in rows


def test_strategies_lists_them() -> None:
    listed = said("strategies").out
    assert all(re.search(rf"^{name}$", listed, re.MULTILINE) for name in COMPRESSORS)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_check_says_what_a_scenario_compresses_by(tmp_path: Path, name: str) -> None:
    folder = scenario(tmp_path / "s", emulation={}, compression=name)
    assert f"what it sends as {name}" in said("check", folder).out


def test_check_refuses_a_setting_that_a_compressor_refuses(tmp_path: Path) -> None:
    folder = scenario(tmp_path / "s", emulation={}, compression="topk", compression_settings={"share": 3})
    came = said("check", folder)
    assert came.code == 2
    assert "share is 3.0; write more than 0, at most 1" in came.err + came.out
