"""The page on strategies: its table is as it is written now, and its example is a strategy like any other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from e2c_dl import strategies
from e2c_dl.errors import InputError
from e2c_dl.strategies import __main__ as page


@pytest.fixture
def text(repository: Path) -> str:
    return (repository / "docs" / "strategies.md").read_text()


def test_table_is_up_to_date(text: str) -> None:
    assert page.with_table(text) == text, "run: python -m e2c_dl.strategies docs/strategies.md"


def test_table_is_written_into_a_page_in_place(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{page.BEGIN}old\n{page.END}after\n")
    assert page.main([str(path)]) == 0
    assert path.read_text() == f"before\n{page.BEGIN}{page.table()}{page.END}after\n"
    with pytest.raises(InputError, match="has no marks"):
        page.with_table("nothing")


def test_laws_are_of_all_strategies_and_their_tests_are_there(text: str, repository: Path) -> None:
    laws = text.partition("## Laws\n")[2].partition("\n## ")[0]
    table = [line for line in laws.splitlines() if line.startswith("| ")]
    assert len(table) > 20
    for line in table[1:]:
        files = re.findall(r"`([\w/]+\.py)`", line.split("|")[4])
        assert files, line
        assert all((repository / (name if "/" in name else f"tests/laws/{name}")).is_file() for name in files), line
    assert {*re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table))} >= {*strategies.names()}


def test_example_is_found_where_a_file_is_added(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = [each for each in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "class Gossip" in each]
    assert len(example.split("class Gossip")[1].splitlines()) <= 20
    (tmp_path / "gossip.py").write_text(example)
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(tmp_path)])
    assert "gossip" in strategies.names()
    assert strategies.load("gossip")().used_links(["edge"] * 3) == [(0, 1), (1, 2), (2, 0)]
    assert strategies.describe("gossip").title.startswith("Gossip: ")
    assert "| `gossip` | Gossip: " in page.table()
