"""Results of a long campaign, kept one by one: one that is killed goes on where it was.

::

    FILE.jsonl    {"code": "3f0c...", ...}      a line per result, written as it comes; the last may be torn

``code`` names what a result came of, so that results of two versions never mix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Kept:
    """The lines of ``file``, which need not exist yet."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._text = file.read_text(encoding="utf-8") if file.exists() else ""
        self._whole = self._text.endswith("\n") or not self._text  # not where a campaign was killed as it wrote

    def lines(self) -> Iterator[dict[str, Any]]:
        """What was there to begin with."""
        for line in self._text.splitlines():
            try:
                yield json.loads(line)
            except ValueError:  # the last one, where a campaign was killed
                continue

    def add(self, values: Mapping[str, Any]) -> None:
        """Write a line of ``values``."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            torn = "" if self._whole else "\n"
            self._whole = True
            file.write(torn + json.dumps(values) + "\n")


def named(*of: object) -> str:
    """A short name of all that decides what comes: of these values, as ``repr`` has them."""
    return hashlib.sha256(repr(of).encode()).hexdigest()[:16]
