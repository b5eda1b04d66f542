"""Rooms that each benchmark measures, and what stands in them: by git's own tree hashes, computed from the files.

::

    benchmarks/README.md    | relay | `e2c_dl/emulation/relay` |          the rooms of each benchmark
    results/relay.json      "rooms": {"e2c_dl/emulation/relay": "5c1e..."}    what stood there when it was measured
    now                     `git rev-parse HEAD:e2c_dl/emulation/relay`   the same hash, if nothing changed since

Contents are compared and not commits: these hashes are the same in any clone, however shallow, and whatever becomes of
history; no git is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "benchmarks" / "README.md"
_ROW = re.compile(r"^\| (\w+) \| ((?:`[\w/.-]+` ?)+)\|$", re.MULTILINE)
_LEFT_OUT = frozenset({"__pycache__"})


def rooms() -> dict[str, tuple[str, ...]]:
    """Benchmark -> the folders and files that it measures, as the README's table has them."""
    found = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {name: tuple(re.findall(r"`([^`]+)`", its)) for name, its in found}


def hashes(names: tuple[str, ...], root: Path = ROOT) -> dict[str, str]:
    """Room -> what stands in it now."""
    return {name: _hash(root / name) for name in names}


def changed(then: Mapping[str, str], root: Path = ROOT) -> list[str]:
    """The rooms of ``then`` in which something else stands now."""
    return [name for name, hashed in then.items() if not (root / name).exists() or _hash(root / name) != hashed]


def _hash(path: Path) -> str:
    """Git's name of the tree or blob at ``path``."""
    if path.is_symlink():
        return _named("blob", os.fsencode(os.readlink(path)))
    if not path.is_dir():
        return _named("blob", path.read_bytes())
    entries = []
    for entry in path.iterdir():
        if entry.name not in _LEFT_OUT and (not entry.is_dir() or any(entry.rglob("*.*"))):  # git knows no empty folder
            is_tree = entry.is_dir() and not entry.is_symlink()
            key = os.fsencode(entry.name) + (b"/" if is_tree else b"")  # git's order: as if a folder ended with a slash
            entries.append((key, _mode(entry) + b" " + os.fsencode(entry.name) + b"\0" + bytes.fromhex(_hash(entry))))
    return _named("tree", b"".join(line for _, line in sorted(entries)))


def _mode(path: Path) -> bytes:
    if path.is_symlink():
        return b"120000"
    if path.is_dir():
        return b"40000"
    return b"100755" if path.stat().st_mode & 0o100 else b"100644"


def _named(kind: str, content: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
