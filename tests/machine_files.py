"""This machine's own files, before and after what hosts have written: neither a name nor a byte of them may differ."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PLACES = ("/etc", "/opt", "/usr", "/srv", os.path.expanduser("~/.ssh"))
"""Where nothing else writes meanwhile."""

BUSY = (os.path.expanduser("~"), "/tmp", "/var")
"""Where other programs do: what hosts wrote there is known by a mark in it, and by what they would have changed."""
_MARK = "of-a-host-"
_READ_BYTES = 1 << 20


def listing() -> str:
    """Every file of PLACES: kind, owner, size, when its content and its entry were changed, and links."""
    argv = ["find", *PLACES, "-printf", r"%p %y%m %U %s %T@ %C@ %l\n"]
    return subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False).stdout


def sums() -> dict[str, str]:
    """What the machine's configuration holds, and what programs read of a home; links to what the kernel tells (of
    mounts, which others' containers have meanwhile) are listed, and not read."""
    own = [file for file in _read() if file.is_file() and not file.resolve().is_relative_to("/proc")]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in own}


def _read() -> Iterator[Path]:
    for place, _, names in os.walk("/etc"):
        yield from (Path(place, name) for name in names)
    yield from (Path.home() / name for name in (".profile", ".bashrc", ".bash_profile", ".ssh/authorized_keys"))


def tops() -> set[str]:
    """Names in / and, hidden ones apart, in the home, where a program that does not ask puts folders of its own."""
    return {f"/{name}" for name in os.listdir("/")} | {str(path) for path in Path.home().glob("[!.]*")}


def _all() -> set[str]:
    return {*listing().splitlines(), *(f"{file}: {digest}" for file, digest in sums().items())}


@contextmanager
def unchanged(besides: Path) -> Iterator[str]:
    """A law: hosts may write the mark that this yields wherever they like, and the machine stays as it is.

    In PLACES every file is as it was. In those that are BUSY no file that was changed meanwhile has the mark in it or
    in its name, but for what is in ``besides``, the test's own; and the folders that :func:`spoils` writes over and
    takes away are there as they were.
    """
    mark = f"{_MARK}{secrets.token_hex(6)}"
    canaries = _canaries(mark)
    for canary in canaries:
        canary.mkdir()
        (canary / "kept").write_text("kept")
    before, names, began_s = _all(), tops(), time.time()
    try:
        yield mark
        changed, more = sorted(_all() ^ before), tops() - names
        assert not changed, changed  # told: outside of a test's module an assertion says no values by itself
        assert not more, more
        for canary in canaries:
            assert {each.name: each.read_text() for each in canary.iterdir()} == {"kept": "kept"}, canary
            assert canary.stat().st_mode & stat.S_IRWXU, canary
        assert list(_marked(mark.encode(), began_s, besides)) == []
    finally:
        for canary in canaries:
            shutil.rmtree(canary)


def spoils(mark: str) -> str:
    """Commands for a host's shell: write ``mark`` over what stands in some folders, and take it away."""
    return "; ".join(
        f"mkdir -p {each}; echo {mark} >{each}/kept; echo {mark} >{each}/{mark}; rm {each}/kept; chmod 0 {each}"
        for each in _canaries(mark)
    )


def _canaries(mark: str) -> list[Path]:
    return [Path(place, mark.replace(_MARK, "canary-")) for place in BUSY if os.access(place, os.W_OK)]


def _marked(mark: bytes, since_s: float, besides: Path) -> Iterator[str]:
    changed = f"-type f -newerct @{since_s:.6f}".split()
    argv = ["find", *BUSY, "-path", str(besides), "-prune", "-o", *changed, "-print0", "-o"]
    argv += ["-name", f"*{os.fsdecode(mark)}*", "-print0"]
    for path in subprocess.run(argv, capture_output=True, check=False).stdout.split(b"\0")[:-1]:
        try:
            if mark in path or mark in _head(path):
                yield os.fsdecode(path)
        except OSError:  # it is another program's, and is gone
            continue


def _head(path: bytes) -> bytes:
    with open(path, "rb") as file:
        return file.read(_READ_BYTES)
