"""The page on E2Clab's sharp edges: all twenty-two stand in it, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

EDGES = 22


def rows(repository: Path) -> list[list[str]]:
    """The cells of the table's rows."""
    text = (repository / "docs/e2clab.md").read_text(encoding="utf-8").partition("## The edges")[2]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| \d.*", text, re.MULTILINE)
    ]


def test_every_edge_has_its_row_and_says_what_is_done(repository: Path) -> None:
    found = rows(repository)
    assert [row[0] for row in found] == [str(number) for number in range(1, EDGES + 1)]
    assert [row[0] for row in found if len(row) != 5 or not all(row[1:4])] == []


def test_the_tests_that_it_names_exist(repository: Path) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (repository / "tests").rglob("test_*.py"))
    there = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    named = {row[0]: re.findall(r"`(test_\w+)`", row[4]) for row in rows(repository)}
    assert {edge: sorted(set(tests) - there) for edge, tests in named.items() if set(tests) - there} == {}
    assert [edge for edge, tests in named.items() if not tests] == []


def test_each_note_for_upstream_has_its_test(repository: Path) -> None:
    """And each of those tests its note."""
    text = (repository / "docs/upstream.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\*Shown by\* `(test_\w+)`\.$", text, re.MULTILINE)
    tests = (repository / "tests/unit/testbeds/test_testbeds_upstream.py").read_text(encoding="utf-8")
    assert len(shown) == text.count("\n### ")
    assert sorted(shown) == sorted(re.findall(r"^def (test_\w+)", tests, re.MULTILINE))
