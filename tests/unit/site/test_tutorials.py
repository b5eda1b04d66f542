"""Tutorials, typed as they stand: every command, every file, every line of output that they show."""

from __future__ import annotations

from pathlib import Path

import pytest
import typed


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typed.Session:
    monkeypatch.chdir(tmp_path)
    return typed.Session(tmp_path)


def follow(session: typed.Session, page: Path) -> str:
    """Types all of ``page``; gives its text."""
    text = page.read_text(encoding="utf-8")
    for block in typed.blocks(text):
        session.type(block)
    return text


def test_a_scenario_of_ones_own(session: typed.Session, repository: Path) -> None:
    follow(session, repository / "docs/tutorials/own-scenario.md")
    assert session.printed == ["edge-1 16.1 s"]


def test_a_model_and_data_of_ones_own(session: typed.Session, repository: Path) -> None:
    pytest.importorskip("torch")
    text = follow(session, repository / "docs/tutorials/own-model.md")
    (printed,) = session.printed
    assert float(printed.split()[0]) == pytest.approx(0.96, abs=0.03), "another torch may round otherwise"
    assert "0.96 of the rings are told apart" in text


def test_a_fault_of_ones_own(session: typed.Session, repository: Path) -> None:
    follow(session, repository / "docs/tutorials/own-fault.md")


def test_what_is_not_shown_is_seen() -> None:
    assert typed.shows("a  b\nc 12 d", "a b c ... d")
    assert not typed.shows("a b c", "a c")


def test_a_tutorial_whose_output_changed_fails(session: typed.Session) -> None:
    (block,) = typed.blocks("```console\n$ echo one\ntwo\n```\n")
    with pytest.raises(AssertionError, match="line 1: echo one"):
        session.type(block)
