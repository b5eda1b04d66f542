"""One name per thing: words that the glossary replaces stand in no module of the package, nor in a module's name."""

from __future__ import annotations

import re
from pathlib import Path

OLD_KEYS = {"e2c_dl/archive/run.py": "could_not_honour"}  # archives of the old format are read by their own keys
TEXTS = {".py", ".md", ".yaml", ".html", ".css", ".js", ".j2"}


def replaced(repository: Path) -> list[str]:
    """The first column of the glossary's last table."""
    table = (repository / "docs" / "glossary.md").read_text(encoding="utf-8").partition("| replaced | by |")[2]
    return re.findall(r"^\| ([a-z_ ]+) \|", table, re.MULTILINE)


def pattern(word: str) -> re.Pattern[str]:
    """``word`` alone, in the plural, or as a part of a name in either case; ``of course`` is English."""
    title = word.title().replace("_", "")
    return re.compile(rf"(?<!of )(?<![A-Za-z])(?i:{word}s?)(?![a-z])|(?<![A-Z]){title}s?(?![a-z])")


def test_a_replaced_word_is_found_in_every_spelling() -> None:
    for line in ("whole_file.py", "import whole_file as w", "class WholeFile:"):
        assert pattern("whole_file").search(line)
    for line in ("a_course = 1", "Courses", "class LinkCourse:", "COURSE"):
        assert pattern("course").search(line)
    assert not pattern("course").search("of course, coursework")


def test_replaced_words_stand_nowhere_in_the_package(repository: Path) -> None:
    offenders = []
    for path in sorted((repository / "e2c_dl").rglob("*")):
        if path.suffix not in TEXTS or "data" in path.relative_to(repository).parts:
            continue
        lines = [path.name, *path.read_text(encoding="utf-8").splitlines()]
        offenders += [
            f"{path.relative_to(repository)}:{number}: {word!r}: {line.strip()}"
            for word in replaced(repository)
            for number, line in enumerate(lines)
            if pattern(word).search(line) and OLD_KEYS.get(str(path.relative_to(repository))) != word
        ]
    assert not offenders, "\n".join(offenders)
