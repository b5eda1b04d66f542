"""Writes the table of strategies into a page: ``python -m e2c_dl.strategies docs/strategies.md``.

It replaces what stands between the page's two marks; without a page, it prints the table.
"""

from __future__ import annotations

import sys
from pathlib import Path

from e2c_dl import strategies
from e2c_dl.errors import InputError

BEGIN, END = "<!-- strategies: begin -->\n", "<!-- strategies: end -->\n"


def table() -> str:
    """All strategies in Markdown, by name."""
    lines = ["| strategy | | pace | settings, with defaults |", "|---|---|---|---|"]
    for description in map(strategies.describe, strategies.names()):
        settings = ", ".join(f"`{key}: {value}`" for key, value in description.settings.items())
        pace = "each rank's own" if description.asynchronous else "one"
        lines.append(f"| `{description.name}` | {description.title} | {pace} | {settings or '-'} |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """``page`` with the table as it is now. Raises: InputError, if it has no marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"the page has no marks; put {BEGIN.strip()} and {END.strip()} on lines of their own")
    return before + begin + table() + end + after


def main(arguments: list[str]) -> int:
    """The command. Returns its exit status."""
    if not arguments:
        print(table(), end="")
        return 0
    for path in map(Path, arguments):
        path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
