"""The strategies that systems are drawn with, their settings, and how much each sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from e2c_dl import strategies
from e2c_dl.strategies.base import Setting

STRATEGIES = strategies.names()
"""Those that are drawn. One more in the registry, and every seed draws other systems."""

SETTINGS: Mapping[str, Sequence[Mapping[str, Setting]]] = {
    "allreduce": ({}, {"tree_below_bytes": 1 << 30}),
    "localsgd": ({"period": 1}, {"period": 2}, {"period": 4}, {"period_within": 1, "period_between": 4}),
    "gaia": ({"selectivity": 0.05}, {"selectivity": 0.5}),  # of shapes alone nothing tells it
    "diloco": ({"period": 2}, {"period": 5}, {"period_within": 2, "period_between": 4}),
}  # others are drawn with their defaults


def messages(name: str, settings: Mapping[str, Setting], size: int, buckets: int) -> int:
    """About how many one iteration sends, at most, but for what a strategy sends in its first iteration alone."""
    pairs, wave = size * (size - 1), 2 * (size - 1)
    match name:
        case "allreduce":
            return buckets * (wave if settings else 2 * pairs)
        case "butterfly":
            return buckets * 2 * pairs
        case "powersgd":
            return buckets * 4 * pairs  # two factors of each
        case "parameterserver":
            return buckets * wave
        case "localsgd" | "diloco":
            return max(1, 2 * pairs // int(settings.get("period", 1)))
        case "ako" | "dlion" | "fastlinks":
            return pairs
        case "hop" | "prague":
            return 7 * size
        case _:
            return wave


def pieces(name: str, settings: Mapping[str, Setting], size: int) -> int:
    """How many messages one vector is: around a ring as many as there are hosts."""
    rings = name in {"localsgd", "diloco", "butterfly", "powersgd"} or (name == "allreduce" and not settings)
    return size if rings else 1
