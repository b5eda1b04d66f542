"""Ranges of numbers, each (first, the one behind the last): of segments, or of seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def union(ranges: Iterable[tuple[Number, Number]]) -> list[tuple[Number, Number]]:
    """The same numbers as ranges in order that do not touch."""
    found: list[tuple[Number, Number]] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((first, end))
    return found
