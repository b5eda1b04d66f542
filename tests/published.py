"""Published E2Clab scenarios, ``shared/published`` beside the checkout, and small applications in place of theirs.

Their applications, checkpoints and data sets were not published. ``standins/`` has some that take the
same command lines and really train; what of a scenario they replace, or leave undone, each test lists.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

STANDINS = Path(__file__).resolve().parent / "standins"


def scenario(repository: Path, name: str, into: Path) -> Path:
    """A copy of the published scenario ``name`` in ``into``; skips where it is absent."""
    for folder in repository.parents:
        if (folder / "shared" / "published").is_dir():
            return Path(shutil.copytree(folder / "shared" / "published" / name, into))
    pytest.skip("there is no shared/published beside this checkout")


def edited(file: Path, *changes: tuple[str, str]) -> None:
    """Replace each first text in ``file``, which must be there, by the second."""
    text = file.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, f"{file.name}: {old!r} is not there"
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
