"""Verdicts that ranks were told while they trained: ``verdicts.jsonl`` of rank 0's host, a line each."""

from __future__ import annotations

from pathlib import Path

import msgspec

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Slow, Verdict


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict."""

    slow: tuple[Slow, ...]
    at_s: float  # of training: the last that it is given on
    took_s: float  # to judge; virtual: until ranks know it

    @property
    def verdict(self) -> Verdict:
        """What strategies hear of it."""
        return Verdict(slow=self.slow)


def append(file: Path, told: Told) -> None:
    """``told`` is the last line of ``file``. Raises: TrainingError."""
    try:
        with file.open("ab") as opened:
            opened.write(msgspec.json.encode(told) + b"\n")
    except OSError as error:
        raise TrainingError(f"{file}: cannot be written: {error.strerror}; make room there") from error
