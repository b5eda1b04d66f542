"""Seam by which a simulated run is judged while it goes on, and its ranks hear of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from e2c_dl.strategies.base import Verdict


class Judging(Protocol):
    """Judges a run while it goes on, by what its sink has been given."""

    def due(self, now_ns: int) -> bool:
        """Whether it wants to look again; everything recorded so far is then written to the sink."""

    def look(self, now_ns: int) -> None:
        """Judge; spans that end later than ``now_ns`` are not known to anybody yet."""

    def heard(self, rank: int, now_ns: int) -> Sequence[Verdict]:
        """The verdicts that have come to ``rank`` by now, and that it was not given before."""
