"""Sets of directed links that several strategies name."""

from __future__ import annotations


def any_pair(size: int) -> list[tuple[int, int]]:
    """All directed links among ``size`` ranks, sorted."""
    return [(src, dst) for src in range(size) for dst in range(size) if src != dst]
