"""Code blocks of a page, told apart, and whether a command printed what its block shows. Needs Python alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"^(```+)[ ]*([\w-]*)([^\n]*)\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:\A|\n)\n((?:(?:    [^\n]*)?\n)*    [^\n]*\n)")
_TITLE = re.compile(r'title="([^"]+)"')
_COMMENT = re.compile(r"(?:^|\s)#\s.*$")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A code block of a page: its language (empty: none, or indented), its title, its text."""

    line: int
    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """All code blocks of the Markdown ``page``, in order."""
    found = []
    for match in _FENCE.finditer(page):
        title = _TITLE.search(match[3])
        found.append(Block(line=_line(page, match), language=match[2], title=title[1] if title else "", text=match[4]))
    without = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), page)
    for match in _INDENTED.finditer(without):
        text = re.sub(r"^    ", "", match[1], flags=re.MULTILINE)
        found.append(Block(line=_line(without, match), language="", title="", text=text))
    return sorted(found, key=lambda block: block.line)


def _line(page: str, match: re.Match[str]) -> int:
    return page.count("\n", 0, match.start()) + 1


def commands(block: Block) -> Iterator[str]:
    """What ``block`` has typed into a shell that is ours: every command line that begins with ``e2c-dl``."""
    prompted = any(line.startswith("$ ") for line in block.text.splitlines())
    for line in block.text.replace("\\\n", " ").splitlines():
        typed = line.removeprefix("$ ") if line.startswith("$ ") else "" if prompted else line
        typed = typed.removeprefix("sudo ").strip()
        if typed.startswith("e2c-dl "):
            yield _COMMENT.sub("", typed)


def steps(block: Block) -> Iterator[tuple[str, str]]:
    """(command, what is shown of its output) of a block of the language ``console``."""
    for typed in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = typed.partition("\n")
        yield command, shown


def shows(output: str, shown: str) -> bool:
    """Whether ``output`` is as ``shown``: lines may break elsewhere, and ``...`` stands for anything."""
    words = [re.escape(" ".join(part.split())) for part in shown.split("...")]
    return re.search(r"\s*.*?\s*".join(words), " ".join(output.split()), re.DOTALL) is not None
