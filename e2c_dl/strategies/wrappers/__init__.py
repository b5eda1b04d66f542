"""Wrappers of Workers: what a scenario puts between a strategy and its world, all of it in one place.

::

    strategy  ->  compression  ->  batching  ->  the world's worker

What a controller of batches sends is a few bytes of its own, which are not compressed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from e2c_dl.strategies.base import Setting, Worker
from e2c_dl.strategies.batching import controlled
from e2c_dl.strategies.compression import NONE, compressed

__all__ = ["FIXED", "Wrapping"]

FIXED = "fixed"
"""The batching that leaves batches as they are."""


@dataclass(frozen=True, kw_only=True)
class Wrapping:
    """A scenario's wrappers; called with a world's worker, it returns the one that the strategy sees."""

    batching: str = FIXED
    compression: str = NONE
    compression_settings: Mapping[str, Setting] = field(default_factory=dict)

    def __call__(self, worker: Worker) -> Worker:
        """``worker`` in all wrappers. Raises: InputError, if there is none of that name, or it refuses a setting."""
        return compressed(controlled(worker, self.batching), self.compression, self.compression_settings)
