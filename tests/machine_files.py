"""This machine's own files, before and after what hosts have written: neither a name nor a byte of them may differ."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

PLACES = ("/etc", "/opt", "/usr", "/srv", os.path.expanduser("~/.ssh"))
"""Where nothing else writes meanwhile, unlike in homes and /tmp."""


def listing() -> str:
    """Every file of PLACES: kind, owner, size, when its content and its entry were changed, and links."""
    argv = ["find", *PLACES, "-printf", r"%p %y%m %U %s %T@ %C@ %l\n"]
    return subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False).stdout


def sums() -> dict[str, str]:
    """What the machine's configuration holds, and what programs read of a home."""
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in _read() if file.is_file()}


def _read() -> Iterator[Path]:
    for place, _, names in os.walk("/etc"):
        yield from (Path(place, name) for name in names)
    yield from (Path.home() / name for name in (".profile", ".bashrc", ".bash_profile", ".ssh/authorized_keys"))


def tops() -> set[str]:
    """Names in / and, hidden ones apart, in the home, where a program that does not ask puts folders of its own."""
    return {f"/{name}" for name in os.listdir("/")} | {str(path) for path in Path.home().glob("[!.]*")}
