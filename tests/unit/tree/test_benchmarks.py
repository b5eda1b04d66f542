"""Benchmarks share options and the form of their results."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks import headlines, rooms, written

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


@pytest.mark.parametrize("name", NAMES)
def test_each_has_a_bar_which_is_that_of_its_readmes(name: str) -> None:
    bar = importlib.import_module(f"benchmarks.{name}.__main__").BAR
    (row,) = re.findall(rf"^\| \[{name}\].*$", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert row.split("|")[4].strip() == bar
    assert f"**Bar.** {bar}" in (FOLDER / name / "README.md").read_text(encoding="utf-8").replace("\n", " ")


def test_all_of_them_take_as_long_as_is_said(repository: Path) -> None:
    def minutes(row: str) -> float:
        *_, most, unit = row.split("|")[5].replace(" to ", " ").split()
        assert unit == "min", row
        return float(most)

    rows = re.findall(r"^\| \[\w+\]\(.*$", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == len(NAMES)
    hours = {14: "fourteen", 15: "fifteen", 16: "sixteen", 17: "seventeen"}[round(sum(map(minutes, rows)) / 60)]
    for name in ("README.md", "Makefile", "benchmarks/README.md"):
        assert re.findall(r"\b(\w+) hours,? by the sum", (repository / name).read_text(encoding="utf-8")) == [hours], (
            name
        )


@pytest.mark.parametrize("name", NAMES)
def test_each_ends_by_its_bar(name: str) -> None:
    source = (FOLDER / name / "__main__.py").read_text(encoding="utf-8")
    assert "written.conclude(BAR, missed" in source
    assert "missed=missed" in source, "its results say what they miss"


@pytest.mark.parametrize("name", NAMES)
def test_the_rooms_that_each_measures_are_there(name: str) -> None:
    assert all((rooms.ROOT / room).exists() for room in rooms.rooms()[name])


def test_rooms_are_named_as_git_does(repository: Path) -> None:
    asked = ("e2c_dl/worlds", "e2c_dl/ethernet.py", "scripts")
    git = ["git", "-C", str(repository)]
    changed = subprocess.run([*git, "status", "--porcelain", *asked], capture_output=True, text=True, check=False)
    if changed.returncode or changed.stdout:
        pytest.skip("no clone, or one that was changed")
    told = [*git, "rev-parse", *(f"HEAD:{room}" for room in asked)]
    named = subprocess.run(told, capture_output=True, text=True, check=True).stdout.split()
    assert list(rooms.hashes(asked).values()) == named


@pytest.mark.parametrize(
    ("figure", "wrong"),
    [
        ("[ten of ten](benchmarks/results/relay.md)", ""),
        ("[ten of ten](../benchmarks/results/relay.md) (at abc1234)", ""),
        ("[ten of ten](benchmarks/results/relay.md)\n(at `abc1234`)", ""),
        ("[ten of ten](benchmarks/results/relay.md) (at 7654321)", "marked with 7654321, but its result is of abc1234"),
        ("[ten of ten](benchmarks/results/virtual.md)", "has no result"),
        ("[ten of ten](benchmarks/results/verdicts.md)", "does not say what stood in its rooms"),
        ("[ten of ten](benchmarks/results/verdicts.md) (at 1234567)", ""),
        ("[ten of ten](benchmarks/results/setup.md)", "before the last change to room/b.py; measure again"),
    ],
)
def test_a_figure_is_of_the_rooms_as_they_are_or_says_of_which(tmp_path: Path, figure: str, wrong: str) -> None:
    for name in ("docs", "benchmarks/results", "room"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("a.py", "b.py"):
        (tmp_path / "room" / name).write_text(name)
    stood = rooms.hashes(("room/a.py", "room/b.py"), tmp_path)
    results: dict[str, dict[str, object]] = {
        "relay": {"commit": "abc1234", "rooms": stood},
        "setup": {"commit": "abc1234", "rooms": {**stood, "room/b.py": "0" * 40}},
        "verdicts": {},
    }
    for name, result in results.items():
        (tmp_path / f"benchmarks/results/{name}.json").write_text(json.dumps(result))
    (tmp_path / "README.md").write_text("# A title\n")
    (tmp_path / "docs/page.md").write_text(f"Some words.\n\n{figure}, and more.\n")
    found = list(headlines.problems(tmp_path))
    assert (found == []) if not wrong else (wrong in found[0] and found[0].startswith("docs/page.md:3: "))


def test_a_bar_that_is_missed_is_an_exit_status() -> None:
    @click.command()
    @click.option("--held", is_flag=True)
    @written.options()
    def ending(held: bool, write: bool) -> None:
        written.conclude("at most half", [] if held else ["0.7 of it"])

    assert CliRunner().invoke(ending, ["--held"]).exit_code == 0
    missed = CliRunner().invoke(ending, [])
    assert (missed.exit_code, missed.output) == (1, "Error: missed: 0.7 of it (asked for: at most half)\n")
    assert CliRunner().invoke(ending, ["--quick"]).exit_code == 0, "it measures too little to judge by"


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
        written.write(
            "relay", title="The relay", text=f"| {figure} |\n\n", values={"cases": [figure]}, repeats=3, missed=["all"],
            folder=folder,
        )  # fmt: skip
    values = json.loads((folder / "relay.json").read_text())
    page = (folder / "relay.md").read_text()
    assert values["command"] == "python -m benchmarks.relay --only 'a b'"
    assert values["cases"] == [2]
    assert page.startswith(f"# The relay\n\n* command: {values['command']}\n* date: {values['date']}\n")
    assert page.endswith("\n\n| 2 |\n")
    assert {"commit", "dirty", "kernel", "load_before", "repeats", "rooms"} <= set(values)
    assert (values["missed"], list(values["rooms"])) == (["all"], ["e2c_dl/emulation/relay"])
    shown = {**values, "missed": "all", "rooms": "e2c_dl/emulation/relay"}
    assert all(f"* {fact}: {value}\n" in page for fact, value in shown.items() if fact != "cases")
    assert sorted(path.name for path in folder.iterdir()) == ["relay.json", "relay.md"]
