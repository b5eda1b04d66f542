"""Files that are written whole or not at all: after a full disk or Ctrl-C the earlier file is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what ``path`` shall hold: it takes ``path``'s place at the end, in one step, unless that failed.

    A link, a device or a pipe (/dev/stdout is one of these) is written to directly. Raises: OSError.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        yield path
        return
    fresh = path.with_name(f".{path.name}.new")
    try:
        yield fresh
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
