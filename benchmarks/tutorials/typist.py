"""Types tutorials as a newcomer would: into a shell, in a new folder, one after the other; says what was seen.

::

    python benchmarks/tutorials/typist.py PAGE...        one line of JSON for each page: Typed

A block with a title is the file of that name. Of ``console`` each command is typed, and must print what is shown;
``python`` is run, and what it prints must stand on the page; a block without a language holds commands that must end
well. Two processors at most are used. Needs Python alone, and ``e2c-dl`` beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.tutorials.blocks import Block, blocks, commands, shows, steps

PROCESSORS = 2


@dataclass(frozen=True, kw_only=True)
class Typed:
    """One tutorial. ``ends_with``: the last line that it shows, and that was seen; ``wrong``: empty, or what was."""

    page: str
    seconds: float
    commands: int
    ends_with: str
    wrong: str


class Mistaken(Exception):
    """A command failed, or did not print what the page shows."""


def main() -> None:
    """Type every page that is named. Exit status 1 if any is not as it says."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    typed = []
    for name in sys.argv[1:]:
        typed.append(_typed(Path(name)))
        print(json.dumps(asdict(typed[-1])), flush=True)
    sys.exit(any(each.wrong for each in typed))


def _typed(page: Path) -> Typed:
    text, wrong, number, ends_with = page.read_text(encoding="utf-8"), "", 0, ""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="e2cdl-tutorial-") as folder:
        try:
            for block in blocks(text):
                seen, typed = _block(block, text, Path(folder))
                number, ends_with = number + typed, seen or ends_with
        except Mistaken as error:
            wrong = str(error)
    seconds = round(time.monotonic() - began_s, 1)
    return Typed(page=page.stem, seconds=seconds, commands=number, ends_with=ends_with, wrong=wrong)


def _block(block: Block, page: str, folder: Path) -> tuple[str, int]:
    """(the last line that was shown and seen, commands typed). Raises: Mistaken."""
    if block.title:
        (folder / block.title).write_text(block.text, encoding="utf-8")
        return "", 0
    if block.language == "python":
        printed = _run([sys.executable, "-c", block.text], folder).strip()
        if printed not in page:
            raise Mistaken(f"line {block.line} printed {printed!r}, which the page does not show")
        return printed, 1
    if block.language == "console":
        seen = ""
        for command, shown in steps(block):
            output = _run(["bash", "-c", command], folder, shows_failure=bool(shown))
            if not shows(output, shown):
                raise Mistaken(f"line {block.line}: {command}: shown is\n{shown}\nbut it printed\n{output}")
            seen = next((line.strip() for line in reversed(shown.splitlines()) if line.strip() != "..."), seen)
        return seen, sum(1 for _ in steps(block))
    typed = list(commands(block))
    for command in typed:
        _run(["bash", "-c", command], folder)
    return "", len(typed)


def _run(argv: list[str], folder: Path, shows_failure: bool = False) -> str:
    """What it prints. Raises: Mistaken if it fails; where the page shows its output, that decides."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        argv, cwd=folder, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode and not shows_failure:
        raise Mistaken(f"{argv[-1]}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main()
