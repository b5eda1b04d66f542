"""Benchmarks share options and the form of their results."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks import written

FOLDER = Path(written.__file__).parent
NAMES = sorted(entry.parent.name for entry in FOLDER.glob("*/__main__.py"))


def test_there_are_benchmarks() -> None:
    assert "relay" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_has_the_shared_options_and_a_row_in_the_readme(name: str) -> None:
    command = importlib.import_module(f"benchmarks.{name}.__main__").main
    assert isinstance(command, click.Command)
    assert {"write", "quick"} <= {option.name for option in command.params}
    refused = CliRunner().invoke(command, ["--quick", "--write"])
    assert refused.exit_code == 2
    assert "--quick measures too little to be written" in refused.output
    assert f"| [{name}]({name}/README.md) |" in (FOLDER / "README.md").read_text(encoding="utf-8")


@click.command()
@click.option("--repeats", default=3)
@click.option("--part", multiple=True)
@written.options(repeats=1, part=["first"])
def measure(repeats: int, part: tuple[str, ...], write: bool) -> None:
    click.echo(f"{repeats} {part} {write}")


@pytest.mark.parametrize(
    ("typed", "got"),
    [
        ([], "3 () False"),
        (["--write"], "3 () True"),
        (["--quick"], "1 ('first',) False"),
        (["--repeats", "2", "--quick"], "2 ('first',) False"),
    ],
)
def test_quick_sets_defaults(typed: list[str], got: str) -> None:
    assert CliRunner().invoke(measure, typed).output.strip() == got


def test_header_and_table_beside_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.orig_argv", ["/opt/bin/python3", "-m", "benchmarks.relay", "--only", "a b"])
    folder = tmp_path / "results"
    for figure in (1, 2):  # the second replaces the first
        written.write("relay", title="The relay", text=f"| {figure} |\n\n", values={"cases": [figure]}, folder=folder)
    values = json.loads((folder / "relay.json").read_text())
    page = (folder / "relay.md").read_text()
    assert values["command"] == "python -m benchmarks.relay --only 'a b'"
    assert values["cases"] == [2]
    assert page.startswith(f"# The relay\n\n* command: {values['command']}\n* date: {values['date']}\n")
    assert page.endswith("\n\n| 2 |\n")
    assert all(f"* {fact}: {value}\n" in page for fact, value in values.items() if fact != "cases")
    assert sorted(path.name for path in folder.iterdir()) == ["relay.json", "relay.md"]
