"""What the documentation says of the tree is true: rooms are all named, files that it points to exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PATH = re.compile(r"`((?:e2c_dl|layers_services|benchmarks|tests|docs)/[\w./-]+)`")
IN_SVG = re.compile(r'class="t">([^<]+)<')


def rooms(repository: Path) -> list[str]:
    """Rooms on the floors: packages below e2c_dl, and of the two pairs their halves."""
    package = repository / "e2c_dl"
    found = [folder.name for folder in package.iterdir() if (folder / "__init__.py").is_file()]
    pairs = [f"{room}/{half}" for room in ("drivers", "worlds") for half in ("live", "virtual")]
    return sorted({*found, *pairs} - {"drivers", "worlds"})


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/glossary.md", "docs/strategies.md", "docs/worlds.md"])
def test_files_that_a_page_points_to_exist(repository: Path, page: str) -> None:
    named = PATH.findall((repository / page).read_text(encoding="utf-8"))
    assert [path for path in named if not (repository / path).exists()] == []


def test_rooms_of_the_glossary_exist(repository: Path) -> None:
    text = (repository / "docs/glossary.md").read_text(encoding="utf-8").partition("## Replaced")[0]
    words = [row.split("|") for row in text.splitlines() if row.startswith("| ") and row.count("|") >= 4]
    named = [(row[1].strip(), room) for row in words for room in re.findall(r"`([^`]+)`", row[3])]
    assert len(named) > 80
    places = (repository / "e2c_dl", repository)
    assert [each for each in named if not any((place / each[1]).exists() for place in places)] == []


def test_the_picture_shows_every_room(repository: Path) -> None:
    shown = IN_SVG.findall((repository / "docs/architecture.svg").read_text(encoding="utf-8"))
    modules = {path.stem for path in (repository / "e2c_dl").glob("*.py")} - {"__init__", "__main__"}
    drawn = {name for text in shown for name in text.split(", ")}
    assert drawn == {*rooms(repository), *modules}


def test_the_tree_shows_every_room(repository: Path) -> None:
    text = (repository / "docs/architecture.md").read_text(encoding="utf-8")
    tree = text.partition("## Where things are")[2].partition("\n## ")[0]
    assert [room for room in rooms(repository) if f"{room}/" not in tree] == []
