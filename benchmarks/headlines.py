"""Checks that figures in README.md and docs/ are of the code as it is: ``python -m benchmarks.headlines``.

A figure that stems from a result of a benchmark links to it::

    [ten runs of ten](benchmarks/results/verdicts.md)                 of the rooms as they are now
    [ten runs of ten](benchmarks/results/verdicts.md) (at 5cfbb21)    of an earlier commit, and says so

The first is an error as soon as something changes in the rooms that the benchmark measures; then it is measured again,
or marked. A mark must be the commit that the result names. Nothing but files is read: it works in any clone, and in
none.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import rooms

_LINK = re.compile(r"\]\([^)\s]*benchmarks/results/([\w-]+)\.md\)(?:\s+\(at\s+`?([0-9a-f]{7,40})`?\))?")


def problems(root: Path = rooms.ROOT) -> Iterator[str]:
    """A line for each figure that says more than its result does."""
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for match in _LINK.finditer(text):
            wrong = _wrong(root, match[1], match[2])
            if wrong:
                line = text.count("\n", 0, match.start()) + 1
                yield f"{page.relative_to(root)}:{line}: the figure of results/{match[1]}.md {wrong}"


def _wrong(root: Path, name: str, mark: str | None) -> str:
    """What is wrong with a figure of ``name``, marked with ``mark``; empty: nothing."""
    result = root / "benchmarks" / "results" / f"{name}.json"
    if not result.is_file():
        return f"has no result: python -m benchmarks.{name.partition('-')[0]} --write"
    values = json.loads(result.read_text(encoding="utf-8"))
    commit = values.get("commit")
    if mark is not None:
        same = commit is None or mark.startswith(commit) or commit.startswith(mark)  # older results name none
        return "" if same else f"is marked with {mark}, but its result is of {commit}"
    then = values.get("rooms")
    again, behind = f"python -m benchmarks.{name.partition('-')[0]} --write", f"(at {commit or 'COMMIT'})"
    remedy = f'measure again ({again}), or write "{behind}" behind the link'
    if not then:
        return f"is of a result that does not say what stood in its rooms; {remedy}"
    since = rooms.changed(then, root)
    return f"was measured before the last change to {', '.join(since)}; {remedy}" if since else ""


def main() -> None:
    """Exit status 1, and a line for each on standard error, if a figure says more than its result does."""
    found = list(problems())
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
